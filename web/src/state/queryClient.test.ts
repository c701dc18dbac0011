import { QueryObserver } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import { PageQueryClient } from "@/state/queryClient";

const queryKey = ["files"];

/** Watches a query whose first response comes when `answer` is called. */
function watchFiles() {
  const queries = new PageQueryClient();
  let answer = (_: string) => {};
  const queryFn = vi.fn(() => Promise.resolve("after"));
  queryFn.mockImplementationOnce(() => new Promise((resolve) => (answer = resolve)));
  const observer = new QueryObserver(queries, { queryKey, queryFn });
  const stop = observer.subscribe(() => {});
  return { queries, observer, queryFn, stop, answer: (text: string) => answer(text) };
}

test("a first response that was requested before a change is not shown", async () => {
  const { queries, observer, answer, stop } = watchFiles();
  await queries.invalidateQueries({ queryKey });
  answer("before");
  expect(await queries.ensureQueryData({ queryKey })).toBe("after");
  expect(observer.getCurrentResult()).toMatchObject({ data: "after", isFetching: false });
  stop();
});

test("who waits for the first response gets the one after the change", async () => {
  const { queries, answer, stop } = watchFiles();
  const waiting = queries.fetchQuery({ queryKey });
  await queries.invalidateQueries({ queryKey });
  answer("before");
  expect(await waiting).toBe("after");
  stop();
});

test("requests of other queries stay", async () => {
  const { queries, answer, queryFn, stop } = watchFiles();
  await queries.invalidateQueries({ queryKey: ["skills"] });
  answer("before");
  expect(await queries.ensureQueryData({ queryKey })).toBe("before");
  expect(queryFn).toHaveBeenCalledOnce();
  stop();
});

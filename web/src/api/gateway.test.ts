import { expect, test } from "vitest";
import { createGateway, type Gateway, type NewRun } from "@/api/gateway";

const run: NewRun = { messageId: "m", text: "hi", model: null, thinking: null, planMode: false };

/** Return the body of the request that `ask` sends. */
async function bodyOf(ask: (gateway: Gateway, signal: AbortSignal) => Promise<Response>) {
  const bodies: string[] = [];
  const gateway = createGateway(async (_, options) => {
    bodies.push(String(options?.body));
    return new Response();
  });
  await ask(gateway, new AbortController().signal);
  return JSON.parse(bodies[0] ?? "null");
}

/** Return the context of a started run. */
async function contextOf(given: NewRun): Promise<unknown> {
  return (await bodyOf((gateway, signal) => gateway.startRun("t", given, signal))).context;
}

test("a run request has only the chosen settings", async () => {
  expect(await contextOf(run)).toEqual({});
  expect(await contextOf({ ...run, model: "big", thinking: false, planMode: true })).toEqual({
    model_name: "big",
    thinking_enabled: false,
    is_plan_mode: true,
  });
});

test("a resumed run sends decisions instead of a message", async () => {
  const decisions = [{ type: "approve" }] as const;
  const { messageId: _, text: __, ...settings } = run;
  const started = await bodyOf((gateway, signal) => gateway.startRun("t", run, signal));
  const resumed = await bodyOf((gateway, signal) =>
    gateway.resumeRun("t", { ...settings, decisions }, signal),
  );
  expect(resumed.command).toEqual({ resume: { decisions } });
  expect(resumed.input).toBeUndefined();
  expect(resumed.stream_mode).toEqual(["messages-tuple", "changes", "custom"]);
  expect(resumed.stream_mode).toEqual(started.stream_mode);
});

test("all pages of a run's custom events are loaded", async () => {
  const asked: (string | null)[] = [];
  const gateway = createGateway(async (url) => {
    const after = new URL(String(url), "http://x").searchParams.get("after_seq");
    asked.push(after);
    const data = [{ data: `after ${after}` }];
    return Response.json({ data, has_more: after === "0", next_after_seq: 1000 });
  });
  expect(await gateway.reports("t", "r")).toEqual(["after 0", "after 1000"]);
  expect(asked).toEqual(["0", "1000"]);
});

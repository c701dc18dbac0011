import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { WireMessage } from "@/api/wire";
import { encodeEvent, fakeGateway, openStream, type WireEvent } from "@/testing/gateway";
import { showPage } from "@/testing/page";
import { call, calling, progress, result } from "@/testing/tools";

const WORKSPACE = "/mnt/user-data/workspace";

function showThread(...messages: readonly WireMessage[]): void {
  showPage(fakeGateway({ messagePage: async () => ({ messages }) }), { path: "/threads/t" });
}

function reads(id: string, path: string, status = "success"): readonly WireMessage[] {
  return [calling(call(id, "read_file", { path })), result(id, `text of ${path}`, status)];
}

const card = (name: RegExp) => screen.findByRole("button", { name });

test("a command expands to description, input and output", async () => {
  const args = { description: "Count the words", command: "wc -w report.md\nls" };
  showThread(calling(call("c", "bash", args)), result("c", "120 report.md"));
  await userEvent.click(await card(/^Count the words$/));
  expect(screen.getByText(/wc -w report\.md\s+ls/).tagName).toBe("PRE");
  expect(screen.getByText("120 report.md")).toBeTruthy();
});

test("a failed command expands itself and shows the exit code", async () => {
  showThread(calling(call("c", "bash", { command: "make" })), result("c", "no rule\n[exit code 2]"));
  expect((await card(/Ran\s*make\s*exit code 2/)).getAttribute("aria-expanded")).toBe("true");
});

test("only a command has an exit code", async () => {
  showThread(calling(call("c", "read_file", { path: "/w/log" })), result("c", "[exit code 2]"));
  expect((await card(/Read\s*log$/)).getAttribute("aria-expanded")).toBe("false");
});

test("a written file expands to its text without the tool's confirmation", async () => {
  const args = { description: "Draw", path: `${WORKSPACE}/chart.py`, content: "import this\n" };
  showThread(calling(call("c", "write_file", args)), result("c", "OK"));
  await userEvent.click(await card(/Wrote\s*chart\.py/));
  expect(screen.getByText("import this")).toBeTruthy();
  expect(screen.getByText(`${WORKSPACE}/chart.py`)).toBeTruthy();
  expect(screen.queryByText("OK")).toBeNull();
});

test("an edit expands to its diff", async () => {
  const args = { path: "/a/chart.py", old_str: "a = 1\nshow()", new_str: "a = 2\nshow()" };
  showThread(calling(call("c", "str_replace", args)), result("c", "OK"));
  await userEvent.click(await card(/Edited\s*chart\.py/));
  const lines = [...(screen.getByText("a = 1").closest("pre")?.children ?? [])];
  expect(lines.map(({ textContent }) => textContent)).toEqual(["−a = 1", "+a = 2", " show()"]);
});

test("a failed edit expands itself and shows the reason", async () => {
  const args = { path: "/a/chart.py", old_str: "a", new_str: "b" };
  showThread(calling(call("c", "str_replace", args)), result("c", "found twice", "error"));
  expect((await card(/Failed to edit\s*chart\.py/)).getAttribute("aria-expanded")).toBe("true");
  expect(screen.getByText("found twice")).toBeTruthy();
});

test("invalid JSON arguments are shown as text", async () => {
  showThread(calling(call("c", "bash", '{"command": "ls')), result("c", "not JSON", "error"));
  await card(/Failed to run/);
  expect(screen.getByText('{"command": "ls')).toBeTruthy();
});

test("a rejected call is not a failure", async () => {
  const text = "User rejected the tool call for `bash` with reason: too risky";
  showThread(calling(call("c", "bash", { command: "rm x" })), result("c", text, "error"));
  const line = await card(/You denied\s*rm x/);
  expect(line.getAttribute("aria-expanded")).toBe("false");
  await userEvent.click(line);
  expect(screen.getByText("too risky")).toBeTruthy();
});

test("an edited call shows the arguments that were run", async () => {
  const note =
    'Note: a human reviewer replaced this tool call before it ran. Executed instead: bash with arguments {"command": "ls"}.';
  const text = `${note}\n\nTool response:\na.csv`;
  showThread(calling(call("c", "bash", { command: "rm x" })), result("c", text));
  await userEvent.click(await card(/Ran\s*ls\s*Edited by you/));
  expect(screen.getByText("a.csv")).toBeTruthy();
  expect(screen.queryByText(/human reviewer/)).toBeNull();
});

test("three consecutive reads are grouped", async () => {
  showThread(...reads("c1", "/w/a.md"), ...reads("c2", "/w/b.md"), ...reads("c3", "/w/c.md"));
  const group = await card(/^Read 3 files$/);
  expect(document.querySelectorAll("[data-role=assistant]")).toHaveLength(1);
  await userEvent.click(group);
  await userEvent.click(await card(/^Read\s*b\.md/));
  expect(screen.getByText("text of /w/b.md")).toBeTruthy();
});

test("two reads, or reads separated by text or a failure, are not grouped", async () => {
  showThread(
    ...reads("c1", "/w/a.md"),
    ...reads("c2", "/w/b.md"),
    { type: "ai", id: "text", content: "Two read." },
    ...reads("c3", "/w/c.md"),
    ...reads("c4", "/w/d.md", "error"),
    ...reads("c5", "/w/e.md"),
  );
  expect(await card(/^Read\s*a\.md/)).toBeTruthy();
  expect(screen.queryByRole("button", { name: /files$/ })).toBeNull();
});

test("live output of a command is shown until its result replaces it", async () => {
  const stream = openStream();
  let seq = 0;
  const say = (...events: readonly WireEvent[]) => {
    for (const event of events) stream.write(encodeEvent(++seq, event));
  };
  showPage(fakeGateway({ startRun: async () => stream.response }));
  await userEvent.type(await screen.findByRole("textbox"), "build{Enter}");
  say(["changes", { messages: [calling(call("c", "bash", { command: "make" }))] }]);
  const line = await card(/Running\s*make/);
  expect(line.getAttribute("aria-expanded")).toBe("false");

  say(progress("c", "step 1\nstep "), progress("c", "2\n"));
  const output = await screen.findByText(/step 1\s+step 2/);
  say(progress("c", Array.from({ length: 40 }, (_, at) => `late ${at}`).join("\n")));
  await waitFor(() => expect(output.textContent?.split("\n")).toHaveLength(20));
  expect(output.textContent).toContain("late 39");

  say(["changes", { messages: [result("c", "all of it")] }]);
  await waitFor(() => expect(line.getAttribute("aria-expanded")).toBe("false"));
  await userEvent.click(await card(/Ran\s*make/));
  expect(screen.getByText("all of it")).toBeTruthy();
  expect(screen.queryByText(/late 39/)).toBeNull();
});

test("a card the user collapsed stays collapsed while its command runs", async () => {
  const stream = openStream();
  showPage(fakeGateway({ startRun: async () => stream.response }));
  await userEvent.type(await screen.findByRole("textbox"), "build{Enter}");
  stream.write(encodeEvent(1, ["changes", { messages: [calling(call("c", "bash", { command: "make" }))] }]));
  stream.write(encodeEvent(2, progress("c", "one\n")));
  await screen.findByText("one");
  await userEvent.click(await card(/Running\s*make/));
  stream.write(encodeEvent(3, progress("c", "two\n")));
  stream.write(encodeEvent(4, ["messages", [{ type: "AIMessageChunk", id: "b", content: "later" }, {}]]));
  await screen.findByText("later");
  expect(screen.queryByText(/two/)).toBeNull();
});

test("presented files are cards with a download and images are shown", async () => {
  const artifacts = ["/mnt/user-data/outputs/a b.png", "/mnt/user-data/outputs/data.csv"];
  const args = { filepaths: [...artifacts, "/mnt/user-data/outputs/gone.md"] };
  const messages = [calling(call("c", "present_files", args)), result("c", "Presented")];
  showPage(fakeGateway({ messagePage: async () => ({ messages, artifacts }) }), { path: "/threads/t" });
  const list = await screen.findByRole("list", { name: "Files" });
  expect(within(list).getAllByRole("listitem")).toHaveLength(2);
  expect(within(list).getByRole("img").getAttribute("src")).toBe(
    "/api/threads/t/artifacts/mnt/user-data/outputs/a%20b.png",
  );
  expect(within(list).getByText("PNG image")).toBeTruthy();
  expect(within(list).getByText("CSV table")).toBeTruthy();
  expect(within(list).getByRole("link", { name: "Download data.csv" }).getAttribute("href")).toBe(
    "/api/threads/t/artifacts/mnt/user-data/outputs/data.csv?download=true",
  );
});

test("an image that fails to load leaves its card", async () => {
  const artifacts = ["/mnt/user-data/outputs/a.png"];
  const messages = [calling(call("c", "present_files", { filepaths: artifacts })), result("c", "Presented")];
  showPage(fakeGateway({ messagePage: async () => ({ messages, artifacts }) }), { path: "/threads/t" });
  (await screen.findByRole("img")).dispatchEvent(new Event("error"));
  await waitFor(() => expect(screen.queryByRole("img")).toBeNull());
  expect(screen.getByRole("link", { name: "Download a.png" })).toBeTruthy();
});

test("a failed presentation is a tool call", async () => {
  const args = { filepaths: ["/mnt/user-data/outputs/a.png"] };
  showThread(calling(call("c", "present_files", args)), result("c", "no such file", "error"));
  expect(await card(/Failed to present\s*a\.png/)).toBeTruthy();
  expect(screen.queryByRole("img")).toBeNull();
});

import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { Gateway, ResumedRun } from "@/api/gateway";
import { ApiError, NetworkError } from "@/api/http";
import type { ThreadValues, WireMessage, WireRun, WireToolCall } from "@/api/wire";
import { encodeEvent, fakeGateway, openStream, streamOf } from "@/testing/gateway";
import { showPage } from "@/testing/page";
import { asking, call, calling, result } from "@/testing/tools";

const count = call("c1", "word_count", { text: "one\n\ntwo", language: "en" });
const remove = call("c2", "bash", { description: "Clean up", command: "rm -r data" });
const look = call("c3", "read_file", { path: "/mnt/user-data/workspace/a.md" });
const human: WireMessage = { type: "human", id: "h", content: "go" };
const interrupted: WireRun = { run_id: "r", status: "interrupted", created_at: "", updated_at: "" };

/** Open a thread paused on these calls; returns the submitted decisions. */
function showPaused(
  asked: readonly WireToolCall[],
  { besides = [] as readonly WireToolCall[], answers = {} as Partial<Gateway> } = {},
): readonly ResumedRun[] {
  const resumed: ResumedRun[] = [];
  const values = { messages: [human, calling(...asked, ...besides)], __interrupt__: asking(...asked) };
  const gateway = fakeGateway({
    messagePage: async () => values,
    newestRun: async () => interrupted,
    resumeRun: async (_, run) => {
      resumed.push(run);
      const results = asked.map(({ id }) => result(id ?? "", "done"));
      return streamOf([
        ["changes", { messages: results }],
        ["messages", [{ type: "AIMessageChunk", id: "b", content: "Good." }, {}]],
        ["end", null],
      ]);
    },
    ...answers,
  });
  showPage(gateway, { path: "/threads/t" });
  return resumed;
}

const block = () => screen.findByRole("group", { name: /^Approval needed/ });
const press = (name: string) => userEvent.click(screen.getByRole("button", { name }));

test("a call that needs approval is shown with its arguments instead of its card", async () => {
  showPaused([count], { besides: [look] });
  const group = await block();
  expect(within(group).getByText("Use")).toBeTruthy();
  expect(within(group).getByText("word_count")).toBeTruthy();
  const fields = within(group)
    .getAllByRole("term")
    .map((term) => term.textContent);
  expect(fields).toEqual(["Text", "Language"]);
  expect(
    within(group)
      .getAllByRole("definition")
      .map((value) => value.textContent),
  ).toEqual(["one\n\ntwo", "en"]);
  expect(screen.queryByRole("button", { name: /word_count/ })).toBeNull();
  expect(screen.getByRole("button", { name: /Reading\s*a\.md\s*Waiting for you/ })).toBeTruthy();
  expect(screen.queryByText(/stopped/i)).toBeNull();
  expect(screen.getAllByText("Approval needed")).toHaveLength(2);
});

test("an approved action runs and the form disappears", async () => {
  const resumed = showPaused([count]);
  await block();
  await press("Allow once");
  expect(await screen.findByText("Good.")).toBeTruthy();
  expect(resumed.map(({ decisions }) => decisions)).toEqual([[{ type: "approve" }]]);
  expect(screen.queryByRole("group")).toBeNull();
  expect(screen.getByRole("button", { name: /Used\s*word_count/ })).toBeTruthy();
});

test("a command is edited as text with the keyboard", async () => {
  const resumed = showPaused([remove]);
  const group = await block();
  expect(within(group).getByText("Clean up")).toBeTruthy();
  expect(within(group).getByText("rm -r data").tagName).toBe("PRE");
  within(group).getByRole("button", { name: "Edit" }).focus();
  await userEvent.keyboard("{Enter}");
  const field = within(group).getByRole<HTMLTextAreaElement>("textbox", { name: "Command" });
  expect(document.activeElement).toBe(field);
  expect(field.value).toBe("rm -r data");
  await userEvent.clear(field);
  await userEvent.keyboard("ls data{Control>}{Enter}{/Control}");
  await screen.findByText("Good.");
  const args = { description: "Clean up", command: "ls data" };
  expect(resumed[0]?.decisions).toEqual([{ type: "edit", edited_action: { name: "bash", args } }]);
});

test("each argument is edited in a field of its own, and keeps its type", async () => {
  const resumed = showPaused([call("c1", "word_count", { text: "one\n\ntwo", limit: 3 })]);
  const group = await block();
  await press("Edit");
  const limit = within(group).getByRole("textbox", { name: "Limit" });
  await userEvent.clear(limit);
  await userEvent.type(limit, "many");
  await press("Allow with changes");
  expect(within(group).getByRole("alert").textContent).toBe("Not a valid value");
  expect(limit.getAttribute("aria-invalid")).toBe("true");
  expect(resumed).toEqual([]);
  await userEvent.clear(limit);
  expect(within(group).queryByRole("alert")).toBeNull();
  await userEvent.type(limit, "12");
  await press("Allow with changes");
  await screen.findByText("Good.");
  const edited_action = { name: "word_count", args: { text: "one\n\ntwo", limit: 12 } };
  expect(resumed[0]?.decisions).toEqual([{ type: "edit", edited_action }]);
});

test("allowing in the thread is part of the decision, and says what is allowed", async () => {
  const resumed = showPaused([count]);
  const button = within(await block()).getByRole("button", { name: "Allow in this thread" });
  const note = document.getElementById(button.getAttribute("aria-describedby") ?? "");
  expect(note?.textContent).toContain("later calls of word_count in this thread run without asking");
  await userEvent.click(button);
  await screen.findByText("Good.");
  expect(resumed[0]?.decisions).toEqual([{ type: "approve", scope: "thread" }]);
});

/** Open a thread paused by the policy. */
function showPolicyQuestion(permission: object | undefined): void {
  const [interrupt] = asking(count);
  const value = { ...(interrupt?.value as object), asked_by: "guardrail", ...(permission && { permission }) };
  const values = { messages: [human, calling(count)], __interrupt__: [{ id: "i", value }] };
  showPage(fakeGateway({ messagePage: async () => values, newestRun: async () => interrupted }), {
    path: "/threads/t",
  });
}

test("a rule that cannot be allowed in the thread offers only once", async () => {
  showPolicyQuestion(undefined);
  const group = await block();
  expect(within(group).getByRole("button", { name: "Allow once" })).toBeTruthy();
  expect(within(group).queryByRole("button", { name: "Allow in this thread" })).toBeNull();
});

test("a permission names the hosts it is limited to", async () => {
  showPolicyQuestion({ rule: "new-address", hosts: ["example.org"] });
  expect(within(await block()).getByText(/word_count to example\.org run without asking/)).toBeTruthy();
});

test("a policy rule explains itself in the language of the page", async () => {
  const [interrupt] = asking(count);
  const value = { ...(interrupt?.value as object), reasons: [{ code: "new-address", message: "raw" }] };
  const values = { messages: [human, calling(count)], __interrupt__: [{ id: "i", value }] };
  showPage(fakeGateway({ messagePage: async () => values, newestRun: async () => interrupted }), {
    path: "/threads/t",
  });
  expect(within(await block()).getByText(/^The agent composed this address\./)).toBeTruthy();
});

test("the record says that the thread allowed a call", async () => {
  const allowed = { ...result("c1", "2 words"), additional_kwargs: { allowed_in_thread: true } };
  const metadata = new Map([
    ["a-c1", { runId: "r1", at: 0 }],
    ["t-c1", { runId: "r1", at: 60_000 }],
  ]);
  const messages = [human, calling(count), allowed];
  showPage(fakeGateway({ messagePage: async () => ({ messages, metadata }) }), { path: "/threads/t" });
  expect((await screen.findByRole("button", { name: /word_count/ })).textContent).toContain(
    "Allowed in this thread",
  );
});

test("the record says who allowed a call", async () => {
  const metadata = new Map([
    ["a-c1", { runId: "r1", at: 0 }],
    ["t-c1", { runId: "r2", at: 60_000 }],
  ]);
  const messages = [human, calling(count), result("c1", "2 words")];
  showPage(fakeGateway({ messagePage: async () => ({ messages, metadata }) }), { path: "/threads/t" });
  const card = await screen.findByRole("button", { name: /Used\s*word_count/ });
  expect(card.textContent).toMatch(/Allowed by you, \d/);
  expect(card.textContent).not.toContain("min");
});

test("an action is rejected with or without a reason", async () => {
  const resumed = showPaused([count]);
  await block();
  await press("Deny");
  expect(document.activeElement).toBe(screen.getByRole("textbox", { name: /^Reason/ }));
  await userEvent.keyboard("  not today {Enter}");
  await screen.findByText("Good.");
  expect(resumed[0]?.decisions).toEqual([{ type: "reject", message: "not today" }]);
});

test("a rejection needs no reason", async () => {
  const resumed = showPaused([count]);
  await block();
  await press("Deny");
  await press("Deny");
  await screen.findByText("Good.");
  expect(resumed[0]?.decisions).toEqual([{ type: "reject" }]);
});

test("Escape closes a form without a decision and restores focus", async () => {
  const resumed = showPaused([count]);
  await block();
  for (const name of ["Edit", "Deny"]) {
    await press(name);
    await userEvent.keyboard("{Escape}");
    expect(document.activeElement).toBe(screen.getByRole("button", { name }));
  }
  expect(resumed).toEqual([]);
});

test("several decisions are submitted together", async () => {
  const resumed = showPaused([count, remove]);
  const group = await block();
  expect(within(group).getByText("Approval needed for 2 actions")).toBeTruthy();
  const [first, second] = within(group).getAllByRole("listitem") as [HTMLElement, HTMLElement];
  const goOn = within(group).getByRole<HTMLButtonElement>("button", { name: "Continue" });
  await userEvent.click(within(first).getByRole("button", { name: "Allow once" }));
  expect(within(group).getByText("1 of 2 decided")).toBeTruthy();
  expect(document.activeElement).toBe(within(second).getByRole("button", { name: "Allow once" }));
  expect(goOn.disabled).toBe(true);
  expect(within(group).queryByRole("button", { name: "Allow all once" })).toBeNull();
  await userEvent.click(within(first).getByRole("button", { name: "Edit decision" }));
  expect(document.activeElement).toBe(within(first).getByRole("button", { name: "Allow once" }));

  await userEvent.click(within(second).getByRole("button", { name: "Edit" }));
  await userEvent.type(within(second).getByRole("textbox"), "/old");
  await userEvent.click(within(second).getByRole("button", { name: "Allow with changes" }));
  expect(within(second).getByText("rm -r data/old")).toBeTruthy();
  await userEvent.click(within(first).getByRole("button", { name: "Deny" }));
  await userEvent.keyboard("no{Enter}");
  expect(document.activeElement).toBe(goOn);
  await userEvent.keyboard("{Enter}");
  await screen.findByText("Good.");
  const args = { description: "Clean up", command: "rm -r data/old" };
  expect(resumed[0]?.decisions).toEqual([
    { type: "reject", message: "no" },
    { type: "edit", edited_action: { name: "bash", args } },
  ]);
});

test("several actions are approved at once", async () => {
  const resumed = showPaused([count, remove]);
  await block();
  await press("Allow all once");
  await screen.findByText("Good.");
  expect(resumed[0]?.decisions).toEqual([{ type: "approve" }, { type: "approve" }]);
});

test("a decision that failed to send can be repeated", async () => {
  const answers = [
    async () => Promise.reject(new NetworkError("away")),
    async () => streamOf([["end", null]]),
  ];
  showPaused([count], { answers: { resumeRun: () => (answers.shift() ?? (async () => streamOf([])))() } });
  const group = await block();
  await press("Allow once");
  const alert = await screen.findByRole("alert");
  expect(alert.textContent).toContain("Couldn’t submit your decisionThe server didn’t respond.");
  expect(screen.queryByRole("button", { name: "Resend" })).toBeNull();
  await userEvent.click(within(group).getByRole("button", { name: "Allow once" }));
  await waitFor(() => expect(screen.queryByRole("group")).toBeNull());
  expect(screen.queryByRole("alert")).toBeNull();
});

test("a rejected decision shows the reason", async () => {
  const resumeRun = async () => Promise.reject(new ApiError("InvalidRequest", 422, "one for each call"));
  showPaused([count], { answers: { resumeRun } });
  await block();
  await press("Allow once");
  expect((await screen.findByRole("alert")).textContent).toContain("One for each call.");
});

test("the thread is reloaded if another page has decided", async () => {
  const values = { messages: [human, calling(count)], __interrupt__: asking(count) };
  let known: ThreadValues = values;
  const resumeRun = async () => {
    known = { messages: [...values.messages, result("c1", "2 words")] };
    return Promise.reject(new ApiError("Conflict", 409, "nothing waits for an answer"));
  };
  showPaused([count], { answers: { messagePage: async () => known, resumeRun } });
  await block();
  await press("Allow once");
  expect(await screen.findByRole("button", { name: /Used\s*word_count/ })).toBeTruthy();
  expect(screen.queryByRole("group")).toBeNull();
  expect(screen.queryByRole("alert")).toBeNull();
});

test("a decision cannot be submitted twice", async () => {
  const resumed: ResumedRun[] = [];
  const resumeRun: Gateway["resumeRun"] = (_, run) => {
    resumed.push(run);
    return new Promise(() => {});
  };
  showPaused([count], { answers: { resumeRun } });
  const group = await block();
  await press("Allow once");
  await userEvent.click(within(group).getByRole("button", { name: "Allow once" }));
  expect(resumed).toHaveLength(1);
  expect((group as HTMLFieldSetElement).disabled).toBe(true);
});

test("a message can be sent instead of a decision", async () => {
  const sent: string[] = [];
  const startRun: Gateway["startRun"] = async (_, { text }) => {
    sent.push(text);
    return streamOf([["end", null]]);
  };
  showPaused([count], { answers: { startRun } });
  await block();
  await userEvent.type(screen.getByRole("textbox", { name: "Message" }), "never mind{Enter}");
  await waitFor(() => expect(screen.queryByRole("group")).toBeNull());
  expect(sent).toEqual(["never mind"]);
});

test("a run that pauses while streaming asks once it has ended", async () => {
  const stream = openStream();
  showPage(fakeGateway({ startRun: async () => stream.response }));
  await userEvent.type(await screen.findByRole("textbox"), "go{Enter}");
  stream.write(encodeEvent(1, ["changes", { messages: [calling(remove)] }]));
  stream.write(encodeEvent(2, ["changes", { values: { __interrupt__: asking(remove) } }]));
  const group = (await block()) as HTMLFieldSetElement;
  expect(group.disabled).toBe(true);
  stream.write(encodeEvent(3, ["end", null]));
  await waitFor(() => expect(group.disabled).toBe(false));
  // Focus must not move to the approve button while the user types.
  expect(group.contains(document.activeElement)).toBe(false);
});

test("the approval form is translated", async () => {
  const values = { messages: [human, calling(remove)], __interrupt__: asking(remove) };
  showPage(fakeGateway({ messagePage: async () => values }), {
    path: "/threads/t",
    preferences: { language: "zh" },
  });
  const group = await screen.findByRole("group", { name: "需要批准" });
  expect(within(group).getByText("运行命令")).toBeTruthy();
  expect(within(group).getByRole("button", { name: "允许一次" })).toBeTruthy();
});

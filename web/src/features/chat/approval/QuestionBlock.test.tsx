import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { WireMessage } from "@/api/wire";
import { encodeEvent, fakeGateway, openStream, streamOf } from "@/testing/gateway";
import { showPage } from "@/testing/page";

const call: WireMessage = {
  type: "ai",
  id: "a",
  tool_calls: [{ id: "c", name: "ask_clarification", args: { question: "Who is it for?" } }],
};

function asks(change: object = {}): WireMessage {
  const human_input = {
    version: 1,
    kind: "human_input_request",
    request_id: "q",
    tool_call_id: "c",
    clarification_type: "approach_choice",
    question: "Who is it for?",
    context: "The tone depends on it.",
    input_mode: "choice_with_other",
    options: [
      { id: "1", label: "My team", value: "team" },
      { id: "2", label: "A customer", value: "customer" },
    ],
    ...change,
  };
  const name = "ask_clarification";
  return { type: "tool", id: "t", name, tool_call_id: "c", content: "Who?", artifact: { human_input } };
}

/** Open a thread with these messages; returns the messages sent. */
function showThread(...messages: readonly WireMessage[]): readonly string[] {
  const sent: string[] = [];
  const gateway = fakeGateway({
    messagePage: async () => ({ messages }),
    startRun: async (_, run) => {
      sent.push(run.text);
      return streamOf([
        ["messages", [{ type: "AIMessageChunk", id: "b", content: "Good." }, {}]],
        ["end", null],
      ]);
    },
  });
  showPage(gateway, { path: "/threads/t" });
  return sent;
}

/** Return the labels of enabled options. */
function choices(group: HTMLElement): readonly (string | null)[] {
  const buttons = within(group).getAllByRole<HTMLButtonElement>("button");
  return buttons.filter(({ disabled }) => !disabled).map(({ textContent }) => textContent);
}

const question = () => screen.findByRole("group", { name: "Who is it for?" });

test("an option is selected with the keyboard, sent as a message and marked", async () => {
  const sent = showThread(call, asks());
  const group = await question();
  expect(within(group).getByText("The tone depends on it.")).toBeTruthy();
  expect(within(group).getByText("Choose an option, or type your own answer below.")).toBeTruthy();
  within(group).getByRole("button", { name: "A customer" }).focus();
  await userEvent.keyboard("{Enter}");

  expect(await screen.findByText("Good.")).toBeTruthy();
  expect(sent).toEqual(["customer"]);
  expect(screen.getByRole("article", { name: "You" }).textContent).toBe("customer");
  expect(choices(group)).toEqual([]);
  expect(within(group).getByRole("button", { name: "Selected: A customer" })).toBeTruthy();
  expect(within(group).queryByText(/Choose one/)).toBeNull();
  await userEvent.click(within(group).getByRole("button", { name: "My team" }));
  expect(sent).toEqual(["customer"]);
});

test("a free-text answer marks no option", async () => {
  const sent = showThread(call, asks());
  await question();
  await userEvent.type(screen.getByRole("textbox"), "the board{Enter}");
  expect(await screen.findByText("Good.")).toBeTruthy();
  expect(sent).toEqual(["the board"]);
  expect(choices(await question())).toEqual([]);
  expect(screen.queryByRole("button", { name: /^Chosen/ })).toBeNull();
});

test("the draft is kept when an option is selected", async () => {
  showThread(call, asks());
  const group = await question();
  await userEvent.type(screen.getByRole("textbox"), "half a thought");
  await userEvent.click(within(group).getByRole("button", { name: "My team" }));
  await screen.findByText("Good.");
  expect(screen.getByRole<HTMLTextAreaElement>("textbox").value).toBe("half a thought");
});

test("a question without options points to the composer", async () => {
  showThread(call, asks({ input_mode: "free_text", options: [], context: null }));
  const group = await question();
  expect(within(group).getByText("Answer in the message box below.")).toBeTruthy();
  expect(within(group).queryByRole("button")).toBeNull();
});

test("an answered question of an old thread shows the selected option", async () => {
  showThread(call, asks(), { type: "human", id: "h", content: "team" });
  const group = await question();
  expect(choices(group)).toEqual([]);
  expect(within(group).getByRole("button", { name: "Selected: My team" })).toBeTruthy();
});

test("a question in an unknown format is a tool call", async () => {
  showThread(call, asks({ version: 2 }));
  expect(await screen.findByRole("button", { name: /Asked\s*Who is it for\?/ })).toBeTruthy();
  expect(screen.queryByRole("group")).toBeNull();
});

test("a question can be answered once its run has ended", async () => {
  const stream = openStream();
  showPage(fakeGateway({ startRun: async () => stream.response }));
  await userEvent.type(await screen.findByRole("textbox"), "report{Enter}");
  stream.write(encodeEvent(1, ["changes", { messages: [call, asks()] }]));
  const group = await question();
  expect(choices(group)).toEqual([]);
  stream.write(encodeEvent(2, ["end", null]));
  await waitFor(() => expect(choices(group)).toEqual(["My team", "A customer"]));
  expect(screen.getByText("The agent has a question")).toBeTruthy();
});

const second: WireMessage = {
  type: "ai",
  id: "a",
  tool_calls: [
    { id: "c", name: "ask_clarification", args: { question: "Who is it for?" } },
    { id: "c2", name: "ask_clarification", args: { question: "By when?" } },
  ],
};

function when(): WireMessage {
  const asked = asks({ question: "By when?", context: null, input_mode: "free_text", options: [] });
  return { ...asked, id: "t2", tool_call_id: "c2" };
}

test("several questions are one form and are answered with one message", async () => {
  const sent = showThread(second, asks(), when());
  const form = await screen.findByRole("form", { name: "The agent has 2 questions" });
  expect(within(form).getByText("0 of 2 answered")).toBeTruthy();
  const send = within(form).getByRole<HTMLButtonElement>("button", { name: "Send answers" });
  expect(send.disabled).toBe(true);
  await userEvent.click(within(form).getByRole("button", { name: "A customer" }));
  await userEvent.type(within(form).getByRole("textbox", { name: "Your answer" }), "Friday{Enter}");

  expect(await screen.findByText("Good.")).toBeTruthy();
  expect(sent).toEqual(["Who is it for?\n→ customer\n\nBy when?\n→ Friday"]);
  expect(screen.queryByRole("form", { name: /questions/ })).toBeNull();
  const group = await question();
  expect(within(group).getByRole("button", { name: "Selected: A customer" })).toBeTruthy();
  expect(screen.getByRole("group", { name: "By when?" })).toBeTruthy();
});

test("free text replaces an option and a selection can be cleared", async () => {
  const sent = showThread(second, asks(), when());
  const form = await screen.findByRole("form", { name: "The agent has 2 questions" });
  const team = within(form).getByRole("button", { name: "My team" });
  await userEvent.click(team);
  expect(team.getAttribute("aria-pressed")).toBe("true");
  await userEvent.click(team);
  expect(team.getAttribute("aria-pressed")).toBe("false");
  await userEvent.type(within(form).getByRole("textbox", { name: "Other" }), "the board");
  await userEvent.click(within(form).getByRole("button", { name: "Send answers" }));
  expect(await screen.findByText("Good.")).toBeTruthy();
  expect(sent).toEqual(["Who is it for?\n→ the board"]);
});

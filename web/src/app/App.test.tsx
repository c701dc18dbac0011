import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { NewRun } from "@/api/gateway";
import { ApiError, NetworkError } from "@/api/http";
import type { MessagePage } from "@/api/messagePage";
import type { ModelsAnswer, Starter, WireMessage, WireThread } from "@/api/wire";
import {
  DEMO_MODEL,
  deferred,
  encodeEvent,
  fakeGateway,
  openStream,
  streamOf,
  type WireEvent,
} from "@/testing/gateway";
import { showPage } from "@/testing/page";

const token = (content: string): WireEvent => [
  "messages",
  [{ type: "AIMessageChunk", id: "a", content }, {}],
];
const end: WireEvent = ["end", null];

function thread(id: string, title: string): WireThread {
  const at = new Date().toISOString();
  return { thread_id: id, created_at: at, updated_at: at, status: "idle", metadata: {}, values: { title } };
}

/** Choose an item of a thread's menu. */
async function choose(title: string, item: string): Promise<void> {
  await userEvent.click(await screen.findByRole("button", { name: `Actions for “${title}”` }));
  await userEvent.click(await screen.findByRole("menuitem", { name: item }));
}

async function say(text: string): Promise<void> {
  await userEvent.type(await screen.findByRole("textbox"), `${text}{Enter}`);
}

test("a message is shown at once and its response streams", async () => {
  const stream = openStream();
  const { paths } = showPage(fakeGateway({ startRun: async () => stream.response }));
  await say("hello");
  expect(screen.getByRole("article", { name: "You" }).textContent).toBe("hello");
  expect(paths).toEqual([expect.stringMatching(/^\/threads\/id-/)]);

  stream.write(encodeEvent(1, token("Good ")));
  await screen.findByText("Good");
  stream.write(encodeEvent(2, token("**morning**")));
  expect((await screen.findByText("morning")).tagName).toBe("STRONG");

  stream.write(encodeEvent(3, end));
  await waitFor(() => expect(screen.getByText("Response complete")).toBeTruthy());
  expect(screen.getByRole("button", { name: "Send" })).toBeTruthy();
});

test("Shift+Enter adds a line, Enter sends", async () => {
  showPage(fakeGateway({ startRun: async () => streamOf([end]) }));
  await userEvent.type(await screen.findByRole("textbox"), "one{Shift>}{Enter}{/Shift}two{Enter}");
  expect(screen.getByRole("article", { name: "You" }).textContent).toBe("one\ntwo");
});

test("an empty message is not sent", async () => {
  const { paths } = showPage(fakeGateway());
  await say("   ");
  expect(paths).toEqual([]);
});

test("Escape stops the run and keeps the output", async () => {
  const stream = openStream();
  const cancelled: string[] = [];
  showPage(
    fakeGateway({
      startRun: async () => stream.response,
      cancelRun: async (_, runId) => {
        cancelled.push(runId);
        stream.write(encodeEvent(2, end));
      },
    }),
  );
  await say("hello");
  stream.write(encodeEvent(1, token("half an ans")));
  await screen.findByText("half an ans");
  await userEvent.keyboard("{Escape}");
  expect(await screen.findByText("Response stopped")).toBeTruthy();
  expect(screen.getByText("half an ans")).toBeTruthy();
  expect(cancelled).toEqual(["r"]);
});

test("arrow up recalls the last message in the empty composer", async () => {
  showPage(fakeGateway({ startRun: async () => streamOf([end]) }));
  await say("first try");
  await userEvent.type(screen.getByRole("textbox"), "{ArrowUp}");
  expect(screen.getByRole<HTMLTextAreaElement>("textbox").value).toBe("first try");
});

test("a message that failed to send is kept and can be resent", async () => {
  const answers = [
    async () => Promise.reject(new NetworkError("away")),
    async () => streamOf([token("here now"), end]),
  ];
  showPage(fakeGateway({ startRun: () => (answers.shift() ?? (async () => streamOf([end])))() }));
  await say("hello");
  expect((await screen.findByRole("alert")).textContent).toContain("Your message is still here");
  await userEvent.click(screen.getByRole("button", { name: "Resend" }));
  expect(await screen.findByText("here now")).toBeTruthy();
  expect(screen.getAllByRole("article", { name: "You" })).toHaveLength(1);
});

test("a failed run shows the reason and keeps the output", async () => {
  const error: WireEvent = [
    "error",
    { error: "ModelError", name: "ModelError", message: "the model went away" },
  ];
  showPage(fakeGateway({ startRun: async () => streamOf([token("half"), error, end]) }));
  await say("hello");
  const alert = await screen.findByRole("alert");
  expect(alert.textContent).toContain("The model went away. The output so far is kept above.");
  expect(screen.getByText("half")).toBeTruthy();
});

test("a lost connection is shown and restored", async () => {
  const rejoined = openStream();
  showPage(
    fakeGateway({ startRun: async () => streamOf([token("one ")]), joinRun: async () => rejoined.response }),
  );
  await say("hello");
  await screen.findByText("one");
  rejoined.write(encodeEvent(2, token("two")) + encodeEvent(3, end));
  expect(await screen.findByText("one two")).toBeTruthy();
  expect(screen.queryByText(/Reconnecting/)).toBeNull();
});

test("an opened thread shows its messages, with collapsed tool calls and expanded failed ones", async () => {
  const messages: WireMessage[] = [
    { type: "human", id: "h", content: "list it" },
    {
      type: "ai",
      id: "a",
      content: "",
      additional_kwargs: { reasoning_content: "I should look." },
      tool_calls: [
        { id: "c1", name: "bash", args: { command: "ls data" } },
        { id: "c2", name: "weather", args: { city: "Ulm" } },
      ],
    },
    { type: "tool", id: "t1", tool_call_id: "c1", content: "a.csv", status: "success" },
    { type: "tool", id: "t2", tool_call_id: "c2", content: "no such city", status: "error" },
  ];
  showPage(fakeGateway({ messagePage: async () => ({ messages, title: "Files" }) }), { path: "/threads/t" });

  const good = await screen.findByRole("button", { name: /Ran\s*ls data/ });
  expect(good.getAttribute("aria-expanded")).toBe("false");
  expect(screen.queryByText("a.csv")).toBeNull();
  await userEvent.click(good);
  expect(screen.getByText("a.csv")).toBeTruthy();

  expect(screen.getByRole("button", { name: /Failed to use\s*weather/ }).getAttribute("aria-expanded")).toBe(
    "true",
  );
  expect(screen.getByText("no such city")).toBeTruthy();
  expect(screen.getByText("Reasoning")).toBeTruthy();
  expect(screen.getByRole("heading", { level: 1 }).textContent).toBe("Files");
});

test("an active run is joined from its first event", async () => {
  const joined: (number | null)[] = [];
  showPage(
    fakeGateway({
      messagePage: async () => ({ messages: [{ type: "human", id: "h", content: "hi" }] }),
      newestRun: async () => ({ run_id: "r", status: "running", created_at: "", updated_at: "" }),
      joinRun: async (_, __, after) => {
        joined.push(after);
        return streamOf([token("joined"), end]);
      },
    }),
    { path: "/threads/t" },
  );
  expect(await screen.findByText("joined")).toBeTruthy();
  expect(joined).toEqual([null]);
});

test("a message sent while the thread and the models load is sent exactly once", async () => {
  const runs: NewRun[] = [];
  const page = deferred<MessagePage>();
  const models = deferred<ModelsAnswer>();
  showPage(
    fakeGateway({
      messagePage: () => page.promise,
      models: () => models.promise,
      startRun: async (_, run) => {
        runs.push(run);
        return streamOf([end]);
      },
    }),
    { path: "/threads/t", preferences: { model: "second" } },
  );
  await say("again");
  await userEvent.keyboard("{Enter}");
  expect(runs).toEqual([]);
  page.resolve({ messages: [{ type: "human", id: "h", content: "hi" }] });
  models.resolve({ models: [DEMO_MODEL, { ...DEMO_MODEL, name: "second" }], default: "demo" });
  await waitFor(() => expect(screen.getAllByRole("article", { name: "You" }).length).toBe(2));
  expect(runs).toMatchObject([{ text: "again", model: "second" }]);
  expect(screen.getByRole<HTMLTextAreaElement>("textbox").value).toBe("");
});

test("a missing thread shows an error and a link to a new one", async () => {
  const messagePage = async () => Promise.reject(new ApiError("NotFound", 404, "no thread"));
  showPage(fakeGateway({ messagePage }), { path: "/threads/gone" });
  expect(await screen.findByText("Thread not found")).toBeTruthy();
  await userEvent.click(within(screen.getByRole("alert")).getByRole("button", { name: "New thread" }));
  expect(screen.getByText("What are we working on?")).toBeTruthy();
});

test("loading a thread can be retried", async () => {
  const answers = [
    async () => Promise.reject(new NetworkError("away")),
    async () => ({ messages: [{ type: "ai", id: "a", content: "here" }] }),
  ];
  showPage(fakeGateway({ messagePage: () => (answers.shift() ?? (async () => ({})))() }), {
    path: "/threads/t",
  });
  await userEvent.click(await screen.findByRole("button", { name: "Try again" }));
  expect(await screen.findByText("here")).toBeTruthy();
});

test("a deletion can be undone and is final otherwise", async () => {
  const deleted: string[] = [];
  const gateway = fakeGateway({
    threads: async () => [thread("t1", "Keep me"), thread("t2", "Other")],
    deleteThread: async (id) => void deleted.push(id),
  });
  showPage(gateway);
  await choose("Keep me", "Delete");
  expect(screen.queryByRole("link", { name: "Keep me" })).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Undo" }));
  expect(screen.getByRole("link", { name: "Keep me" })).toBeTruthy();
  expect(deleted).toEqual([]);

  await choose("Other", "Delete");
  window.dispatchEvent(new Event("pagehide"));
  await waitFor(() => expect(deleted).toEqual(["t2"]));
});

test("a thread deleted before a reload is not listed while its deletion is in progress", async () => {
  const wire = { status: "idle", metadata: {}, created_at: "2026-01-01", updated_at: "2026-01-01" } as const;
  const gateway = fakeGateway({
    threads: async () => [
      { ...wire, thread_id: "t1", values: { title: "Stays" } },
      { ...wire, thread_id: "t2", values: { title: "Goes" } },
    ],
  });
  showPage(gateway, { deleting: "t2" });
  expect(await screen.findByRole("link", { name: "Stays" })).toBeTruthy();
  expect(screen.queryByRole("link", { name: "Goes" })).toBeNull();
});

test("the demo model shows a notice and starters", async () => {
  const starters: Starter[] = [
    { id: "tour", title: "Tour", prompt: "show me around", is_plan_mode: false },
    { id: "unknown-one", title: "Something new", prompt: "new", is_plan_mode: false },
  ];
  const sent: string[] = [];
  const gateway = fakeGateway({
    starters: async () => starters,
    startRun: async (_, run) => {
      sent.push(run.text);
      return streamOf([end]);
    },
  });
  showPage(gateway);
  expect(await screen.findByRole("button", { name: "Connect a model" })).toBeTruthy();
  expect(await screen.findByRole("button", { name: "Something new" })).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "What is DeerFlow?" }));
  expect(sent).toEqual(["show me around"]);
});

test("a starter with plan mode keeps it when resent", async () => {
  const sent: NewRun[] = [];
  const answers = [async () => Promise.reject(new NetworkError("away")), async () => streamOf([end])];
  const gateway = fakeGateway({
    starters: async () => [{ id: "plan", title: "Plan", prompt: "plan it", is_plan_mode: true }],
    startRun: (_, run) => {
      sent.push(run);
      return (answers.shift() ?? (async () => streamOf([end])))();
    },
  });
  showPage(gateway);
  await userEvent.click(await screen.findByRole("button", { name: "Plan a project with a to-do list" }));
  await userEvent.click(await screen.findByRole("button", { name: "Resend" }));
  await screen.findByText("Response complete");
  await say("thanks");
  expect(sent.map(({ text, planMode }) => [text, planMode])).toEqual([
    ["plan it", true],
    ["plan it", true],
    ["thanks", false],
  ]);
});

test("hidden messages are neither recalled nor used as a title", async () => {
  const hidden = { additional_kwargs: { hide_from_ui: true } };
  const messages: WireMessage[] = [
    { type: "human", id: "m", content: "what is remembered", ...hidden },
    { type: "human", id: "h", content: "my words" },
    { type: "human", id: "r", content: "a reminder", ...hidden },
    { type: "ai", id: "a", content: "the answer" },
  ];
  showPage(
    fakeGateway({ messagePage: async () => ({ messages }), startRun: async () => openStream().response }),
    {
      path: "/threads/t",
    },
  );
  await screen.findByText("the answer");
  await userEvent.type(screen.getByRole("textbox"), "{ArrowUp}");
  expect(screen.getByRole<HTMLTextAreaElement>("textbox").value).toBe("my words");
  expect(screen.getAllByRole("article", { name: "You" })).toHaveLength(1);
  await userEvent.keyboard("{Enter}");
  expect(await screen.findByRole("link", { name: /^my words/ })).toBeTruthy();
});

test("the language can be changed and is stored", async () => {
  const { saved } = showPage(fakeGateway());
  await userEvent.click(await screen.findByRole("link", { name: "Settings" }));
  await userEvent.click(await screen.findByRole("radio", { name: "中文" }));
  await userEvent.click(screen.getByRole("link", { name: "新对话" }));
  expect(await screen.findByText("今天做些什么？")).toBeTruthy();
  expect(saved()?.language).toBe("zh");
  expect(document.documentElement.lang).toBe("zh");
});

test("Ctrl+B hides the list and the choice is stored", async () => {
  const { saved } = showPage(fakeGateway());
  expect(await screen.findByRole("navigation", { name: "Threads" })).toBeTruthy();
  await userEvent.keyboard("{Control>}b{/Control}");
  expect(screen.queryByRole("navigation", { name: "Threads" })).toBeNull();
  expect(saved()?.listOpen).toBe(false);
});

test("an error is shown when the thread list fails to load", async () => {
  showPage(fakeGateway({ threads: async () => Promise.reject(new NetworkError("away")) }));
  expect(await screen.findByText("Couldn’t load threads")).toBeTruthy();
});

test("a key opens a new thread, a question mark the list of keys, and the tab says that a run is active", async () => {
  const stream = openStream();
  showPage(fakeGateway({ startRun: async () => stream.response }));
  await userEvent.type(await screen.findByRole("textbox"), "hi?{Enter}");
  await waitFor(() => expect(document.title).toMatch(/^● /));
  stream.write(encodeEvent(1, ["end", null]));
  await waitFor(() => expect(document.title).not.toMatch(/^● /));
  await userEvent.keyboard("{Control>}{Shift>}o{/Shift}{/Control}");
  expect(await screen.findByText("What are we working on?")).toBeTruthy();
  (document.activeElement as HTMLElement).blur();
  await userEvent.keyboard("?");
  expect(await screen.findByRole("heading", { name: "Keyboard shortcuts" })).toBeTruthy();
});

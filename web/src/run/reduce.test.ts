import { expect, test } from "vitest";
import type { QueuedMessage } from "@/api/queuedMessage";
import type { Changes, Frame, WireMessage, WireRun } from "@/api/wire";
import {
  type Conversation,
  EMPTY_CONVERSATION,
  findMessage,
  firstOwn,
  isActive,
  lastOwn,
  type RunEvent,
  reduce,
} from "@/run/reduce";
import { asking, call, calling, result } from "@/testing/tools";

const human: WireMessage = { type: "human", id: "h1", content: "hi" };

function fold(events: readonly RunEvent[], from: Conversation = EMPTY_CONVERSATION): Conversation {
  return events.reduce(reduce, from);
}

/** Frame events numbered from `first`, 100 ms apart. */
function received(frames: readonly Frame[], first = 1): RunEvent[] {
  return frames.map((frame, index) => ({
    type: "frameReceived",
    seq: first + index,
    at: (first + index) * 100,
    frame,
  }));
}

function piece(content: string, more: Partial<WireMessage> = {}): Frame {
  return { event: "messages", data: [{ type: "AIMessageChunk", id: "a1", content, ...more }, {}] };
}

function thought(reasoning: string): Frame {
  return piece("", { additional_kwargs: { reasoning_content: reasoning } });
}

function changes(data: Changes): Frame {
  return { event: "changes", data };
}

const started: readonly RunEvent[] = [
  { type: "sent", messageId: "h1", text: "hi", at: 0 },
  { type: "runJoined", runId: "r1" },
];
const end: Frame = { event: "end", data: null };

test("chunks are joined to the message text", () => {
  const state = fold([...started, ...received([piece("Hel"), piece("lo")])]);
  expect(findMessage(state, "a1")?.text).toBe("Hello");
  expect(state.order).toEqual(["h1", "a1"]);
});

test("a repeated event changes nothing", () => {
  const state = fold([...started, ...received([piece("Hel"), piece("lo")])]);
  expect(fold(received([piece("Hel"), piece("lo")]), state)).toBe(state);
});

test("a replay after a reconnect adds only what is new", () => {
  const before = fold([...started, ...received([piece("one "), piece("two ")])]);
  const replay = received([piece("one "), piece("two "), piece("three"), end]);
  const state = fold([{ type: "disconnected" }, { type: "reconnected" }, ...replay], before);
  expect(findMessage(state, "a1")?.text).toBe("one two three");
  expect(state.run).toMatchObject({ phase: "done", connected: true });
});

test("another run starts its own event numbers", () => {
  const first = fold([...started, ...received([piece("one"), end])]);
  const again = fold(
    [
      { type: "sent", messageId: "h2", text: "more", at: 0 },
      { type: "runJoined", runId: "r2" },
    ],
    first,
  );
  const state = fold(received([piece("two", { id: "a2" })]), again);
  expect(state.order).toEqual(["h1", "a1", "h2", "a2"]);
  expect(findMessage(state, "a2")?.text).toBe("two");
});

test("a token leaves the order and the settled messages of a long thread untouched", () => {
  const messages = Array.from({ length: 10_000 }, (_, index) => ({
    type: "human",
    id: `m${index}`,
    content: "x",
  }));
  const long = fold([{ type: "opened", values: { messages }, run: null }, ...received([piece("a")])]);
  const state = fold(received([piece("b")], 2), long);
  expect(state.order).toBe(long.order);
  expect(state.settled).toBe(long.settled);
  expect(state.streaming.size).toBe(1);
});

test("chunks of a complete message are ignored", () => {
  const whole = changes({ messages: [human, { type: "ai", id: "a1", content: "Hello" }] });
  const state = fold([...started, ...received([piece("Hel"), whole, piece("lo")])]);
  expect(findMessage(state, "a1")?.text).toBe("Hello");
  expect(state.streaming.size).toBe(0);
});

test("changes replace messages by id and keep their place", () => {
  const state = fold([
    ...started,
    ...received([
      changes({ messages: [human, { type: "ai", id: "a1", content: "draft" }] }),
      changes({
        messages: [
          { type: "ai", id: "a2", content: "next" },
          { type: "ai", id: "a1", content: "final" },
        ],
      }),
    ]),
  ]);
  expect(state.order).toEqual(["h1", "a1", "a2"]);
  expect(findMessage(state, "a1")?.text).toBe("final");
});

test("removed streaming messages disappear, complete ones stay", () => {
  const state = fold([...started, ...received([piece("x"), changes({ removed: ["h1", "a1"] })])]);
  expect(state.order).toEqual(["h1"]);
  expect(state.streaming.size).toBe(0);
});

test("the user's message is shown at once and replaced by the server's", () => {
  const sent = fold([started[0] as RunEvent]);
  expect(findMessage(sent, "h1")).toMatchObject({ role: "user", text: "hi" });
  expect(isActive(sent.run)).toBe(true);
  const state = fold(
    [...started.slice(1), ...received([changes({ messages: [{ ...human, content: "hi!" }] })])],
    sent,
  );
  expect(state.order).toEqual(["h1"]);
  expect(findMessage(state, "h1")?.text).toBe("hi!");
});

test("a rejected message is kept as unsent until it is resent", () => {
  const refused = fold([
    started[0] as RunEvent,
    { type: "streamFailed", error: { name: "Conflict", message: "busy" } },
  ]);
  expect(refused).toMatchObject({
    unsent: new Set(["h1"]),
    run: { phase: "failed", error: { name: "Conflict" } },
  });
  const again = fold(started, refused);
  expect(again).toMatchObject({ unsent: new Set(), order: ["h1"], run: { phase: "running", error: null } });
});

test("tool call chunks are merged by index", () => {
  const call = (chunk: object) => piece("", { tool_call_chunks: [chunk] });
  const state = fold([
    ...started,
    ...received([
      call({ index: 0, id: "c0", name: "bash", args: "" }),
      call({ index: 0, id: null, name: null, args: '{"command":' }),
      call({ index: 1, id: "c1", name: "ls", args: "{}" }),
      call({ index: 0, id: null, name: null, args: '"ls"}' }),
    ]),
  ]);
  expect(findMessage(state, "a1")?.toolCalls).toEqual([
    { id: "c0", index: 0, name: "bash", args: '{"command":"ls"}' },
    { id: "c1", index: 1, name: "ls", args: "{}" },
  ]);
});

test("tool call chunks without an index are merged by id, then into the last call", () => {
  const call = (chunk: object) => piece("", { tool_call_chunks: [chunk] });
  const state = fold([
    ...started,
    ...received([
      call({ id: "c0", name: "bash", args: "{" }),
      call({ args: "}" }),
      call({ id: "c1", name: "ls" }),
    ]),
  ]);
  expect(findMessage(state, "a1")?.toolCalls.map(({ id, args }) => [id, args])).toEqual([
    ["c0", "{}"],
    ["c1", ""],
  ]);
});

test("reasoning is separate from the text and its duration is kept", () => {
  const whole = changes({
    messages: [
      { type: "ai", id: "a1", content: "42", additional_kwargs: { reasoning_content: "Let me see" } },
    ],
  });
  const state = fold([...started, ...received([thought("Let me "), thought("see"), piece("42"), whole])]);
  expect(findMessage(state, "a1")).toMatchObject({ reasoning: "Let me see", text: "42", thoughtMs: 200 });
});

test("content blocks give text and reasoning", () => {
  const content = [
    { type: "thinking", thinking: "hm" },
    { type: "text", text: "yes" },
  ];
  const state = fold([...started, ...received([changes({ messages: [{ type: "ai", id: "a1", content }] })])]);
  expect(findMessage(state, "a1")).toMatchObject({ reasoning: "hm", text: "yes" });
});

test("a failed run keeps its output and reason", () => {
  const error: Frame = {
    event: "error",
    data: { error: "ModelError", name: "ModelError", message: "it broke" },
  };
  const state = fold([...started, ...received([piece("half"), error, end])]);
  expect(state.run).toMatchObject({ phase: "failed", error: { name: "ModelError", message: "it broke" } });
  expect(state.settled.get("a1")?.text).toBe("half");
  expect(state.streaming.size).toBe(0);
});

test("a stopped run keeps its output and is not a failure", () => {
  const state = fold([...started, ...received([piece("half")]), { type: "stopping" }, ...received([end], 2)]);
  expect(state.run).toMatchObject({ phase: "stopped", stopping: false, error: null });
  expect(state.settled.get("a1")?.text).toBe("half");
});

test("a run that cannot be streamed any more fails", () => {
  const state = fold([
    ...started,
    ...received([piece("half")]),
    { type: "disconnected" },
    { type: "streamFailed", error: { name: "NotFound", message: "no such run" } },
  ]);
  expect(state.run).toMatchObject({ phase: "failed", connected: true });
  expect(state.settled.get("a1")?.text).toBe("half");
});

test("hidden messages with the user's role are not user messages", () => {
  const hidden = { content: "a reminder", additional_kwargs: { hide_from_ui: true } };
  const memory: WireMessage = { type: "human", id: "m", ...hidden };
  const reminder: WireMessage = { type: "human", id: "r", ...hidden };
  const opened = fold([{ type: "opened", values: { messages: [memory] }, run: null }]);
  const state = fold(
    [...started, ...received([piece("half"), changes({ messages: [reminder] }), end])],
    opened,
  );
  expect(findMessage(state, "r")).toMatchObject({ role: "user", hidden: true });
  expect(state.order).toEqual(["m", "h1", "a1", "r"]);
  expect(firstOwn(state)?.id).toBe("h1");
  expect(lastOwn(state)?.id).toBe("h1");
  expect(firstOwn(opened)).toBeUndefined();
});

test("plan mode is kept for a run and not inherited by the next", () => {
  const sent = { type: "sent", messageId: "h1", text: "plan", at: 0 } as const;
  const planned = fold([{ ...sent, planMode: true }, ...started.slice(1), ...received([end])]);
  expect(planned.run.planMode).toBe(true);
  expect(fold([sent], planned).run.planMode).toBe(false);
});

test("a title arrives with the changes and stays", () => {
  const state = fold([...started, ...received([changes({ values: { title: "Greeting" } }), changes({})])]);
  expect(state.title).toBe("Greeting");
});

test("an opened thread shows its messages and how its last run ended", () => {
  const run = {
    run_id: "r9",
    status: "error",
    created_at: "",
    updated_at: "",
    error: "server restarted",
  } as const;
  const state = fold([{ type: "opened", values: { title: "Old", messages: [human] }, run }]);
  expect(state).toMatchObject({
    title: "Old",
    order: ["h1"],
    run: { id: "r9", phase: "failed", error: { message: "server restarted" } },
  });
});

test("an opened thread with a running run is active and can be joined from the start", () => {
  const run = { run_id: "r9", status: "running", created_at: "", updated_at: "" } as const;
  const opened = fold([{ type: "opened", values: { messages: [human] }, run }]);
  expect(isActive(opened.run)).toBe(true);
  const state = fold([{ type: "runJoined", runId: "r9" }, ...received([piece("Hello")])], opened);
  expect(findMessage(state, "a1")?.text).toBe("Hello");
});

const launch = call("c1", "launch", { rocket: "Saturn" });
const pause: readonly Frame[] = [
  changes({ messages: [calling(launch)] }),
  changes({ values: { __interrupt__: asking(launch) } }),
];

test("a paused run has its approval", () => {
  const state = fold([...started, ...received([...pause, end])]);
  expect(state.approval?.requests.map((request) => request.call.id)).toEqual(["c1"]);
  expect(state.run.phase).toBe("done");
});

test("a reopened paused thread still needs approval", () => {
  const run: WireRun = { run_id: "r1", status: "interrupted", created_at: "", updated_at: "" };
  const values = { messages: [human, calling(launch)], __interrupt__: asking(launch) };
  const state = fold([{ type: "opened", values, run }]);
  expect(state.approval?.messageId).toBe("a-c1");
  expect(state.run.phase).toBe("idle");
  expect(fold([{ type: "opened", values: { messages: [human] }, run }]).run.phase).toBe("stopped");
});

test("an approval is closed by the resumed run, not by the attempt", () => {
  const paused = fold([...started, ...received([...pause, end])]);
  const tried = fold([{ type: "decided" }], paused);
  expect(tried).toMatchObject({
    approval: paused.approval,
    run: { id: null, phase: "starting", lastSeq: 0 },
  });
  expect(fold([{ type: "runJoined", runId: "r2" }], tried).approval).toBeNull();

  const broken = fold([{ type: "streamFailed", error: { name: "NetworkError", message: "" } }], tried);
  expect(broken.approval).toBe(paused.approval);
  expect(broken.unsent.size).toBe(0);
});

test("an approval is open until the next change", () => {
  const state = fold([...started, ...received([...pause, changes({ messages: [result("c1", "up")] })])]);
  expect(state.approval).toBeNull();
});

function printed(output: string): Frame {
  return { event: "custom", data: { type: "tool_progress", tool_call_id: "c1", tool: "bash", output } };
}

test("live output is kept until the result arrives", () => {
  const bash = calling(call("c1", "bash", { command: "make" }));
  const running = fold([
    ...started,
    ...received([changes({ messages: [bash] }), printed("one\n"), printed("two\n")]),
  ]);
  expect(running.progress.get("c1")).toBe("one\ntwo\n");
  const done = fold(received([changes({ messages: [result("c1", "one\ntwo\n")] })], 4), running);
  expect(done.progress.size).toBe(0);
});

test("live output changes nothing else", () => {
  const before = fold([...started, ...received([piece("hi"), printed("one")])]);
  const after = fold(received([printed("two")], 3), before);
  expect(after).toEqual({ ...before, run: { ...before.run, lastSeq: 3 }, progress: after.progress });
  expect(after.settled).toBe(before.settled);
  expect(after.streaming).toBe(before.streaming);
});

test("10,000 output events are reduced in well under a second with bounded memory", () => {
  const opened = fold(started);
  const pieces = received(Array.from({ length: 10_000 }, () => printed("a line of output\n")));
  const before = performance.now();
  const state = fold(pieces, opened);
  expect(performance.now() - before).toBeLessThan(1000);
  expect(state.progress.get("c1")?.length).toBe(8192);
});

test("presented files arrive with the changes and stay", () => {
  const artifacts = ["/mnt/user-data/outputs/chart.png"];
  const state = fold([...started, ...received([changes({ values: { artifacts } }), changes({})])]);
  expect(state.artifacts).toBe(artifacts);
});

test("5,000 tokens in a thread of 10,000 messages are reduced in well under a second", () => {
  const messages = Array.from({ length: 10_000 }, (_, index) => ({
    type: "human",
    id: `m${index}`,
    content: "x",
  }));
  const opened = fold([{ type: "opened", values: { messages }, run: null }]);
  const tokens = received(Array.from({ length: 5_000 }, () => piece("word ")));
  const before = performance.now();
  const state = fold(tokens, opened);
  expect(performance.now() - before).toBeLessThan(500);
  expect(findMessage(state, "a1")?.text.length).toBe(25_000);
});

test("a steering message is placed before the response that streams meanwhile", () => {
  const steered = changes({
    messages: [
      { type: "human", id: "h2", content: "and this" },
      { type: "ai", id: "a1", content: "Both." },
    ],
  });
  const state = fold([...started, ...received([piece("Both"), steered])]);
  expect(state.order).toEqual(["h1", "h2", "a1"]);
  const delivered: Frame = {
    event: "messages",
    data: [{ type: "human", id: "h2", content: "and this" }, {}],
  };
  expect(fold([...started, ...received([piece("Both"), delivered, steered])]).order).toEqual([
    "h1",
    "h2",
    "a1",
  ]);
});

test("queued messages stay until they are delivered or cancelled", () => {
  const queued = { messageId: "h2", text: "next", strategy: "steer", runId: null } as const;
  const state = fold([
    ...started,
    { type: "queued", queued },
    { type: "queueAccepted", messageId: "h2", runId: "r2" },
  ]);
  expect(state.queued).toEqual([{ ...queued, runId: "r2" }]);
  const delivered = changes({ messages: [{ type: "human", id: "h2", content: "next" }] });
  expect(fold(received([delivered]), state).queued).toEqual([]);
  expect(fold([{ type: "dequeued", messageId: "h2" }], state).queued).toEqual([]);
});

test("an earlier page is prepended and loaded messages are unchanged", () => {
  const opened = fold([
    { type: "opened", values: { messages: [human], before: "r.1.0" }, run: null },
    { type: "earlierRequested" },
  ]);
  expect(opened.earlier).toEqual({ before: "r.1.0", phase: "loading" });
  const earlier: WireMessage = { type: "ai", id: "a0", content: "before" };
  const old: WireMessage = { ...human, content: "old" };
  const state = fold([{ type: "earlierLoaded", page: { messages: [earlier, old], before: null } }], opened);
  expect(state.order).toEqual(["a0", "h1"]);
  expect(findMessage(state, "h1")?.text).toBe("hi");
  expect(state.earlier).toEqual({ before: null, phase: "idle" });
});

test("times of loaded messages come from the server", () => {
  const about = { runId: "r1", thoughtMs: 8000, supersededBy: null };
  const metadata = new Map([
    ["a-c1", { ...about, at: 1000 }],
    ["t-c1", { ...about, at: 3500, thoughtMs: null }],
  ]);
  const messages = [calling(call("c1", "bash", {})), result("c1", "done")];
  const state = fold([{ type: "opened", values: { messages, metadata }, run: null }]);
  expect(findMessage(state, "a-c1")).toMatchObject({ settledAt: 1000, thoughtMs: 8000 });
  expect(findMessage(state, "t-c1")?.settledAt).toBe(3500);
});

test("a loaded run keeps its settings", () => {
  const run: WireRun = {
    run_id: "r1",
    status: "interrupted",
    created_at: "",
    updated_at: "",
    metadata: { deerflow_plan: true, deerflow_subagents: true },
  };
  const state = fold([{ type: "opened", values: {}, run }, { type: "decided" }]);
  expect(state.run).toMatchObject({ phase: "starting", planMode: true, subagents: true });
});

test("a queued message keeps its own settings", () => {
  const queued: QueuedMessage = {
    messageId: "h2",
    text: "next",
    strategy: "enqueue",
    runId: "r2",
    planMode: true,
    subagents: true,
  };
  const state = fold([...started, { type: "queued", queued }, { type: "runJoined", runId: "r2" }]);
  expect(state.run).toMatchObject({ id: "r2", planMode: true, subagents: true });
});

test("an unsent message stays when the thread is reloaded", () => {
  const sent: RunEvent = { type: "sent", messageId: "h9", text: "not taken", at: 0 };
  const broken: RunEvent = { type: "streamFailed", error: { name: "NetworkError", message: "away" } };
  const opened: RunEvent = { type: "opened", values: { messages: [human] }, run: null };
  const state = fold([opened, sent, broken, opened]);
  expect(state.order).toEqual(["h1", "h9"]);
  expect([...state.unsent]).toEqual(["h9"]);
  expect(state.run.phase).toBe("failed");
  const taken: RunEvent = {
    type: "opened",
    values: { messages: [human, { type: "human", id: "h9", content: "not taken" }] },
    run: null,
  };
  expect(fold([taken], state).unsent.size).toBe(0);
});

import { expect, test } from "vitest";
import type { MessagePage } from "@/api/messagePage";
import { selectBranch } from "@/run/branches";
import { type Conversation, EMPTY_CONVERSATION, type RunEvent, reduce } from "@/run/reduce";

/** Build a conversation from lines `id runId supersededBy`; ids starting with q are user messages. */
function conversationOf(...lines: readonly string[]): Conversation {
  const about = lines.map((line) => line.split(" "));
  const values: MessagePage = {
    messages: about.map(([id = ""]) => ({ type: id.startsWith("q") ? "human" : "ai", id, content: id })),
    metadata: new Map(
      about.map(([id = "", runId = "", left]) => [
        id,
        { runId, at: 0, thoughtMs: null, supersededBy: left ?? null },
      ]),
    ),
  };
  return reduce(EMPTY_CONVERSATION, { type: "opened", values, run: null });
}

const way = (state: Conversation, ...rewoundRuns: string[]) => selectBranch(state, new Set(rewoundRuns));
const answeredThrice = conversationOf("q1 r1", "a1 r1 r2", "a2 r2 r3", "a3 r3");

test("a conversation without forks is shown completely", () => {
  expect(way(conversationOf("q1 r1", "a1 r1"))).toEqual({ ids: ["q1", "a1"], forks: new Map() });
});

test("the newest version is shown and the others can be selected", () => {
  const shown = [[], ["r3"], ["r3", "r2"]].map((rewoundRuns) => way(answeredThrice, ...rewoundRuns));
  expect(shown.map(({ ids }) => ids)).toEqual([
    ["q1", "a3"],
    ["q1", "a2"],
    ["q1", "a1"],
  ]);
  expect(shown.map(({ ids, forks }) => forks.get(ids[1] ?? ""))).toEqual([
    { runs: ["r3", "r2"], back: 0 },
    { runs: ["r3", "r2"], back: 1 },
    { runs: ["r3", "r2"], back: 2 },
  ]);
});

test("messages after an edited message belong to its version", () => {
  const state = conversationOf("q1 r1", "a1 r1", "q2 r2 r4", "a2 r2 r4", "q3 r3 r4", "q4 r4", "a4 r4");
  expect(way(state).ids).toEqual(["q1", "a1", "q4", "a4"]);
  expect(way(state).forks.get("q4")).toEqual({ runs: ["r4"], back: 0 });
  expect(way(state, "r4").ids).toEqual(["q1", "a1", "q2", "a2", "q3"]);
});

test("a fork inside a superseded branch is not a version of its start", () => {
  const state = conversationOf("q1 r1", "a1 r1 r5", "q2 r2 r5", "a2 r2 r3", "a3 r3 r5", "a5 r5");
  expect(way(state).forks.get("a5")).toEqual({ runs: ["r5"], back: 0 });
  const back = way(state, "r5");
  expect(back.ids).toEqual(["q1", "a1", "q2", "a3"]);
  expect(back.forks.get("a3")).toEqual({ runs: ["r3"], back: 0 });
  expect(way(state, "r5", "r3").ids).toEqual(["q1", "a1", "q2", "a2"]);
});

const again: RunEvent = { type: "regenerated", keeps: ["q1"] };

test("a regenerated response is hidden at once and restored on error", () => {
  const asked = reduce(answeredThrice, again);
  expect(way(asked).ids).toEqual(["q1"]);
  const error = { name: "NetworkError", message: "" };
  expect(way(reduce(asked, { type: "streamFailed", error })).ids).toEqual(["q1", "a3"]);
});

test("a run reports which messages it supersedes", () => {
  const answered = [
    { event: "changes", data: { removed: ["q1", "a3"] } },
    { event: "changes", data: { messages: [{ type: "human", id: "q1", content: "q1" }] } },
    { event: "changes", data: { messages: [{ type: "ai", id: "a4", content: "a4" }], removed: ["a2"] } },
  ] as const;
  const events: RunEvent[] = [
    again,
    { type: "runJoined", runId: "r4" },
    ...answered.map((frame, index) => ({ type: "frameReceived", seq: index + 1, at: 0, frame }) as const),
  ];
  const state = events.reduce(reduce, answeredThrice);
  expect(way(state).ids).toEqual(["q1", "a4"]);
  expect(way(state).forks.get("a4")).toEqual({ runs: ["r4", "r3", "r2"], back: 0 });
});

test("a message sent from an earlier version continues it", () => {
  const looking = reduce(answeredThrice, { type: "versionSelected", rewoundRuns: new Set(["r3"]) });
  const { ids } = selectBranch(looking, looking.rewoundRuns);
  const sent = reduce(looking, { type: "sent", messageId: "q2", text: "go on", keeps: ids, at: 0 });
  expect(selectBranch(sent, sent.rewoundRuns).ids).toEqual(["q1", "a2", "q2"]);
});

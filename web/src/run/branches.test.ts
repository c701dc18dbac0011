import { expect, test } from "vitest";
import type { Said } from "@/api/said";
import { wayThrough } from "@/run/branches";
import { type Conversation, EMPTY_CONVERSATION, type RunEvent, reduce } from "@/run/reduce";

/** A conversation of lines `id runId leftBehindBy`; ids that begin with q are own messages. */
function told(...lines: readonly string[]): Conversation {
  const about = lines.map((line) => line.split(" "));
  const values: Said = {
    messages: about.map(([id = ""]) => ({ type: id.startsWith("q") ? "human" : "ai", id, content: id })),
    told: new Map(
      about.map(([id = "", runId = "", left]) => [
        id,
        { runId, at: 0, thoughtMs: null, leftBehindBy: left ?? null },
      ]),
    ),
  };
  return reduce(EMPTY_CONVERSATION, { type: "opened", values, run: null });
}

const way = (state: Conversation, ...undone: string[]) => wayThrough(state, new Set(undone));
const answeredThrice = told("q1 r1", "a1 r1 r2", "a2 r2 r3", "a3 r3");

test("a conversation that went one way is shown whole", () => {
  expect(way(told("q1 r1", "a1 r1"))).toEqual({ ids: ["q1", "a1"], forks: new Map() });
});

test("of several answers the newest is shown, and the others are reachable one by one", () => {
  const shown = [[], ["r3"], ["r3", "r2"]].map((undone) => way(answeredThrice, ...undone));
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

test("what came after a message that was said otherwise is left with it", () => {
  const state = told("q1 r1", "a1 r1", "q2 r2 r4", "a2 r2 r4", "q3 r3 r4", "q4 r4", "a4 r4");
  expect(way(state).ids).toEqual(["q1", "a1", "q4", "a4"]);
  expect(way(state).forks.get("q4")).toEqual({ runs: ["r4"], back: 0 });
  expect(way(state, "r4").ids).toEqual(["q1", "a1", "q2", "a2", "q3"]);
});

test("a fork within what was left behind is not a version of its beginning", () => {
  const state = told("q1 r1", "a1 r1 r5", "q2 r2 r5", "a2 r2 r3", "a3 r3 r5", "a5 r5");
  expect(way(state).forks.get("a5")).toEqual({ runs: ["r5"], back: 0 });
  const back = way(state, "r5");
  expect(back.ids).toEqual(["q1", "a1", "q2", "a3"]);
  expect(back.forks.get("a3")).toEqual({ runs: ["r3"], back: 0 });
  expect(way(state, "r5", "r3").ids).toEqual(["q1", "a1", "q2", "a2"]);
});

const again: RunEvent = { type: "asked again", keeps: ["q1"] };

test("an answer that is asked for again gives way at once, and comes back when the server refuses", () => {
  const asked = reduce(answeredThrice, again);
  expect(way(asked).ids).toEqual(["q1"]);
  const error = { name: "Unreachable", message: "" };
  expect(way(reduce(asked, { type: "broken", error })).ids).toEqual(["q1", "a3"]);
});

test("the run says what it leaves behind, and says again what it keeps", () => {
  const answered = [
    { event: "changes", data: { removed: ["q1", "a3"] } },
    { event: "changes", data: { messages: [{ type: "human", id: "q1", content: "q1" }] } },
    { event: "changes", data: { messages: [{ type: "ai", id: "a4", content: "a4" }], removed: ["a2"] } },
  ] as const;
  const events: RunEvent[] = [
    again,
    { type: "following", runId: "r4" },
    ...answered.map((frame, index) => ({ type: "received", seq: index + 1, at: 0, frame }) as const),
  ];
  const state = events.reduce(reduce, answeredThrice);
  expect(way(state).ids).toEqual(["q1", "a4"]);
  expect(way(state).forks.get("a4")).toEqual({ runs: ["r4", "r3", "r2"], back: 0 });
});

test("what is sent from an earlier version goes on from it", () => {
  const looking = reduce(answeredThrice, { type: "looked back", undone: new Set(["r3"]) });
  const { ids } = wayThrough(looking, looking.undone);
  const sent = reduce(looking, { type: "sent", messageId: "q2", text: "go on", keeps: ids, at: 0 });
  expect(wayThrough(sent, sent.undone).ids).toEqual(["q1", "a2", "q2"]);
});

import { expect, test } from "vitest";
import { createGateway, type Gateway, type NewRun } from "@/api/gateway";

const run: NewRun = { messageId: "m", text: "hi", model: null, thinking: null, planMode: false };

/** The body of what `ask` asks for. */
async function bodyOf(ask: (gateway: Gateway, signal: AbortSignal) => Promise<Response>) {
  const bodies: string[] = [];
  const gateway = createGateway(async (_, options) => {
    bodies.push(String(options?.body));
    return new Response();
  });
  await ask(gateway, new AbortController().signal);
  return JSON.parse(bodies[0] ?? "null");
}

/** The context a run is started with. */
async function contextOf(given: NewRun): Promise<unknown> {
  return (await bodyOf((gateway, signal) => gateway.startRun("t", given, signal))).context;
}

test("a run says only what was chosen for it", async () => {
  expect(await contextOf(run)).toEqual({});
  expect(await contextOf({ ...run, model: "big", thinking: false, planMode: true })).toEqual({
    model_name: "big",
    thinking_enabled: false,
    is_plan_mode: true,
  });
});

test("a run that goes on brings decisions in place of a message, and is read as any other", async () => {
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

test("all that was reported in a run is read, however many pages it has", async () => {
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

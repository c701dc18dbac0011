import { expect, test } from "vitest";
import { createGateway, type NewRun } from "@/api/gateway";

const run: NewRun = { messageId: "m", text: "hi", model: null, thinking: null, planMode: false };

/** The context a run is started with. */
async function contextOf(given: NewRun): Promise<unknown> {
  const bodies: string[] = [];
  const gateway = createGateway(async (_, options) => {
    bodies.push(String(options?.body));
    return new Response();
  });
  await gateway.startRun("t", given, new AbortController().signal);
  return JSON.parse(bodies[0] ?? "null").context;
}

test("a run says only what was chosen for it", async () => {
  expect(await contextOf(run)).toEqual({});
  expect(await contextOf({ ...run, model: "big", thinking: false, planMode: true })).toEqual({
    model_name: "big",
    thinking_enabled: false,
    is_plan_mode: true,
  });
});

import { expect, test } from "vitest";
import { answeredBy, LEAD, whoAnswered } from "@/api/assistants";

const run = { run_id: "r", status: "success", created_at: "", updated_at: "" } as const;

test("a run is asked of an agent by its name, and known again by it", () => {
  expect(answeredBy({ agent: "ada", bootstrap: false }, { context: { a: 1 } })).toEqual({
    assistant_id: "ada",
  });
  expect(whoAnswered({ ...run, assistant_id: "ada" })).toEqual({ agent: "ada", bootstrap: false });
  expect(whoAnswered({ ...run, assistant_id: "lead_agent" })).toEqual(LEAD);
});

test("a conversation that makes an agent says so with each run, and is known again by that", () => {
  const asked = answeredBy({ agent: null, bootstrap: true }, { context: { a: 1 }, metadata: { b: 2 } });
  expect(asked).toEqual({
    assistant_id: "lead_agent",
    context: { a: 1, is_bootstrap: true },
    metadata: { b: 2, deerflow_bootstrap: true },
  });
  expect(whoAnswered({ ...run, metadata: { deerflow_bootstrap: true } }).bootstrap).toBe(true);
});

import { expect, test } from "vitest";
import { agentOfRun, assistantFields, LEAD_AGENT } from "@/api/assistants";

const run = { run_id: "r", status: "success", created_at: "", updated_at: "" } as const;

test("a run names its agent and is recognized by it", () => {
  expect(assistantFields({ agent: "ada", bootstrap: false }, { context: { a: 1 } })).toEqual({
    assistant_id: "ada",
  });
  expect(agentOfRun({ ...run, assistant_id: "ada" })).toEqual({ agent: "ada", bootstrap: false });
  expect(agentOfRun({ ...run, assistant_id: "lead_agent" })).toEqual(LEAD_AGENT);
});

test("a bootstrap conversation marks every run and is recognized by it", () => {
  const asked = assistantFields({ agent: null, bootstrap: true }, { context: { a: 1 }, metadata: { b: 2 } });
  expect(asked).toEqual({
    assistant_id: "lead_agent",
    context: { a: 1, is_bootstrap: true },
    metadata: { b: 2, deerflow_bootstrap: true },
  });
  expect(agentOfRun({ ...run, metadata: { deerflow_bootstrap: true } }).bootstrap).toBe(true);
});

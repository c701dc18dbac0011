import { expect, test } from "vitest";
import { readLimits } from "@/features/settings/account/Quota";

test("an empty field leaves the configured limit, and “none” removes it", () => {
  const typed: Record<string, string> = { tokens_per_day: "2000", cost_per_day: "2.50", storage_mb: "none" };
  expect(readLimits((limit) => typed[limit] ?? "")).toEqual({
    tokens_per_day: 2000,
    cost_per_day: "2.50",
    storage_mb: null,
  });
});

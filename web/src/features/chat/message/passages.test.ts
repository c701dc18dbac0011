import { expect, test } from "vitest";
import { sourcesOf } from "@/features/chat/message/citations";
import { foundPassages, passageState } from "@/features/chat/message/passages";
import type { Message } from "@/run/message";

const URL = "/projects/p1/files/f1?passage=2";
const RESULT = `[citation:plan.pdf, page 2](${URL}) passage 12\nThe paint costs 4200 euros,\nsays the "final offer".\n\n[citation:b.md, line 1](/projects/p1/files/f2?passage=1) passage 13, under Costs › Paint\nOther.`;

function searched(text: string): readonly Message[] {
  return [{ toolName: "search_knowledge", text, failed: false } as Message];
}

test.each([
  ["It costs 4200 euros", "verified"],
  ["It was 9. It costs 4200 euros", "verified"],
  ["It costs 4300 euros", "number_mismatch"],
  ['It is a "firm offer"', "quote_missing"],
  ['It is the "final offer"', "verified"],
  ["It has a price", "found"],
])("%s is %s in the cited passage", (claim, state) => {
  const [source] = sourcesOf(`${claim} [citation:plan.pdf, page 2](${URL}).`);
  if (source === undefined) throw new Error("no source");
  expect(source.title).toBe("plan.pdf, page 2");
  expect(passageState(source, foundPassages(searched(RESULT)))).toBe(state);
});

test("a passage that no search returned is not found, and every claim on a passage counts", () => {
  const [unknown] = sourcesOf("A [citation:x, page 1](/projects/p1/files/f9?passage=1).");
  if (unknown === undefined) throw new Error("no source");
  expect(passageState(unknown, foundPassages(searched(RESULT)))).toBe("not_found");
  const [twice] = sourcesOf(`It is 4200 [citation:a](${URL}). It is 7 [citation:a](${URL}).`);
  if (twice === undefined) throw new Error("no source");
  expect(twice.claims).toHaveLength(2);
  expect(passageState(twice, foundPassages(searched(RESULT)))).toBe("number_mismatch");
});

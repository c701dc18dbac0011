import { expect, test } from "vitest";
import { checkedStates, sourcesOf } from "@/features/chat/message/citations";
import { emptyMessage } from "@/run/message";

const TEXT = `Cars [citation:ACEA](https://www.acea.auto/a) and trains [citation:UIC](https://uic.org/b).
Again [citation:ACEA](https://www.acea.auto/a), \`[citation:no](https://no.example)\`, [citation:bad](ftp://x).`;

test("sources are numbered by their first citation", () => {
  expect(sourcesOf(TEXT)).toEqual([
    { number: 1, url: "https://www.acea.auto/a", site: "acea.auto", title: "ACEA", claims: [] },
    { number: 2, url: "https://uic.org/b", site: "uic.org", title: "UIC", claims: [] },
  ]);
  expect(sourcesOf("Nothing cited.")).toEqual([]);
});

test("the latest check of a page counts, and the worst of its citations", () => {
  const check = (id: string, results: object[]) => ({
    ...emptyMessage(id, "tool", 0),
    toolName: "verify_citations",
    text: JSON.stringify({ citations: results.length, results }),
  });
  const a = "https://a.example";
  const states = checkedStates([
    check("1", [{ url: a, status: "number_mismatch" }]),
    check("2", [
      { url: a, status: "verified" },
      { url: a, status: "quote_missing" },
      { url: "https://b.example", status: "verified" },
    ]),
    { ...emptyMessage("3", "tool", 0), toolName: "verify_citations", text: "no JSON" },
  ]);
  expect([...states]).toEqual([
    [a, "quote_missing"],
    ["https://b.example", "verified"],
  ]);
});

import { expect, test } from "vitest";
import type { SearchHit } from "@/api/search";
import { stripMarks } from "@/api/snippets";

/** Return a hit with the match between brackets `⟨⟩`. */
function hitOf(marked: string): SearchHit {
  const characters = Array.from(marked);
  const start = characters.indexOf("⟨");
  const end = characters.indexOf("⟩") - 1;
  const snippet = characters.filter((each) => each !== "⟨" && each !== "⟩").join("");
  return { thread_id: "t", title: null, message_id: "m", snippet, highlights: [[start, end]] };
}

test.each([
  ["Sales **rose by ⟨12.4⟩ %** in `May`", "Sales rose by ⟨12.4⟩ % in May"],
  ["## Head\n> quoted ⟨words⟩", "Head\nquoted ⟨words⟩"],
  ["🦆 see [the ⟨report⟩](https://example.org/a) ~~now~~", "🦆 see the ⟨report⟩ now"],
  ["a link to [it](https://example.org/⟨report⟩)", "a link to it](https://example.org/⟨report⟩)"],
  ["a * b > c, x[1] and ⟨2⟩", "a * b > c, x[1] and ⟨2⟩"],
])("the snippet %j is shown as %j", (marked, expected) => {
  expect(stripMarks(hitOf(marked))).toEqual(hitOf(expected));
});

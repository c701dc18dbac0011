import { expect, test } from "vitest";
import {
  allBlocks,
  EMPTY_SPLIT,
  normaliseLines,
  openBlock,
  type Split,
  splitBlocks,
} from "@/markdown/blocks";
import { tidyOpenEnd } from "@/markdown/tidy";

const TEXT = `# Title

A paragraph with **bold** text
on two lines.

- one
- two
  - nested

| a | b |
|---|---|
| 1 | 2 |

\`\`\`python
print("hi")

print("there")
\`\`\`

> quote
> more

1. first

2. second

The end.
`;

function types(split: Split): string[] {
  const tokens = [...split.finished, openBlock(split)].flatMap((block) => block.tokens);
  return tokens.map(({ type }) => type).filter((type) => type !== "space");
}

function grow(text: string, step: number): Split {
  let split = EMPTY_SPLIT;
  for (let end = step; end < text.length + step; end += step) split = splitBlocks(split, text.slice(0, end));
  return split;
}

test.each([1, 3, 7, 50])("text that grows by %i characters gives the blocks of the whole", (step) => {
  const whole = splitBlocks(EMPTY_SPLIT, TEXT);
  const grown = grow(TEXT, step);
  expect(types(grown)).toEqual([
    "heading",
    "paragraph",
    "list",
    "table",
    "code",
    "blockquote",
    "list",
    "paragraph",
  ]);
  expect(grown.finished.map(({ start, tokens }) => [start, tokens[0]?.raw])).toEqual(
    whole.finished.map(({ start, tokens }) => [start, tokens[0]?.raw]),
  );
});

test("a finished block is never parsed again", () => {
  const before = splitBlocks(EMPTY_SPLIT, "one\n\ntwo\n\nth\n");
  const after = splitBlocks(before, "one\n\ntwo\n\nth\nree\n\nfour\n");
  expect(after.finished[0]).toBe(before.finished[0]);
  expect(after.finished[1]).toBe(before.finished[1]);
  expect(after.finished).toHaveLength(3);
});

test("the open block keeps its key while it streams and when it is finished", () => {
  const before = splitBlocks(EMPTY_SPLIT, "one\n\ntwo\n");
  const after = splitBlocks(before, "one\n\ntwo\n\nthree\n");
  expect(openBlock(before).start).toBe(5);
  expect(after.finished[1]?.start).toBe(5);
});

test("an unclosed code fence is one open block", () => {
  const split = grow("text\n\n```js\nconst a = 1;\n\n# not a heading\n", 2);
  expect(types(split)).toEqual(["paragraph", "code"]);
});

test("a text that does not continue the last one is parsed again", () => {
  const split = splitBlocks(splitBlocks(EMPTY_SPLIT, "one\n\ntwo"), "other");
  expect(split.finished).toEqual([]);
  expect(types(split)).toEqual(["paragraph"]);
});

test("reference definitions may be at the end of a complete text", () => {
  const text = "see [docs]\n\nmore\n\n[docs]: https://example.org\n";
  const blocks = allBlocks(grow(text, 5), text);
  expect(JSON.stringify(blocks)).toContain("https://example.org");
});

test("all line endings are normalized", () => {
  expect(normaliseLines("a\r\nb\rc\n")).toBe("a\nb\nc\n");
});

test.each([
  ["a paragraph\n-", "a paragraph\n"],
  ["a paragraph\n==", "a paragraph\n"],
  ["- one\n2", "- one\n"],
  ["text\n``", "text\n"],
  ["some **bold", "some **bold**"],
  ["some **bold ", "some **bold**"],
  ["some **", "some "],
  ["call `f(x", "call `f(x`"],
  ["see [the docs](https://exa", "see the docs"],
  ["see [the do", "see the do"],
  ["done **bold** and `code`.", "done **bold** and `code`."],
  ["`a**b` is", "`a**b` is"],
  ["earlier `odd\n\nnow **b", "earlier `odd\n\nnow **b**"],
])("the end of %j is shown as %j", (written, shown) => {
  expect(tidyOpenEnd(written)).toBe(shown);
});

test("the open block has its marks closed, code is unchanged", () => {
  const raw = (text: string) => openBlock(splitBlocks(EMPTY_SPLIT, text)).tokens.at(-1)?.raw;
  expect(raw("a **b")).toBe("a **b**");
  expect(raw("```\na **b")).toBe("```\na **b");
});

test("a loose list stays one list while its next number streams", () => {
  const text = "1. first\n\n2. second\n\n   more of it\n\n3. third\n";
  for (let end = "1. f".length; end <= text.length; end++)
    expect(types(grow(text.slice(0, end), 1))).toEqual(["list"]);
});

test("a long streamed response is split in well under a second", () => {
  const text = TEXT.repeat(60);
  const before = performance.now();
  grow(text, 20);
  expect(performance.now() - before).toBeLessThan(1500);
});

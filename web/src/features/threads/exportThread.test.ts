import { expect, test } from "vitest";
import type { WireMessage } from "@/api/wire";
import { exportThread, toMarkdown } from "@/features/threads/exportThread";
import { call, calling, result } from "@/testing/tools";

const MESSAGES: readonly WireMessage[] = [
  { type: "human", id: "h", content: "List it" },
  { type: "human", id: "m", content: "a reminder", additional_kwargs: { hide_from_ui: true } },
  calling(call("c", "bash", { command: "ls `x`" })),
  result("c", "a.csv"),
  {
    type: "ai",
    id: "a",
    content: [
      { type: "thinking", thinking: "hm" },
      { type: "text", text: "Just **one**." },
    ],
  },
];

test("Markdown has visible messages and tool calls", () => {
  expect(toMarkdown("A\nlist", MESSAGES)).toBe(
    [
      "# A list",
      "## 🧑",
      "List it",
      "## 🦌",
      '- `bash` `{"command":"ls \'x\'"}`',
      "## 🦌",
      "Just **one**.\n",
    ].join("\n\n"),
  );
});

test("JSON has everything", () => {
  const { name, text } = exportThread("T", { messages: MESSAGES }, "json");
  expect(name).toBe("T.json");
  expect(JSON.parse(text)).toEqual({ title: "T", messages: MESSAGES });
});

test.each([
  ['../a:b?"c"', "a b c.md"],
  ["...", "thread.md"],
  ["数据 分析", "数据 分析.md"],
  ["x".repeat(300), `${"x".repeat(80)}.md`],
])("the title %s becomes a file name", (title, name) => {
  expect(exportThread(title, {}, "md").name).toBe(name);
});

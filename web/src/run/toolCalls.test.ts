import { expect, test } from "vitest";
import { endingOf, fileKind, isPicture } from "@/files/kinds";
import type { ToolCall } from "@/run/message";
import { isProse, toolKind, toolObject, toolReason } from "@/run/toolCalls";

const made = (name: string, args: ToolCall["args"]): ToolCall => ({ id: "c", index: 0, name, args });
const why = { description: "Look around" };

test.each<[string, object, string, string]>([
  ["bash", { ...why, command: "python a.py\nls" }, "run", "python a.py"],
  ["bash", { ...why, command: "serve", background: true }, "start", "serve"],
  ["bash_output", { ...why, name: "server" }, "check", "server"],
  ["bash_kill", { ...why, name: "server" }, "end", "server"],
  ["read_file", { ...why, path: "/mnt/user-data/workspace/report.md" }, "read", "report.md"],
  ["write_file", { ...why, path: "/mnt/x/chart.py", content: "" }, "write", "chart.py"],
  ["str_replace", { ...why, path: "chart.py", old_str: "a", new_str: "b" }, "edit", "chart.py"],
  ["ls", { ...why, path: "/mnt/user-data/workspace" }, "list", "/mnt/user-data/workspace"],
  ["grep", { ...why, pattern: "TODO", path: "/mnt" }, "search", "TODO"],
  ["glob", { ...why, pattern: "**/*.py", path: "/mnt" }, "search", "**/*.py"],
  ["present_files", { filepaths: ["/mnt/a.png", 7, "/mnt/b.csv"] }, "present", "a.png, b.csv"],
  ["read_file", {}, "read", "read_file"],
  ["view_image", why, "read", "Look around"],
  ["mcp_tool", { path: "x" }, "use", "mcp_tool"],
])("%s %j has a one-line summary", (name, args, kind, object) => {
  const given = made(name, args as ToolCall["args"]);
  expect([toolKind(given), toolObject(given)]).toEqual([kind, object]);
});

test.each([
  ["", ""],
  ['{"description": "Draw"', ""],
  ['{"description": "Draw", "path": "/w/ch', ""],
  ['{"description": "Draw", "path": "/w/a \\"b\\".py", "content": "impo', 'a "b".py'],
  ['{"content": "{\\"path\\": \\"x\\"}', ""],
])("streaming arguments %j show the file as soon as it is known", (args, object) => {
  expect(toolObject(made("write_file", args))).toBe(object);
});

test("a long command is shortened", () => {
  expect(toolObject(made("bash", { command: "x".repeat(500) }))).toHaveLength(121);
});

test("the model's description is shown for tools that have one", () => {
  expect(toolReason(made("bash", why))).toBe("Look around");
  expect(toolReason(made("mcp_tool", why))).toBe("");
  expect(toolReason(made("bash", '{"descr'))).toBe("");
});

test.each([
  ["/o/Chart.PNG", "png", "image", true],
  ["/o/drawing.svg", "svg", "image", false],
  ["/o/data.tar.gz", "gz", "archive", false],
  ["/o/report.md", "md", "document", false],
  ["/o/.env", "", "file", false],
  ["/o/Makefile", "", "file", false],
  ["/o/x.strange", "strange", "file", false],
])("%s ends in %j and is a %s", (path, ending, kind, picture) => {
  expect([endingOf(path), fileKind(path), isPicture(path)]).toEqual([ending, kind, picture]);
});

test.each([
  ["task", true],
  ["web_search", true],
  ["ask_clarification", true],
  ["grep", false],
  ["bash", false],
  ["shop_search", false],
])("the object of %s is a text of people: %s", (name, expected) => {
  expect(isProse(made(name, {}))).toBe(expected);
});

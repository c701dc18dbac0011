import { expect, test } from "vitest";
import { quoted } from "@/features/chat/quoted";

test("selected text becomes a quote before the draft", () => {
  expect(quoted("One.\n\n  Two.", "Why?")).toBe("> One.\n>\n> Two.\n\nWhy?");
});

test("a long selection is cut", () => {
  expect(quoted("x".repeat(5000), "")).toHaveLength(2 + 2000 + 1 + 2);
});

import { render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import type { ReactNode } from "react";
import { expect, test } from "vitest";
import { fileUrls } from "@/api/artifacts";
import { LanguageProvider } from "@/i18n/context";
import { Markdown } from "@/markdown/Markdown";
import { FileUrlsProvider } from "@/ui/FileUrls";

function inPage(children: ReactNode): ReactNode {
  return (
    <LanguageProvider language="en">
      <FileUrlsProvider urls={fileUrls("")}>{children}</FileUrlsProvider>
    </LanguageProvider>
  );
}

function show(text: string): HTMLElement {
  return render(inPage(<Markdown text={text} growing={false} />)).container;
}

test("links open in a new tab without a referrer", () => {
  show("[docs](https://example.org/a?b=1&c=2)");
  const link = screen.getByRole("link", { name: "docs" });
  expect(link.getAttribute("href")).toBe("https://example.org/a?b=1&c=2");
  expect(link.getAttribute("target")).toBe("_blank");
  expect(link.getAttribute("rel")).toBe("noopener noreferrer");
});

test.each([
  "javascript:alert(1)",
  "JaVaScRiPt:alert(1)",
  "data:text/html,x",
  "vbscript:x",
  "file:///etc/passwd",
])("%s is not a link", (address) => {
  show(`[click](<${address}>) ![pic](<${address}>)`);
  expect(screen.queryByRole("link")).toBeNull();
});

test("HTML is shown as text and never executed", () => {
  const container = show(
    '<img src=x onerror="alert(1)"> and <script>alert(1)</script>\n\n<div onclick="x()">block</div>',
  );
  expect(container.querySelector("img, script, [onclick]")).toBeNull();
  expect(container.textContent).toContain("<script>alert(1)</script>");
});

test("an external image is a link, a local one is shown", () => {
  const container = show("![a plot](https://example.org/p.png) ![dot](data:image/png;base64,AAAA)");
  expect(screen.getByRole("link", { name: "Image: a plot" })).toBeTruthy();
  expect(container.querySelectorAll("img")).toHaveLength(1);
});

test("tables, tasks, code and character references are shown", () => {
  const container = show(
    "| a |\n|---|\n| 1 |\n\n- [x] done\n- [ ] open\n\n```\nx < 1 &amp; y\n```\n\n5 &lt; 6 &copy; `&lt;`",
  );
  expect(screen.getByRole("cell").textContent).toBe("1");
  expect(screen.getAllByRole("img").map((mark) => mark.getAttribute("aria-label"))).toEqual([
    "Done",
    "To do",
  ]);
  expect(container.querySelector("pre")?.textContent).toBe("x < 1 &amp; y");
  expect(container.querySelector("p")?.textContent).toBe("5 < 6 © &lt;");
});

test.each([
  ["so $$a_1$$ is", ["a_1"]],
  ["$a$ and $$b + c$$.", ["a", "b + c"]],
  ["it is \\[x^2\\], \\(y\\)", ["x^2", "y"]],
  ["$$d$$", ["d"]],
  ["from $5 to $6, $$ and $$$", []],
])("the formulas of %j are %j", (text, formulas) => {
  const shown = [...show(text).querySelectorAll("[data-formula] code")].map((code) => code.textContent);
  expect(shown).toEqual(formulas);
});

test("a column of sentences is not narrowed to its longest word", () => {
  show("| a | b |\n|---|---|\n| 1 | Mandate for zero-emission vehicles |");
  const [short, long] = screen.getAllByRole("cell");
  expect([short?.dataset.long, long?.dataset.long]).toEqual([undefined, "true"]);
});

test("headings start below the page's h1", () => {
  show("# Top");
  expect(screen.getByRole("heading", { level: 2 }).textContent).toBe("Top");
});

test("a finished block keeps its element while the text streams", () => {
  const { container, rerender } = render(inPage(<Markdown text={"one\n\ntwo\n"} growing />));
  const first = container.querySelector("p");
  rerender(inPage(<Markdown text={"one\n\ntwo\n\nthree"} growing />));
  expect(container.querySelector("p")).toBe(first);
  expect(container.querySelectorAll("p")).toHaveLength(3);
});

test("code is highlighted once it is complete", async () => {
  const { container } = render(inPage(<Markdown text={"```python\ndef f(): pass\n```"} growing={false} />));
  await expect.poll(() => container.querySelector(".hljs-keyword")?.textContent).toBe("def");
});

test("a citation links to its page and to the saved copy", () => {
  render(inPage(<Markdown text="Warm [citation:Heat](https://example.org/heat?a=1)." growing={false} />));
  expect(screen.getByRole("link", { name: "Heat, example.org 1" })).toHaveProperty(
    "href",
    "https://example.org/heat?a=1",
  );
  const kept = screen.getByRole("link", { name: "View saved copy" });
  expect(kept.getAttribute("href")).toContain("/web-pages/at?url=https%3A%2F%2Fexample.org%2Fheat%3Fa%3D1");
});

test("footnotes are numbered by their first mark and listed below the text", () => {
  const text =
    "One[^late] two[^1] again[^late].\n\n[^1]: First *note*.\n[^late]: A longer\nnote.\n\n  Second part.\n";
  const container = show(text);
  const marks = screen.getAllByRole("button", { name: /^Footnote/ });
  expect(marks.map((mark) => mark.textContent)).toEqual(["1", "2", "1"]);
  const notes = within(screen.getByRole("list", { name: "Footnotes" })).getAllByRole("listitem");
  expect(notes.map((note) => note.textContent)).toEqual(["A longer\nnote.Second part.", "First note."]);
  expect(container.textContent).not.toContain("[^");
});

test("a mark without a note stays as it was written, and a growing text shows labels", () => {
  const container = show("A[^x] mark.");
  expect(container.textContent).toBe("A[x] mark.");
  const growing = render(inPage(<Markdown text={"A[^1].\n\n[^1]: so far"} growing />)).container;
  expect(growing.textContent).toBe("A[1].1 so far");
  expect(growing.querySelector("ol")).toBeNull();
});

test("a footnote leads to its note and back", async () => {
  Element.prototype.scrollIntoView = () => undefined;
  show("Text[^1].\n\n[^1]: Note.");
  const mark = screen.getByRole("button", { name: "Footnote 1" });
  await userEvent.click(mark);
  expect(document.activeElement?.textContent).toBe("Note.");
  await userEvent.click(screen.getByRole("button", { name: "Back to mark 1" }));
  expect(document.activeElement).toBe(mark);
});

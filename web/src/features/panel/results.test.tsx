import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { ApiError } from "@/api/http";
import type { Server } from "@/api/server";
import { linesOf } from "@/features/panel/FileChanges";
import { tabUrl } from "@/features/panel/FileView";
import { listMarks } from "@/files/DocumentView";
import { fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

const OUTPUTS = "/mnt/user-data/outputs";

function showFile(name: string, server: Partial<Server>) {
  const gateway = fakeGateway({
    messagePage: async () => ({
      messages: [{ type: "human", id: "m", content: "Hi" }],
      artifacts: [`${OUTPUTS}/${name}`],
    }),
  });
  return showPage(gateway, {
    path: `/threads/t?panel=artifacts&file=${OUTPUTS}/${name}`,
    server: { features: async () => ({ file_previews: true }), ...server },
  });
}

test("a refused file says why and can be downloaded", async () => {
  const refuse = async () =>
    Promise.reject(new ApiError("EncryptedFile", 422, "no preview of '/a.docx': it is protected"));
  showFile("a.docx", { officePreview: refuse });
  expect(await screen.findByText(/protected with a password/)).toBeTruthy();
  expect(screen.getByText("It is protected.")).toBeTruthy();
  const link = screen.getByRole("link", { name: "Download" });
  expect(link.getAttribute("href")).toContain("a.docx?download=true");
  expect(screen.queryByRole("button", { name: "Try again" })).toBeNull();
});

test("slides are pictures with their text, and notes below", async () => {
  const slide = { title: "Plan", text: "Plan\nDo it", notes: "Slowly", is_hidden: false, svg: "<svg />" };
  showFile("a.pptx", {
    officePreview: async () => ({ kind: "slides", width: 4, height: 3, total: 3, slides: [slide] }),
  });
  const image = await screen.findByRole("img", { name: /Slide 1: Plan/ });
  expect(image.getAttribute("src")).toMatch(/^data:image\/svg\+xml/);
  expect(screen.getByText("Slowly")).toBeTruthy();
  expect(screen.getByText("First 1 of 3 slides")).toBeTruthy();
});

test("sheets are selected by tabs", async () => {
  const sheet = (name: string) => ({
    name,
    is_hidden: false,
    rows: [[name]],
    total_rows: 9,
    total_columns: 1,
  });
  showFile("a.xlsx", {
    officePreview: async () => ({ kind: "workbook", sheets: [sheet("one"), sheet("two")], total_sheets: 5 }),
  });
  await userEvent.click(await screen.findByRole("tab", { name: "two" }));
  expect(screen.getByRole("table", { name: "two" })).toBeTruthy();
  expect(screen.getByText(/First 1 of 9 rows/).textContent).toContain("First 2 of 5 sheets");
});

test("only what is safe to show is opened in a tab", () => {
  expect(tabUrl("t", "/a.html", "page")).toBe("/api/threads/t/previews/a.html");
  expect(tabUrl("t", "/a.png", "picture")).toBe("/api/threads/t/artifacts/a.png");
  expect(tabUrl("t", "/a.py", null)).toBe("/api/threads/t/artifacts/a.py");
  expect(tabUrl("t", "/b c.pdf", "pdf")).toBe("/threads/t?panel=artifacts&file=%2Fb%20c.pdf");
  for (const path of ["/a.xml", "/a.pptx", "/a.mp4", "/a.pdf"]) expect(tabUrl("t", path, null)).toBeNull();
});

test("list items are numbered by level", () => {
  const item = (level: number, is_numbered: boolean) => ({
    type: "list" as const,
    runs: [],
    level,
    is_numbered,
  });
  const blocks = [item(0, true), item(1, true), item(1, true), item(0, true), item(0, false)];
  expect(listMarks(blocks as unknown as Parameters<typeof listMarks>[0])).toEqual([
    "1.",
    "1.",
    "2.",
    "2.",
    "•",
  ]);
});

test("a unified diff is split into its lines", () => {
  const lines = linesOf("--- a\n+++ b\n@@ -1 +1,2 @@\n same\n-old\n+new\n");
  expect(lines.map(({ sign }) => sign).join("")).toBe("  −+");
  expect(lines.map(({ text }) => text)).toEqual(["@@ -1 +1,2 @@", "same", "old", "new"]);
});

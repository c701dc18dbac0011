import { EditorView } from "@codemirror/view";
import { act, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { ApiError } from "@/api/http";
import { fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

const PATH = "/mnt/user-data/outputs/notes.txt";

/** The editor is in a shadow root, which queries do not search. */
async function write(text: string): Promise<void> {
  const shadow = [...document.querySelectorAll("*")].find(({ shadowRoot }) => shadowRoot)?.shadowRoot;
  const content = shadow?.querySelector<HTMLElement>(".cm-content");
  const view = content && EditorView.findFromDOM(content);
  act(() => view?.dispatch({ changes: { from: 0, insert: text } }));
}

test("an edited file that changed meanwhile is not overwritten and the edit is kept", async () => {
  const sent: string[] = [];
  const answers = [
    async () => Promise.reject(new ApiError("Conflict", 409, "it has changed")),
    async () => ({ sha256: "0", size: 1 }),
  ];
  showPage(fakeGateway(), {
    path: `/threads/t?panel=files&file=${PATH}`,
    server: {
      features: async () => ({ artifact_editing: true }),
      bytes: async () => new TextEncoder().encode("old").buffer as ArrayBuffer,
      saveText: (_, __, text) => {
        sent.push(text);
        return (answers.shift() ?? (async () => ({ sha256: "0", size: 1 })))();
      },
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Edit" }));
  await screen.findByRole("button", { name: "Cancel" });
  await write("new ");
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  expect((await screen.findByRole("alert")).textContent).toContain("Nothing was overwritten");
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  expect(await screen.findByRole("button", { name: "Edit" })).toBeTruthy();
  expect(sent).toEqual(["new old", "new old"]);
});

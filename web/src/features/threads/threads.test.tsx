import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { NetworkError } from "@/api/http";
import type { WireThread } from "@/api/wire";
import { fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

function thread(id: string, title: string, more: Partial<WireThread> = {}): WireThread {
  const at = new Date().toISOString();
  const wire = { created_at: at, updated_at: at, status: "idle", metadata: {}, values: { title } } as const;
  return { thread_id: id, ...wire, ...more };
}

async function choose(title: string, item: string): Promise<void> {
  await userEvent.click(await screen.findByRole("button", { name: `Actions for “${title}”` }));
  await userEvent.click(await screen.findByRole("menuitem", { name: item }));
}

/** Return a gateway with these threads and the metadata updates it receives. */
function serverWith(...threads: readonly WireThread[]) {
  const updates: [string, object][] = [];
  const gateway = fakeGateway({
    threads: async (_, offset = 0) => threads.slice(offset),
    updateThread: async (id, metadata) => void updates.push([id, metadata]),
  });
  return { gateway, updates };
}

test("a thread is renamed in place", async () => {
  const { gateway, updates } = serverWith(thread("t", "Old"));
  showPage(gateway);
  await choose("Old", "Rename");
  await userEvent.keyboard("New name{Enter}");
  expect(screen.getByRole("link", { name: "New name" })).toBeTruthy();
  expect(updates).toEqual([["t", { title: "New name", pinned: false, archived: false }]]);
  await userEvent.click(screen.getByRole("button", { name: "Undo" }));
  expect(screen.getByRole("link", { name: "Old" })).toBeTruthy();
  expect(updates[1]).toEqual(["t", { title: null, pinned: false, archived: false }]);
});

test("Escape and an empty title keep the old title", async () => {
  const { gateway, updates } = serverWith(thread("t", "Old"));
  showPage(gateway);
  await choose("Old", "Rename");
  await userEvent.keyboard("New{Escape}");
  await choose("Old", "Rename");
  await userEvent.keyboard(" {Enter}");
  expect(screen.getByRole("link", { name: "Old" })).toBeTruthy();
  expect(updates).toEqual([]);
});

test("a title set by the user wins over a generated one", async () => {
  const { gateway } = serverWith(thread("t", "Of the agent", { metadata: { title: "Mine" } }));
  showPage({ ...gateway, messagePage: async () => ({ title: "Of the agent" }) }, { path: "/threads/t" });
  expect(await screen.findByRole("link", { name: "Mine" })).toBeTruthy();
  expect(screen.getByRole("heading", { level: 1 }).textContent).toBe("Mine");
});

test("a pinned thread comes first", async () => {
  const { gateway, updates } = serverWith(thread("t1", "One"), thread("t2", "Two"));
  showPage(gateway);
  await choose("Two", "Pin");
  expect(screen.getAllByRole("heading", { level: 2 })[0]?.textContent).toBe("Pinned");
  const titles = screen.getAllByRole("link").map((link) => link.textContent);
  expect(titles.indexOf("Two")).toBeLessThan(titles.indexOf("One"));
  expect(updates).toEqual([["t2", { title: null, pinned: true, archived: false }]]);
});

test("an archived thread is hidden and can be unarchived", async () => {
  const { gateway, updates } = serverWith(thread("t", "Done with"));
  showPage(gateway);
  await choose("Done with", "Archive");
  expect(screen.queryByRole("link", { name: "Done with" })).toBeNull();
  expect(screen.getByText("Thread archived")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Archived threads" }));
  await choose("Done with", "Unarchive");
  await userEvent.click(screen.getByRole("button", { name: "Archived threads" }));
  expect(screen.getByRole("link", { name: "Done with" })).toBeTruthy();
  expect(updates.map(([, metadata]) => metadata)).toEqual([
    { title: null, pinned: false, archived: true },
    { title: null, pinned: false, archived: false },
  ]);
});

test("a rejected change is reverted and reported", async () => {
  const { gateway } = serverWith(thread("t", "One"));
  showPage({ ...gateway, updateThread: async () => Promise.reject(new NetworkError("away")) });
  await choose("One", "Archive");
  expect(await screen.findByText("Couldn’t save the change")).toBeTruthy();
  expect(screen.getByRole("link", { name: "One" })).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Undo" })).toBeNull();
});

test("waiting and running threads are marked, stopped ones are not", async () => {
  const { gateway } = serverWith(
    thread("t1", "Asks", { waits_for: "answer" }),
    thread("t2", "Acts", { status: "interrupted", waits_for: "approval" }),
    thread("t3", "Works", { status: "busy" }),
    thread("t4", "Stopped", { status: "interrupted" }),
  );
  showPage(gateway);
  const mark = async (title: RegExp) =>
    within(await screen.findByRole("link", { name: title }))
      .queryByRole("img")
      ?.getAttribute("aria-label");
  expect(await mark(/^Asks/)).toBe("Question for you");
  expect(await mark(/^Acts/)).toBe("Approval needed");
  expect(await mark(/^Works/)).toBe("Answering");
  expect(await mark(/^Stopped/)).toBeUndefined();
});

test("titles are filtered at once and messages are searched on the server", async () => {
  const { gateway } = serverWith(thread("t1", "Rome by train"), thread("t2", "Taxes"));
  const hit = {
    thread_id: "t2",
    title: "Taxes",
    message_id: "m",
    snippet: "😀 the train fare",
    highlights: [[6, 11]],
  };
  showPage(gateway, {
    server: {
      features: async () => ({ search: true }),
      search: async () => [{ ...hit, highlights: [[6, 11]] }],
    },
  });
  await userEvent.type(await screen.findByRole("searchbox", { name: "Search threads" }), "TRAIN");
  expect(screen.getByRole("link", { name: "Rome by train" })).toBeTruthy();
  const found = await screen.findByRole("link", { name: /the train fare/ });
  expect(found.getAttribute("href")).toBe("/threads/t2");
  expect(found.querySelector("mark")?.textContent).toBe("train");
  // Without a matching title, what was found in messages stands alone.
  await userEvent.type(screen.getByRole("searchbox", { name: "Search threads" }), " fare");
  expect(await screen.findByRole("link", { name: /the train fare/ })).toBeTruthy();
  expect(screen.queryByRole("link", { name: "Rome by train" })).toBeNull();
  expect(screen.queryByText("No matching titles")).toBeNull();
});

test("older threads are loaded at the end of the list, each once", async () => {
  const many = Array.from({ length: 230 }, (_, index) =>
    thread(`t${index}`, `Thread ${index}`, { metadata: { archived: index < 225 } }),
  );
  const asked: number[] = [];
  const gateway = fakeGateway({
    threads: async (limit, offset = 0, metadata = {}) => {
      if ("pinned" in metadata) return many.slice(229);
      asked.push(offset);
      return many.slice(offset, offset + limit);
    },
  });
  showPage(gateway);
  expect(await screen.findByRole("link", { name: "Thread 225" })).toBeTruthy();
  expect(screen.getAllByRole("link", { name: /^Thread/ })).toHaveLength(5);
  expect(asked).toEqual([0, 100, 200]);
});

test("the palette finds threads and commands with the keyboard", async () => {
  const { gateway } = serverWith(thread("t1", "Rome by train"));
  const { paths, saved } = showPage(gateway);
  await screen.findByRole("link", { name: "Rome by train" });
  await userEvent.keyboard("{Control>}k{/Control}");
  const field = await screen.findByRole("combobox", { name: "Command palette" });
  await userEvent.type(field, "rome");
  await screen.findByRole("option", { name: /Rome by train/ }); // the choices are loaded with the first use
  await userEvent.keyboard("{Enter}");
  expect(paths).toEqual(["/threads/t1"]);

  await userEvent.keyboard("{Control>}k{/Control}");
  await userEvent.type(await screen.findByRole("combobox"), "theme");
  expect(await screen.findAllByRole("option")).toHaveLength(3);
  await userEvent.keyboard("{ArrowDown}{ArrowDown}{Enter}");
  expect(saved()?.theme).toBe("dark");

  await userEvent.keyboard("{Control>}k{/Control}");
  await userEvent.type(await screen.findByRole("combobox"), "no such thing");
  expect(await screen.findByText("No results")).toBeTruthy();
});

test("the open thread is marked in the list, none on other views", async () => {
  showPage(serverWith(thread("t", "Mine")).gateway, { path: "/threads/t?panel=files" });
  const link = await screen.findByRole("link", { name: "Mine" });
  expect(link.getAttribute("aria-current")).toBe("page");
  await userEvent.click(screen.getByRole("link", { name: "Settings" }));
  await screen.findByRole("heading", { name: "Settings", level: 1 });
  expect(screen.getByRole("link", { name: "Mine" }).getAttribute("aria-current")).toBeNull();
});

import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { ApiError, NetworkError } from "@/api/http";
import type { FactDetails, MemoryChange, MemoryDocument, MemoryFact, MemoryStatus } from "@/api/memory";
import type { Server } from "@/api/server";
import { grouped } from "@/features/memory/Changes";
import { memoryCommand, memorySearch } from "@/state/memorySearch";
import { fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";
import { formatRelativeTime } from "@/ui/RelativeTime";

const AT = "2026-01-01T10:00:00Z";
const TEA: MemoryFact = {
  id: "f1",
  content: "Drinks tea",
  category: "preference",
  confidence: 0.9,
  createdAt: AT,
  source: "t1",
};
const OSLO: MemoryFact = {
  ...TEA,
  id: "f2",
  content: "Lives in Oslo",
  category: "context",
  source: "manual",
};
const DETAILS: FactDetails = {
  ...TEA,
  learnedIn: { thread_id: "t1", message_id: "m", quote: "I drink tea" },
  validFrom: AT,
  validTo: null,
  supersedes: null,
};
const CHANGED: MemoryChange = {
  change_id: "c2",
  seq: 2,
  at: AT,
  actor: "user",
  kind: "fact_changed",
  target: "f1",
  before: { ...DETAILS, content: "Drinks coffee" },
  after: DETAILS,
  source: null,
  group: "g2",
  undoes: null,
};

const EMPTY = { summary: "", updatedAt: "" };
const NOTHING_ABOUT_USER = { workContext: EMPTY, personalContext: EMPTY, topOfMind: EMPTY };

function knowing(...facts: MemoryFact[]): MemoryDocument {
  const user = { ...NOTHING_ABOUT_USER, workContext: { summary: "Teaches physics.", updatedAt: AT } };
  const history = { recentMonths: EMPTY, earlierContext: EMPTY, longTermBackground: EMPTY };
  return { version: "1.0", lastUpdated: AT, user, history, facts, revision: 7 };
}

function status(data: MemoryDocument, more: Partial<MemoryStatus> = {}): MemoryStatus {
  const config = { enabled: true, switched_on: true, mode: "automatic", debounce_seconds: 30 };
  return { config, data, pending: [], ...more };
}

function show(server: Partial<Server> = {}, path = "/memory") {
  const features = async () => ({ memory: true });
  const memory = async () => status(knowing(TEA, OSLO));
  return showPage(fakeGateway(), { path, server: { features, memory, ...server } });
}

test("facts are listed newest first with confidence and source", async () => {
  show();
  const rows = within(await screen.findByRole("list", { name: "Facts" })).getAllByRole("listitem");
  expect(rows.map((row) => row.textContent?.slice(0, 10))).toEqual(["Lives in O", "Drinks tea"]);
  expect(rows[0]?.textContent).toContain("added by you");
  expect(rows[1]?.textContent).toContain("90% confidence");
  expect(
    within(rows[1] as HTMLElement)
      .getByRole("link")
      .getAttribute("href"),
  ).toBe("/threads/t1");
  expect(screen.getByText("Teaches physics.")).toBeTruthy();
  await userEvent.selectOptions(screen.getByRole("combobox", { name: "Category" }), "Goal");
  expect(screen.getByText("No facts in this category")).toBeTruthy();
});

test("a fact shows its quote and what it replaced", async () => {
  show({
    factProvenance: async () => ({
      fact: { ...DETAILS, sourceError: "I said coffee" },
      changes: [CHANGED],
      superseded: [{ ...DETAILS, id: "f0", content: "Drinks milk" }],
    }),
  });
  const why = await screen.findAllByRole("button", { name: "Source" });
  await userEvent.click(why[1] as HTMLElement);
  expect((await screen.findByText("I drink tea")).tagName).toBe("BLOCKQUOTE");
  expect(screen.getByText("I said coffee")).toBeTruthy();
  expect(screen.getByText("Drinks milk")).toBeTruthy();
});

test("loading memory can be retried after an error", async () => {
  let away = true;
  show({
    memory: async () => {
      if (away) throw new NetworkError("the server did not respond");
      return status({ ...knowing(), user: NOTHING_ABOUT_USER });
    },
  });
  expect(await screen.findByText("Couldn’t load memory. The server did not respond.")).toBeTruthy();
  away = false;
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(await screen.findByText(/No memories yet/)).toBeTruthy();
  expect(screen.getByText(/No summaries yet/)).toBeTruthy();
});

test("a fact that is known already is not added, without naming its id", async () => {
  show({
    addFact: async () => {
      throw new ApiError("Conflict", 409, "already known as fact 'f1'");
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Add fact" }));
  await userEvent.type(screen.getByRole("textbox", { name: "Fact" }), "drinks tea");
  await userEvent.click(screen.getAllByRole("button", { name: "Add fact" }).at(-1) as HTMLElement);
  expect((await screen.findByRole("alert")).textContent).toMatch(/here\. This fact is already remembered\.$/);
  expect(screen.getByRole("textbox", { name: "Fact" })).toHaveProperty("value", "drinks tea");
});

test("a rejected change is kept and an accepted one can be undone", async () => {
  const sent: unknown[] = [];
  show({
    changeFact: async (...given) => {
      sent.push(given);
      if (sent.length === 1) throw new ApiError("Conflict", 409, "it is at 8, not at 7");
      return knowing({ ...TEA, content: "Drinks milk" }, OSLO);
    },
    memoryHistory: async () => ({ changes: [CHANGED], next_before: null }),
    undoMemory: async (of, which) => {
      sent.push([of, which]);
      return knowing(TEA, OSLO);
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Edit “Drinks tea”" }));
  const box = screen.getByRole<HTMLTextAreaElement>("textbox", { name: "Fact" });
  await userEvent.clear(box);
  await userEvent.type(box, "Drinks milk");
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  expect((await screen.findByRole("alert")).textContent).toContain("It is at 8, not at 7.");
  expect(box.value).toBe("Drinks milk");
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  await userEvent.click(await screen.findByRole("button", { name: "Undo" }));
  expect(await screen.findByText("Undone")).toBeTruthy();
  const change = { content: "Drinks milk", category: "preference", confidence: 0.9 };
  expect(sent.slice(1)).toEqual([
    [null, "f1", change, 7],
    [null, { group: "g2" }],
  ]);
});

test("permanent deletion needs a confirmation", async () => {
  const erased: unknown[] = [];
  show(
    {
      agents: async () => [
        {
          name: "ada",
          description: "",
          model: null,
          tool_groups: null,
          skills: null,
          starters: [],
          soul: "",
        },
      ],
      eraseMemory: async (of) => {
        erased.push(of);
        if (erased.length === 1) throw new NetworkError("the server did not respond");
        return knowing();
      },
    },
    "/memory?agent=ada",
  );
  await userEvent.click(await screen.findByRole("button", { name: "Memory actions" }));
  await userEvent.click(screen.getByRole("menuitem", { name: "Delete all memory" }));
  const dialog = screen.getByRole("dialog", { name: "Delete all memory?" });
  expect(dialog.textContent).toContain("This can’t be undone.");
  expect(erased).toEqual([]);
  await userEvent.click(within(dialog).getByRole("button", { name: "Delete permanently" }));
  expect((await within(dialog).findByRole("alert")).textContent).toContain("Couldn’t delete");
  await userEvent.click(within(dialog).getByRole("button", { name: "Delete permanently" }));
  expect(await screen.findByText("Deleted permanently")).toBeTruthy();
  expect(erased).toEqual(["ada", "ada"]);
});

test("switching memory is optimistic and reverted on error", async () => {
  show({
    switchMemory: async () => Promise.reject(new ApiError("Forbidden", 403, "not you")),
  });
  const toggle = await screen.findByRole("switch", { name: "Remember me" });
  await userEvent.click(toggle);
  expect((await screen.findByRole("alert")).textContent).toContain("Not you.");
  expect(toggle.getAttribute("aria-checked")).toBe("true");
});

test("disabled memory and pending threads are shown", async () => {
  const off = { enabled: false, switched_on: true, mode: "automatic", debounce_seconds: 30 };
  const due_at = new Date(Date.now() + 8000).toISOString();
  const pending = [
    { thread_id: "t1", due_at, is_being_read: false, is_unpaid: false },
    { thread_id: "t2", due_at, is_being_read: true, is_unpaid: false },
    { thread_id: "t3", due_at, is_being_read: false, is_unpaid: true },
  ];
  show({ memory: async () => status(knowing(), { config: off, pending }) });
  expect(await screen.findByText(/Memory is turned off on this server/)).toBeTruthy();
  expect(screen.getByRole<HTMLButtonElement>("switch", { name: "Remember me" }).disabled).toBe(true);
  expect(screen.getByText("3 threads pending")).toBeTruthy();
  expect(screen.getByText(/in 10 s if there are no new messages/)).toBeTruthy();
  expect(screen.getByText(/processing now/)).toBeTruthy();
  expect(screen.getByText(/after its next run: the last run’s budget is used up/)).toBeTruthy();
});

test("a summary is edited at the revision that was read", async () => {
  const sent: unknown[] = [];
  show({
    writeSummary: async (...given) => {
      sent.push(given);
      return knowing(TEA);
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Edit “Your work”" }));
  await userEvent.type(screen.getByRole("textbox", { name: "Summary: Your work" }), " In Oslo.");
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  expect(await screen.findByText("Changed")).toBeTruthy();
  expect(sent).toEqual([[null, "user.workContext", "Teaches physics. In Oslo.", 7]]);
});

test("facts are searched on the server", async () => {
  const asked: unknown[] = [];
  show({
    searchMemory: async (...given) => {
      asked.push(given);
      return [DETAILS];
    },
  });
  await userEvent.type(await screen.findByRole("searchbox", { name: "Search facts" }), "tea");
  await waitFor(() => expect(asked.at(-1)).toEqual([null, "tea", null]));
  await waitFor(() => expect(screen.queryByText("Lives in Oslo")).toBeNull());
  expect(await screen.findByText("Drinks tea")).toBeTruthy();
});

test("each change shows its effect and a failed undo is reported", async () => {
  const several = [
    { ...CHANGED, change_id: "c4", seq: 4, group: "g3" },
    { ...CHANGED, change_id: "c3", seq: 3, group: "g3" },
  ];
  const undone: unknown[] = [];
  show(
    {
      memoryHistory: async (_, __, before) =>
        before === null ? { changes: several, next_before: 3 } : { changes: [CHANGED], next_before: null },
      undoMemory: async (_, which) => {
        undone.push(which);
        throw new ApiError("Conflict", 409, "it has been changed again");
      },
    },
    "/memory?view=history",
  );
  await userEvent.click(await screen.findByRole("button", { name: "Show earlier changes" }));
  await userEvent.click(
    await screen.findByRole("button", { name: "Undo: Changed “Drinks tea”", description: "" }),
  );
  expect((await screen.findByRole("alert")).textContent).toContain("It has been changed again.");
  await userEvent.click(screen.getByRole("button", { name: "Undo all 2" }));
  await waitFor(() => expect(undone).toEqual([{ group: "g2" }, { group: "g3" }]));
  expect(screen.getAllByText("Drinks coffee (Preference, 90% confidence)")).toHaveLength(3);
});

test("past memory is read-only", async () => {
  const asked: unknown[] = [];
  show(
    {
      memoryAsOf: async (...given) => {
        asked.push(given);
        return knowing(TEA);
      },
    },
    `/memory?as_of=${AT}`,
  );
  expect(await screen.findByText("Drinks tea")).toBeTruthy();
  expect(asked).toEqual([[null, AT]]);
  expect(screen.queryByRole("button", { name: "Edit “Drinks tea”" })).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Back to current" }));
  expect(await screen.findByText("No changes yet")).toBeTruthy();
});

test("a run shows the memory it used and deleted facts", async () => {
  const run = {
    run_id: "r",
    assistant_id: "ada",
    status: "success" as const,
    created_at: AT,
    updated_at: AT,
  };
  const asked: unknown[] = [];
  showPage(
    fakeGateway({ messagePage: async () => ({ messages: [{ type: "human", id: "m", content: "Hi" }] }) }),
    {
      path: "/threads/t?panel=run",
      server: {
        runs: async () => [run],
        memory: async (of) => {
          asked.push(of);
          return status(knowing(TEA));
        },
        injectedMemory: async () => ({
          injected: ["f1", "f9"],
          considered: 5,
          dropped: 3,
          tokens: 1200,
          is_new: false,
        }),
      },
    },
  );
  const receipt = await screen.findByRole("region", { name: "Memory used" });
  expect(receipt.textContent).toContain("2 of 5 facts · 1.2K tokens · 3 omitted");
  await waitFor(() => expect(within(receipt).getAllByRole("listitem")).toHaveLength(2));
  expect(receipt.textContent).toContain("Drinks tea");
  expect(receipt.textContent).toContain("a deleted fact");
  expect(asked).toEqual(["ada"]);
});

test("/memory in the composer is handled by the page", async () => {
  const { paths } = show({}, "/");
  const box = await screen.findByRole<HTMLTextAreaElement>("textbox", { name: "Message" });
  await userEvent.type(box, "/mem");
  expect(await screen.findByRole("option", { name: /\/memory/ })).toBeTruthy();
  await userEvent.keyboard("{Tab}undo{Enter}");
  await waitFor(() => expect(paths).toEqual(["/memory?view=history"]));
});

test.each([
  ["/memory", {}],
  [" /memory  undo ", { view: "history" }],
  ["/memory green tea", { q: "green tea" }],
  ["/memoryless", null],
  ["what is /memory", null],
])("%s opens its view", (text, search) => {
  expect(memoryCommand(text)).toEqual(search);
});

test("invalid search parameters show the facts", () => {
  expect(memorySearch({ view: "x", as_of: "never", agent: 3, q: "" })).toEqual({});
  expect(memorySearch({ q: 7 })).toEqual({ q: "7" });
});

test("changes of one operation are grouped", () => {
  expect(grouped([CHANGED, CHANGED, { ...CHANGED, group: "g9" }]).map(({ length }) => length)).toEqual([
    2, 1,
  ]);
});

test.each([
  [-3 * 86_400_000, "3 days ago"],
  [-120_000, "2 minutes ago"],
  [-5000, "now"],
  [3_600_000, "in 1 hour"],
])("%i ms is formatted as %s", (ms, formatted) => {
  expect(formatRelativeTime(ms, "en")).toBe(formatted);
});

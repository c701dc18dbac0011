import { render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { ApiError } from "@/api/http";
import type { Share } from "@/api/sharing";
import type { WireMessage, WireThread } from "@/api/wire";
import { sharedPage } from "@/app/shared/sharedApp";
import { DEFAULT_PREFERENCES } from "@/state/preferences";
import { sharedInPath } from "@/state/urls";
import { fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";
import { call, calling, result } from "@/testing/tools";

const AT = "2026-01-31T09:30:00Z";
const LINK: Share = { share_id: "s1", created_at: AT, expires_at: null };

function threads(): Promise<readonly WireThread[]> {
  const wire = { created_at: AT, updated_at: AT, status: "idle", metadata: {} } as const;
  return Promise.resolve([{ thread_id: "t", ...wire, values: { title: "Rome" } }]);
}

async function openMenu(): Promise<void> {
  await userEvent.click(await screen.findByRole("button", { name: "Actions for “Rome”" }));
}

test("a server without sharing says how to switch it on", async () => {
  showPage(fakeGateway({ threads }));
  await openMenu();
  await userEvent.click(await screen.findByRole("menuitem", { name: "Share" }));
  const dialog = await screen.findByRole("dialog", { name: "Share “Rome”" });
  expect(dialog.textContent).toContain("Sharing is off on this server.");
  expect(dialog.querySelector("pre")?.textContent).toBe("sharing:\n  enabled: true");
  expect(screen.queryByRole("button", { name: "Create link" })).toBeNull();
});

test("a link is created with an expiry, shown once, listed and revoked", async () => {
  const links: Share[] = [];
  const asked: (number | null)[] = [];
  showPage(fakeGateway({ threads }), {
    server: {
      features: async () => ({ sharing: true }),
      shares: async () => [...links],
      share: async (_, days) => {
        asked.push(days);
        links.push(LINK);
        return { ...LINK, path: "/share/secret" };
      },
      unshare: async () => void links.pop(),
    },
  });
  await openMenu();
  await userEvent.click(await screen.findByRole("menuitem", { name: "Share" }));
  const dialog = within(await screen.findByRole("dialog", { name: "Share “Rome”" }));
  await userEvent.click(dialog.getByText("In 30 days"));
  await userEvent.click(dialog.getByRole("button", { name: "Create link" }));
  const field = await dialog.findByRole<HTMLInputElement>("textbox", { name: "Link address" });
  expect(field.value).toBe("http://localhost:3000/share/secret");
  expect(asked).toEqual([30]);
  await userEvent.click(await dialog.findByRole("button", { name: /^Revoke link/ }));
  await expect.poll(() => dialog.queryByRole("listitem")).toBeNull();
  expect(links).toEqual([]);
});

test("a rejected link shows the reason", async () => {
  showPage(fakeGateway({ threads }), {
    server: {
      features: async () => ({ sharing: true }),
      share: async () =>
        Promise.reject(new ApiError("InvalidRequest", 422, "links work for at most 3 days here")),
    },
  });
  await openMenu();
  await userEvent.click(await screen.findByRole("menuitem", { name: "Share" }));
  await userEvent.click(await screen.findByRole("button", { name: "Create link" }));
  expect(await screen.findByText("Links work for at most 3 days here.")).toBeTruthy();
});

function answer(body: unknown, status = 200): Response {
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
}

const ASK: WireMessage = {
  type: "tool",
  id: "q",
  tool_call_id: "c2",
  content: "Whom?",
  artifact: {
    human_input: {
      version: 1,
      kind: "human_input_request",
      question: "For whom?",
      input_mode: "choice_with_other",
      options: [{ id: "o", label: "Me", value: "Me" }],
    },
  },
};

test("a shared page is read-only and requests nothing of the owner", async () => {
  const asked: string[] = [];
  const messages: readonly WireMessage[] = [
    {
      type: "human",
      id: "h",
      content: "Look",
      additional_kwargs: { files: [{ filename: "in.csv", path: "", size: 9 }] },
    },
    calling(call("c1", "present_files", { filepaths: ["/mnt/user-data/outputs/a.md"] })),
    result("c1", "Presented"),
    calling(call("c2", "ask_clarification", { question: "For whom?" })),
    ASK,
  ];
  const ask = async (path: string, init?: RequestInit): Promise<Response> => {
    asked.push(`${init?.method ?? "GET"} ${path}`);
    if (path.includes("/artifacts/")) return new Response("# Report");
    if (path.includes("/messages")) {
      return answer({ data: messages.map((message) => ({ message, created_at: AT })), before: null });
    }
    return answer({
      title: "Rome",
      shared_at: AT,
      expires_at: null,
      artifacts: ["/mnt/user-data/outputs/a.md"],
    });
  };
  render(sharedPage(ask, "secret", { ...DEFAULT_PREFERENCES, language: "en" }));
  expect(await screen.findByRole("heading", { name: "Rome", level: 1 })).toBeTruthy();
  expect(await screen.findByText("Look")).toBeTruthy();
  expect(
    await screen.findByText(/^Shared on Jan 31, \d\d:\d\d\. Later messages are not included\./),
  ).toBeTruthy();
  expect(screen.getByText("in.csv").closest("a")?.hasAttribute("href")).toBe(false);
  expect((await screen.findByRole("button", { name: "Me" })).hasAttribute("disabled")).toBe(true);
  expect(screen.queryByRole("textbox")).toBeNull();
  for (const name of ["Edit", "Regenerate", "More"]) {
    expect(screen.queryByRole("button", { name: new RegExp(name) })).toBeNull();
  }
  const download = screen.getByRole("link", { name: "Download a.md" });
  expect(download.getAttribute("href")).toBe(
    "/api/shared/secret/artifacts/mnt/user-data/outputs/a.md?download=true",
  );
  await userEvent.click(screen.getByRole("button", { name: "Open a.md" }));
  expect(await screen.findByRole("heading", { name: "Report" })).toBeTruthy();
  expect(asked.filter((each) => !each.startsWith("GET /api/shared/secret"))).toEqual([]);
});

test("an invalid link shows an error", async () => {
  const ask = async () => answer({ detail: "nothing", error: "NotFound" }, 404);
  render(sharedPage(ask, "gone", { ...DEFAULT_PREFERENCES, language: "en" }));
  expect(await screen.findByText("Link not found or expired")).toBeTruthy();
});

test("only share URLs are recognized as links", () => {
  expect(["/share/a_-B", "/share/", "/share/a/b", "/threads/share"].map(sharedInPath)).toEqual([
    "a_-B",
    null,
    null,
    null,
  ]);
});

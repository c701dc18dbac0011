import { fireEvent, screen, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { accountsApi } from "@/api/accounts";
import { threadIdIn } from "@/features/settings/account/ReadThread";
import { fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

const record = (id: string, type: string, content: string) => ({
  message: { id, type, content },
  run_id: "run",
  run_started_at: "2026-11-19T16:00:00Z",
  created_at: "2026-11-19T16:00:00Z",
  thought_ms: null,
  took_ms: null,
  left_behind_by: null,
});

function show(answer: (path: string) => Response) {
  const asked: string[] = [];
  const accounts = accountsApi(async (url) => {
    const path = String(url);
    if (!path.includes("/api/admin/")) return Response.json([]);
    asked.push(path);
    return answer(path);
  });
  showPage(fakeGateway(), { path: "/users", server: { accounts } });
  return asked;
}

async function fill(thread: string, reason: string) {
  fireEvent.change(await screen.findByLabelText("Thread id or link"), { target: { value: thread } });
  fireEvent.change(screen.getByLabelText("Reason"), { target: { value: reason } });
}

const button = () => screen.getByRole("button", { name: "Read a thread" });

test("a thread is found by its id and by its link", () => {
  expect(threadIdIn(" herons ")).toBe("herons");
  expect(threadIdIn("https://example.com/threads/a%20b?file=x#y")).toBe("a b");
});

test("nothing is read without a thread and a reason", async () => {
  const asked = show(() => Response.json({ data: [], before: null }));
  await fill("herons", "no");
  expect(button()).toHaveProperty("disabled", true);
  await fill("", "support request 17");
  expect(button()).toHaveProperty("disabled", true);
  expect(asked).toEqual([]);
});

test("messages and earlier ones are shown, and the page tells that the read was recorded", async () => {
  const asked = show((path) =>
    Response.json(
      path.includes("before")
        ? { data: [record("1", "human", "What do herons eat?")], before: null }
        : { data: [record("2", "ai", "They eat **fish**.")], before: "run.2.0" },
    ),
  );
  await fill("https://example.com/threads/herons", "support request 17");
  fireEvent.click(button());
  const messages = await screen.findByRole("region", { name: "Messages of thread herons" });
  expect(within(messages).getByText("fish").tagName).toBe("STRONG");
  expect(within(messages).getByRole("status").textContent).toContain("This read was recorded.");
  expect(within(messages).queryByRole("textbox")).toBeNull();
  fireEvent.click(within(messages).getByRole("button", { name: "Show earlier messages" }));
  expect(await screen.findByText("What do herons eat?")).toBeTruthy();
  const path = "/api/admin/threads/herons/messages?reason=support+request+17";
  expect(asked).toEqual([path, `${path}&before=run.2.0`]);
  fireEvent.click(screen.getByRole("button", { name: "Close" }));
  expect(screen.queryByText("What do herons eat?")).toBeNull();
});

test("a thread that does not exist is reported", async () => {
  show(() => Response.json({ error: "NotFound", detail: "no thread 'gone'" }, { status: 404 }));
  await fill("gone", "support request 17");
  fireEvent.click(button());
  expect((await screen.findByRole("alert")).textContent).toContain("No thread 'gone'");
});

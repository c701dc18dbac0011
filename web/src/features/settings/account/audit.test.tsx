import { fireEvent, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { type AuditEntry, accountsApi } from "@/api/accounts";
import { fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

const ERASED: AuditEntry = {
  seq: 2,
  at: "2026-11-19T16:00:00Z",
  kind: "run.approval",
  actor: { id: "c0ffee", email: null },
  subject: { id: "c0ffee", email: null },
  outcome: "reject",
  details: {},
  is_erased: true,
};

function show(answer: (path: string) => Response) {
  const asked: string[] = [];
  const accounts = accountsApi(async (url) => {
    asked.push(String(url));
    return String(url).includes("/api/audit") ? answer(String(url)) : Response.json([]);
  });
  showPage(fakeGateway(), { path: "/audit", server: { accounts } });
  return asked;
}

test("entries of a deleted person show an id, and that their details were erased", async () => {
  const asked = show(() => Response.json({ entries: [ERASED], next: null }));
  expect(await screen.findByText("deleted person c0ffee")).toBeTruthy();
  expect(screen.getByText("The details were erased with the person.")).toBeTruthy();
  expect(screen.getByText("· rejected")).toBeTruthy();
  fireEvent.change(screen.getByLabelText("Kind"), { target: { value: "account" } });
  expect(await screen.findByText("deleted person c0ffee")).toBeTruthy();
  expect(asked).toContain("/api/audit?kind=account");
});

test("people who are no administrators are told so", async () => {
  show(() => Response.json({ error: "Forbidden", detail: "admin rights are required" }, { status: 403 }));
  expect(await screen.findByText("Only administrators can see this page.")).toBeTruthy();
});

test("a log that was changed is shown with the places", async () => {
  const problems = [{ seq: 7, reason: "the details were changed" }];
  show((path) =>
    Response.json(
      path.includes("verify")
        ? { is_valid: false, entries: 9, head: "9:ab", problems }
        : { entries: [], next: null },
    ),
  );
  expect(await screen.findByText("No entries.")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Verify" }));
  expect(await screen.findByText("The audit log was changed.")).toBeTruthy();
  expect(screen.getByText("Entry 7: the details were changed")).toBeTruthy();
});

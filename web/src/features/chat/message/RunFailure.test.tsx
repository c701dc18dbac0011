import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { Gateway } from "@/api/gateway";
import type { ModelsAnswer, WireRun } from "@/api/wire";
import { DEMO_MODEL, encodeEvent, fakeGateway, openStream, streamOf } from "@/testing/gateway";
import { showPage } from "@/testing/page";

const MODELS: ModelsAnswer = {
  models: [
    { ...DEMO_MODEL, name: "a", display_name: "Model A" },
    { ...DEMO_MODEL, name: "b", display_name: "Model B" },
  ],
  default: "a",
};

/** Show a thread whose last run failed with an error. */
function showFailure(name: string, message: string, answers: Partial<Gateway> = {}): void {
  const run: WireRun = {
    run_id: "r",
    status: "error",
    created_at: "",
    updated_at: "",
    error: { error: name, message },
    metadata: { deerflow_model: "a" },
  };
  const messages = [{ type: "human", id: "m", content: "hi" }];
  const metadata = new Map([["m", { runId: "r" }]]);
  const gateway = fakeGateway({
    models: async () => MODELS,
    messagePage: async () => ({ messages, metadata }),
    newestRun: async () => run,
    ...answers,
  });
  showPage(gateway, { path: "/threads/t" });
}

test.each([
  ["ModelKeyRejected", "The key for Model A was rejected", ["Update key", "Use another model", "Try again"]],
  ["ModelQuotaExceeded", "The quota for Model A is used up", ["Use another model", "Try again"]],
  ["ModelNotFound", "Model A isn’t available at its provider", ["Use another model"]],
  [
    "ModelContextTooLong",
    "This thread is too long for Model A",
    ["Summarize and retry", "Use another model"],
  ],
  ["ModelUnavailable", "Model A isn’t responding", ["Try again", "Use another model"]],
])("%s says what happened and offers what helps", async (name, headline, buttons) => {
  showFailure(name, "the model endpoint rejected the request (401): sk-… is wrong");
  const alert = await screen.findByRole("alert");
  expect(await screen.findByText(headline)).toBeTruthy();
  expect([...alert.querySelectorAll("button")].map((button) => button.textContent)).toEqual(buttons);
  expect(alert.querySelector("details")?.textContent).toContain("sk-… is wrong");
  expect(alert.textContent).not.toContain("kept above");
  const link = alert.querySelector("a")?.getAttribute("href") ?? null;
  expect(link).toBe(name === "ModelNotFound" ? "/settings#models" : null);
});

test("another model answers the same message", async () => {
  const asked: (string | null)[] = [];
  showFailure("ModelQuotaExceeded", "no credit", {
    repeatRun: async (_, { model }) => {
      asked.push(model);
      return streamOf([["end", null]]);
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Use another model" }));
  await userEvent.click(await screen.findByRole("menuitem", { name: "Model B" }));
  await waitFor(() => expect(asked).toEqual(["b"]));
});

test("an unknown error shows the words of the server", async () => {
  showFailure("SandboxError", "no sandbox available");
  expect(await screen.findByText("Couldn’t get a response")).toBeTruthy();
  expect(screen.getByText("No sandbox available.")).toBeTruthy();
});

test("a retry is announced until the model answers", async () => {
  const stream = openStream();
  showPage(fakeGateway({ models: async () => MODELS, startRun: async () => stream.response }));
  await userEvent.type(await screen.findByRole("textbox"), "hi{Enter}");
  expect(await screen.findByText("Model A is thinking…")).toBeTruthy();
  const retry = { type: "llm_retry", attempt: 2, max_attempts: 3, reason: "unavailable" };
  stream.write(encodeEvent(1, ["custom", retry]));
  expect(await screen.findByText("Model A isn’t responding. Retrying (2 of 3)…")).toBeTruthy();
  stream.write(encodeEvent(2, ["messages", [{ type: "AIMessageChunk", id: "b", content: "Hello" }, {}]]));
  await screen.findByText("Hello");
  expect(screen.queryByText(/Retrying/)).toBeNull();
});

test("summarize and retry continues from the summary", async () => {
  const asked: unknown[] = [];
  showFailure("ModelContextTooLong", "too long", {
    compact: async () => {
      asked.push("compact");
      return "summarized";
    },
    repeatRun: async (_, { checkpoint, model }) => {
      asked.push({ checkpoint, model });
      return streamOf([["end", null]]);
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Summarize and retry" }));
  await waitFor(() => expect(asked).toEqual(["compact", { checkpoint: null, model: "a" }]));
});

test("nothing is repeated if there is nothing to summarize", async () => {
  let repeated = false;
  showFailure("ModelContextTooLong", "too long", {
    compact: async () => "nothing_to_summarize",
    repeatRun: async () => {
      repeated = true;
      return streamOf([["end", null]]);
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Summarize and retry" }));
  expect(await screen.findByText("Nothing to summarize yet")).toBeTruthy();
  expect(repeated).toBe(false);
});

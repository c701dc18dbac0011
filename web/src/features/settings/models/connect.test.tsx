import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { ModelCheck, ModelProvider } from "@/api/models";
import { providerOf } from "@/features/settings/models/ProviderChoice";
import { modelStringsEn, modelStringsZh } from "@/i18n/models";
import { fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

const OPENAI: ModelProvider = {
  id: "openai",
  title: "OpenAI",
  base_url: "https://api.openai.com/v1",
  key_url: "https://platform.openai.com/api-keys",
  key_prefixes: ["sk-proj-"],
  install_command: null,
};
const CUSTOM: ModelProvider = {
  ...OPENAI,
  id: "custom",
  title: "Other",
  base_url: null,
  key_url: null,
  key_prefixes: [],
};

const FAILED: ModelCheck = {
  works: false,
  base_url: "https://api.openai.com/v1",
  attempts: [{ url: "GET https://api.openai.com/v1/models", outcome: "401" }],
  models: [],
  tested: null,
  observed: { answer: null, streaming: null, tools: null, usage: null, reasoning: null },
  problems: [
    {
      code: "bad_key",
      severity: "error",
      message: "",
      remedy: "",
      detail: "Incorrect API key provided: [key].",
      values: { host: "OpenAI", model: "", command: "" },
    },
  ],
  seconds: 0.2,
};

test("a key is recognised by its beginning, and only if no other provider has such keys", () => {
  expect(providerOf("sk-proj-123", [CUSTOM, OPENAI])).toBe(OPENAI);
  expect(providerOf("sk-123", [CUSTOM, OPENAI])).toBeNull();
});

test("every problem has its own sentence and remedy in both languages", () => {
  const values = { host: "example.org", model: "m-1", command: "pip install x" };
  for (const { problems } of [modelStringsEn, modelStringsZh]) {
    const texts = Object.values(problems).map(({ message, remedy }) => [message(values), remedy(values)]);
    expect(new Set(texts.map(([message]) => message)).size).toBe(texts.length);
    expect(new Set(texts.map(([, remedy]) => remedy)).size).toBe(texts.length);
  }
  for (const { message, remedy } of Object.values(modelStringsZh.problems)) {
    expect(`${message(values)}${remedy(values)}`).toMatch(/[\u4e00-\u9fff]/);
  }
});

test("a refused key is told with its remedy and details, and a later check that fails keeps the entries", async () => {
  const keys: (string | null)[] = [];
  showPage(fakeGateway(), {
    path: "/settings",
    server: {
      modelProviders: async () => ({ providers: [OPENAI, CUSTOM], local: [] }),
      checkModels: async ({ key }) => {
        keys.push(key);
        if (keys.length > 1) throw new Error("it is down");
        return FAILED;
      },
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Add a model" }));
  await userEvent.click(await screen.findByRole("button", { name: "OpenAI" }));
  const dialog = within(screen.getByRole("dialog", { name: "Connect a model" }));
  await userEvent.type(dialog.getByLabelText("API key"), "sk-typed{Enter}");
  expect((await dialog.findByRole("alert")).textContent).toContain("OpenAI refused the key.");
  expect(dialog.getByText("Incorrect API key provided: [key].")).toBeTruthy();
  expect(dialog.getByText(/v1\/models → 401/)).toBeTruthy();
  expect(dialog.getByText<HTMLButtonElement>("Save").disabled).toBe(true);
  expect(dialog.getByText("Get a key").closest("a")?.getAttribute("href")).toBe(OPENAI.key_url);
  await userEvent.click(dialog.getByText("Check again"));
  await waitFor(() => expect(dialog.getByText(/Couldn’t check\. It is down/)).toBeTruthy());
  expect(keys).toEqual(["sk-typed", "sk-typed"]);
});

test("the dialog says when the providers cannot be loaded, and tries again", async () => {
  const answers = [
    async () => Promise.reject(new Error("down")),
    async () => ({ providers: [OPENAI], local: [] }),
  ];
  showPage(fakeGateway(), {
    path: "/settings",
    server: {
      modelProviders: () => (answers.shift() ?? (async () => ({ providers: [OPENAI], local: [] })))(),
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Add a model" }));
  await userEvent.click(await screen.findByText("Try again"));
  expect(await screen.findByRole("button", { name: "OpenAI", hidden: true })).toBeTruthy();
});

import { fireEvent, screen, within } from "@testing-library/react";
import { expect, test } from "vitest";
import type { Channel, Channels } from "@/api/channels";
import type { Fetch } from "@/api/http";
import { fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

const CHANNEL: Channel = {
  name: "telegram",
  title: "Telegram",
  source: "page",
  is_overridden: false,
  is_readable: true,
  is_running: true,
  bot: "deer_bot",
  connected_since: "2026-11-19T16:00:00Z",
  last_error: null,
  last_error_at: null,
  received: 3,
  sent: 2,
};
const LISTED: Channels = {
  channels: [CHANNEL],
  apps: [
    {
      name: "telegram",
      title: "Telegram",
      is_configured: false,
      fields: [{ name: "bot_token", description: "Token of the bot.", is_required: true }],
    },
  ],
  accounts: [{ channel: "telegram", external_id: "7", name: "Ann Lee", created_at: "2026-11-19T16:00:00Z" }],
  can_change: true,
};

function show(
  listed: Channels,
  answer: (path: string) => Response = () => Response.json({ bot: "deer_bot" }),
) {
  const sent: [string, string][] = [];
  const fetch: Fetch = async (url, init) => {
    if (url === "/api/hooks" && init?.method === undefined) return Response.json([]);
    if (url === "/api/channels") return Response.json(listed);
    sent.push([`${init?.method} ${url}`, String(init?.body ?? "")]);
    return answer(url);
  };
  showPage(fakeGateway(), { path: "/channels", server: { fetch } });
  return sent;
}

test("a connected chat app shows its bot and what went through it", async () => {
  show(LISTED);
  expect(await screen.findByText(/Connected as @deer_bot/)).toBeTruthy();
  expect(screen.getByText(/3 received, 2 sent/)).toBeTruthy();
  expect(screen.getByText("Connected on the page")).toBeTruthy();
  expect(screen.getByText("Ann Lee")).toBeTruthy();
});

test("a connection that fails says why", async () => {
  const channel = { ...CHANNEL, connected_since: null, last_error: "the token is not accepted" };
  show({ ...LISTED, channels: [channel] });
  expect(await screen.findByText("Not connected.")).toBeTruthy();
  expect(screen.getByText(/the token is not accepted/)).toBeTruthy();
});

test("a chat app that config.yaml has too says that it is not used", async () => {
  show({ ...LISTED, channels: [{ ...CHANNEL, is_overridden: true }] });
  expect(await screen.findByText("Not used: config.yaml has this chat app too, and wins.")).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Restart" })).toBeNull();
});

test("people who are no administrators connect their account and change nothing else", async () => {
  const code = { code: "ABC", command: "/connect ABC", expires_at: "2026-11-19T16:10:00Z" };
  const sent = show({ ...LISTED, can_change: false }, () => Response.json(code));
  fireEvent.click(await screen.findByRole("button", { name: "Connect my account" }));
  expect(await screen.findByText("/connect ABC")).toBeTruthy();
  expect(sent.map(([name]) => name)).toEqual(["POST /api/channels/telegram/code"]);
  for (const name of ["Restart", "Check"]) expect(screen.queryByRole("button", { name })).toBeNull();
  expect(screen.queryByRole("heading", { name: "Connect a chat app" })).toBeNull();
});

test("settings are sent once and leave the form", async () => {
  const sent = show({ ...LISTED, channels: [], accounts: [] });
  expect(await screen.findByText("No chat app is connected.")).toBeTruthy();
  const form = within(screen.getByRole("region", { name: "Connect a chat app" }));
  const field: HTMLInputElement = form.getByLabelText("Bot token");
  expect(field.type).toBe("password");
  expect(form.getByRole<HTMLButtonElement>("button", { name: "Connect" }).disabled).toBe(true);
  fireEvent.change(field, { target: { value: "1:secret" } });
  fireEvent.click(form.getByRole("button", { name: "Connect" }));
  await expect.poll(() => field.value).toBe("");
  expect(sent).toEqual([["PUT /api/channels/telegram", '{"settings":{"bot_token":"1:secret"}}']]);
});

test("settings that do not work are kept in the form", async () => {
  const refused = { error: "InvalidRequest", detail: "the token is not accepted" };
  show({ ...LISTED, channels: [], accounts: [] }, () => Response.json(refused, { status: 422 }));
  const field = await screen.findByLabelText<HTMLInputElement>("Bot token");
  fireEvent.change(field, { target: { value: "1:wrong" } });
  fireEvent.click(screen.getByRole("button", { name: "Check" }));
  expect((await screen.findByRole("alert")).textContent).toBe("The token is not accepted.");
  expect(field.value).toBe("1:wrong");
});

test("a webhook is created, and its secret is shown", async () => {
  const settings = { prompt: "Look at {{job}}", agent: null, thread: "key", key: "job" };
  const hook = { hook_id: "h1", name: "CI", settings, is_enabled: true, created_at: "2026-11-19T16:00:00Z" };
  const sent = show({ ...LISTED, can_change: false }, () => Response.json({ hook, secret: "whsec_1" }));
  fireEvent.change(await screen.findByLabelText("Name"), { target: { value: "CI" } });
  fireEvent.change(screen.getByLabelText("Message"), { target: { value: "Look at {{job}}" } });
  fireEvent.change(screen.getByLabelText("Thread of a delivery"), { target: { value: "key" } });
  const create = screen.getByRole<HTMLButtonElement>("button", { name: "Create webhook" });
  expect(create.disabled).toBe(true);
  fireEvent.change(screen.getByLabelText("Key"), { target: { value: "job" } });
  fireEvent.click(create);
  expect(await screen.findByText("whsec_1")).toBeTruthy();
  expect(sent).toEqual([["POST /api/hooks", JSON.stringify({ name: "CI", settings })]]);
});

/** Chat apps, the chat accounts of the person, and their webhooks. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { Schemas } from "@/api/wire";

export type Channels = Schemas["Channels"];
export type Channel = Schemas["ChannelStatus"];
export type ChatApp = Schemas["ChatAppInfo"];
export type ChatAccount = Schemas["ChatAccount"];
export type ConnectCode = Schemas["ConnectCodeInfo"];
export type Hook = Schemas["HookInfo"];
export type NewHook = Schemas["NewHookInfo"];
export type HookSettings = Schemas["CreateHook"]["settings"];
export type AppSettings = Readonly<Record<string, string>>;

export type ChannelsApi = ReturnType<typeof channelsApi>;

export function channelsApi(fetch: Fetch) {
  const send = async (path: string, method: string) => {
    await request(fetch, path, { method });
  };
  return {
    hooks: () => requestJson<Hook[]>(fetch, "/api/hooks"),
    createHook: (name: string, settings: HookSettings) =>
      requestJson<NewHook>(fetch, "/api/hooks", jsonBody({ name, settings })),
    switchHook: (id: string, is_enabled: boolean) =>
      requestJson<Hook>(fetch, hookOf(id), jsonBody({ is_enabled }, "PATCH")),
    replaceHookSecret: (id: string) =>
      requestJson<NewHook>(fetch, `${hookOf(id)}/secret`, { method: "POST" }),
    removeHook: (id: string) => send(hookOf(id), "DELETE"),
    list: () => requestJson<Channels>(fetch, "/api/channels"),
    check: (name: string, settings: AppSettings) =>
      requestJson<Schemas["ChatBot"]>(fetch, `${channelOf(name)}/check`, jsonBody({ settings })),
    save: (name: string, settings: AppSettings) =>
      requestJson<Schemas["ChatBot"]>(fetch, channelOf(name), jsonBody({ settings }, "PUT")),
    remove: (name: string) => send(channelOf(name), "DELETE"),
    restart: (name: string) => send(`${channelOf(name)}/restart`, "POST"),
    sendTest: (name: string) => send(`${channelOf(name)}/test`, "POST"),
    createCode: (name: string) =>
      requestJson<ConnectCode>(fetch, `${channelOf(name)}/code`, { method: "POST" }),
    disconnect: (account: ChatAccount) =>
      send(`${channelOf(account.channel)}/accounts/${encodeURIComponent(account.external_id)}`, "DELETE"),
  };
}

function channelOf(name: string): string {
  return `/api/channels/${encodeURIComponent(name)}`;
}

/** Path to which deliveries of a webhook are sent. */
export function hookOf(id: string): string {
  return `/api/hooks/${encodeURIComponent(id)}`;
}

/** Strings, queries and mutations of the tool pages. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { McpServer, Tool } from "@/api/tools";
import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";
import { toolStringsEn, toolStringsZh } from "@/i18n/tools";
import { toolTextsEn, toolTextsZh } from "@/i18n/toolTexts";
import { useServer } from "@/state/server";

const STRINGS: Readonly<Record<Language, typeof toolStringsEn>> = { en: toolStringsEn, zh: toolStringsZh };

export function useToolStrings(): typeof toolStringsEn {
  return STRINGS[useLanguage()];
}

/** Return a function that describes a tool to people; tools from elsewhere are described by their own text. */
export function useToolText(): (tool: Tool) => string {
  const texts = useLanguage() === "zh" ? toolTextsZh : toolTextsEn;
  return ({ source, name, description }) =>
    (source === "builtin" || source === "web" ? texts[name] : undefined) ?? description;
}

export const SERVERS: readonly string[] = ["mcp"];

const WATCH_MS = 1500;

/** Polling interval while a server is connecting. */
export function watchWhile(servers: readonly McpServer[] | undefined): number | false {
  return servers?.some(({ state }) => state === "connecting" || state === "idle") ? WATCH_MS : false;
}

/** Mutation that refetches all servers. */
export function useServerChange<Given, Got>(change: (given: Given) => Promise<Got>) {
  const queries = useQueryClient();
  return useMutation({
    networkMode: "always",
    mutationFn: change,
    onSettled: async () => {
      await queries.invalidateQueries({ queryKey: SERVERS });
      await queries.invalidateQueries({ queryKey: ["tools"] });
    },
  });
}

/** Turns a server on or off; optimistic, reverted on error. */
export function useServerSwitch(name: string) {
  const server = useServer();
  const queries = useQueryClient();
  const show = (enabled: boolean) => {
    queries.setQueryData<readonly McpServer[]>([...SERVERS, "servers"], (all) =>
      all?.map((each) => (each.name === name ? { ...each, enabled } : each)),
    );
    queries.setQueryData<McpServer>([...SERVERS, "server", name], (one) => one && { ...one, enabled });
  };
  const change = useServerChange((enabled: boolean) => server.switchMcpServer(name, enabled));
  return {
    problem: change.error?.message ?? null,
    flip: (enabled: boolean) => {
      show(enabled);
      change.mutate(enabled, { onError: () => show(!enabled) });
    },
  };
}

/** Offers a tool to agents or not; optimistic, reverted on error. */
export function useToolSwitch(name: string, tool: string) {
  const server = useServer();
  const queries = useQueryClient();
  const show = (enabled: boolean) =>
    queries.setQueryData<McpServer>(
      [...SERVERS, "server", name],
      (one) =>
        one && {
          ...one,
          tools: one.tools.map((each) => (each.name === tool ? { ...each, enabled } : each)),
        },
    );
  const change = useServerChange((enabled: boolean) => server.switchMcpTool(name, tool, enabled));
  return {
    problem: change.error?.message ?? null,
    flip: (enabled: boolean) => {
      show(enabled);
      change.mutate(enabled, { onError: () => show(!enabled) });
    },
  };
}

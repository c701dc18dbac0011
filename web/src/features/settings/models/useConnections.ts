/** Strings, queries and mutations of model connections. */

import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import type { Server } from "@/api/server";
import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";
import { modelStringsEn, modelStringsZh } from "@/i18n/models";
import { MODELS_KEY } from "@/state/models";

const STRINGS: Readonly<Record<Language, typeof modelStringsEn>> = { en: modelStringsEn, zh: modelStringsZh };

export function useModelStrings(): typeof modelStringsEn {
  return STRINGS[useLanguage()];
}

const CONNECTIONS: readonly string[] = ["model-connections"];

export function connectionsQuery(server: Server) {
  return queryOptions({ queryKey: CONNECTIONS, queryFn: server.modelConnections });
}

/** Embedding model of the server. */
export function embeddingQuery(server: Server) {
  return queryOptions({ queryKey: ["embedding-model"], queryFn: server.embeddingModel });
}

/** Providers, and the servers found on this machine, which may be started meanwhile. */
export function providersQuery(server: Server) {
  return queryOptions({
    queryKey: ["model-providers"],
    queryFn: server.modelProviders,
    refetchOnWindowFocus: "always",
  });
}

/** Mutation that refetches the models and their connections. */
export function useConnectionChange<Given, Got>(change: (given: Given) => Promise<Got>) {
  const queries = useQueryClient();
  return useMutation({
    networkMode: "always",
    mutationFn: change,
    onSettled: () =>
      Promise.all([
        queries.invalidateQueries({ queryKey: CONNECTIONS }),
        queries.invalidateQueries({ queryKey: MODELS_KEY }),
      ]),
  });
}

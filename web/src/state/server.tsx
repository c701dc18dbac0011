/** React context with the HTTP calls used in queries. */

import { type QueryClient, QueryClientProvider, useQuery } from "@tanstack/react-query";
import { createContext, type ReactNode, use } from "react";
import type { Feature, Server } from "@/api/server";

export type { Access, Grant, Grantee, Shareable } from "@/api/teams";

interface Props {
  readonly server: Server;
  readonly queries: QueryClient;
  readonly children: ReactNode;
}

const ServerContext = createContext<Server | null>(null);

export function ServerProvider({ server, queries, children }: Props) {
  return (
    <ServerContext value={server}>
      <QueryClientProvider client={queries}>{children}</QueryClientProvider>
    </ServerContext>
  );
}

/** Return the HTTP calls. */
export function useServer(): Server {
  const server = use(ServerContext);
  if (server === null) throw new Error("a component is used outside ServerProvider");
  return server;
}

/** Return true if the server has a feature. */
export function useFeature(feature: Feature): boolean {
  const server = useServer();
  const features = useQuery({
    queryKey: ["features"],
    queryFn: server.features,
    staleTime: Number.POSITIVE_INFINITY,
  });
  return features.data?.[feature] ?? false;
}

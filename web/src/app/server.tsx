/** How components ask the server for what is not part of a run. */

import { type QueryClient, QueryClientProvider, useQuery } from "@tanstack/react-query";
import { createContext, type ReactNode, use } from "react";
import type { Offer, Server } from "@/api/server";

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

/** The calls to make in queries. */
export function useServer(): Server {
  const server = use(ServerContext);
  if (server === null) throw new Error("a component is used outside ServerProvider");
  return server;
}

/** Whether this server can do something that not every one can. */
export function useOffers(offer: Offer): boolean {
  const server = useServer();
  const offers = useQuery({
    queryKey: ["offers"],
    queryFn: server.offers,
    staleTime: Number.POSITIVE_INFINITY,
  });
  return offers.data?.[offer] ?? false;
}

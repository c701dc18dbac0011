/** Query of the sandbox status. */

import { queryOptions, useQuery } from "@tanstack/react-query";
import type { Gateway } from "@/api/gateway";
import type { SandboxInfo } from "@/api/wire";
import { useGateway } from "@/state/context";
import { IMMEDIATE } from "@/state/queries";

export type { SandboxInfo };

export const SANDBOX_KEY: readonly string[] = ["sandbox"];

const POLL_MS = 3000;

export function sandboxQuery(gateway: Gateway) {
  return queryOptions({
    queryKey: SANDBOX_KEY,
    queryFn: () => gateway.sandbox(),
    staleTime: Number.POSITIVE_INFINITY,
    // Packages are installed when the server runs for the first time.
    refetchInterval: ({ state }) =>
      ["building", "missing"].includes(state.data?.toolbox?.status ?? "") ? POLL_MS : false,
    ...IMMEDIATE,
  });
}

/** Return the sandbox status, null until loaded; a server without it shows no warning. */
export function useSandbox(): SandboxInfo | null {
  return useQuery(sandboxQuery(useGateway())).data ?? null;
}

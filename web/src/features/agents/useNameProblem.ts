/** Validates the name of a new agent. */

import { useQuery } from "@tanstack/react-query";
import { useStrings } from "@/i18n/context";
import { useServer } from "@/state/server";

const NAME = /^[A-Za-z0-9-]{1,64}$/;

export function useNameProblem(name: string, isNew: boolean): string | null {
  const strings = useStrings();
  const server = useServer();
  const isName = NAME.test(name);
  const free = useQuery({
    queryKey: ["agent name", name],
    queryFn: () => server.isAgentNameFree(name),
    enabled: isNew && isName,
    staleTime: 0,
  });
  if (!isNew || name === "") return null;
  if (!isName) return strings.agentNameBad;
  return free.data === false ? strings.agentNameTaken : null;
}

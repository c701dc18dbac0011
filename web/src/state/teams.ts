/** HTTP calls of teams and of what people share, for components that are loaded when they are needed. */

import { useMemo } from "react";
import { type TeamsApi, teamsApi } from "@/api/teams";
import { useServer } from "@/state/server";

export function useTeamsApi(): TeamsApi {
  const { fetch } = useServer();
  return useMemo(() => teamsApi(fetch), [fetch]);
}

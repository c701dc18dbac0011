/** Chat apps as the server has them, read again while the page is open and after each change. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { channelsApi } from "@/api/channels";
import { useServer } from "@/state/server";

const CHANNELS_KEY = ["channels"];
const REFRESH_MS = 4000;

/** Return the HTTP calls of chat apps and webhooks. */
export function useChannelsApi() {
  const { fetch } = useServer();
  return useMemo(() => channelsApi(fetch), [fetch]);
}

export function useChannels() {
  const channels = useChannelsApi();
  return useQuery({
    queryKey: CHANNELS_KEY,
    queryFn: channels.list,
    refetchInterval: REFRESH_MS,
    retry: false,
  });
}

export function useChannelChange<Input, Output>(change: (input: Input) => Promise<Output>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSettled: () => queries.invalidateQueries({ queryKey: CHANNELS_KEY }),
  });
}

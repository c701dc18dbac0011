/** Chat apps as the server has them, read again while the page is open and after each change. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useServer } from "@/state/server";

const CHANNELS_KEY = ["channels"];
const REFRESH_MS = 4000;

export function useChannels() {
  const { channels } = useServer();
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

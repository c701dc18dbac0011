/** Text of a file while the agent writes it. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { ContentReader, writingCall } from "@/run/liveFile";
import { textArgument } from "@/run/toolCalls";
import { usePage, usePageState } from "@/state/context";

// Often enough to follow, seldom enough to leave time for everything else.
const READ_MS = 200;

/** Return the text that is written to a path, null if it is not being written. */
export function useLiveFile(threadId: string, path: string): string | null {
  const getPage = usePageState();
  const queries = useQueryClient();
  const callId = usePage(({ conversation }) => writingCall(conversation, path)?.id ?? null);
  const [text, setText] = useState<string | null>(null);
  const wasLive = useRef(false);
  useEffect(() => {
    if (callId === null) {
      setText(null);
      if (wasLive.current) void queries.invalidateQueries({ queryKey: ["thread", threadId] });
      wasLive.current = false;
      return;
    }
    wasLive.current = true;
    const reader = new ContentReader();
    const read = () => {
      const call = writingCall(getPage().conversation, path);
      if (call === null) return;
      setText(typeof call.args === "string" ? reader.read(call.args) : textArgument(call, "content"));
    };
    read();
    const timer = setInterval(read, READ_MS);
    return () => clearInterval(timer);
  }, [callId, path, threadId, getPage, queries]);
  return callId === null ? null : (text ?? "");
}

/** The way to a thread, by its title. */

import { Link } from "@tanstack/react-router";
import { useMemoryWords, useThreadTitle } from "@/features/memory/useMemory";

export function ThreadLink({ threadId }: { threadId: string }) {
  const words = useMemoryWords();
  const title = useThreadTitle(threadId);
  return (
    <Link
      to="/threads/$threadId"
      params={{ threadId }}
      className="text-accent underline [overflow-wrap:anywhere]"
    >
      {title ?? words.aThread}
    </Link>
  );
}

/** Link to a thread. */

import { Link } from "@tanstack/react-router";
import { useThreadTitle } from "@/features/memory/useMemory";
import { useMemoryStrings } from "@/i18n/useMemoryStrings";

export function ThreadLink({ threadId }: { threadId: string }) {
  const strings = useMemoryStrings();
  const title = useThreadTitle(threadId);
  return (
    <Link
      to="/threads/$threadId"
      params={{ threadId }}
      className="text-accent underline [overflow-wrap:anywhere]"
    >
      {title ?? strings.aThread}
    </Link>
  );
}

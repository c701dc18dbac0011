/** What the user said: a quiet block on the right. */

import { useWords } from "@/app/context";
import type { Message } from "@/run/message";

export function UserMessage({ message, unsent }: { message: Message; unsent: boolean }) {
  const words = useWords();
  return (
    <article
      aria-label={words.you}
      data-role="user"
      className="ml-auto flex max-w-[85%] flex-col items-end gap-1"
    >
      <div
        className={`rounded-box bg-tint px-4 py-3 text-prose whitespace-pre-wrap [overflow-wrap:anywhere] ${unsent ? "opacity-70" : ""}`}
      >
        {message.text}
      </div>
      {unsent && <span className="text-small text-error">{words.notSent}</span>}
    </article>
  );
}

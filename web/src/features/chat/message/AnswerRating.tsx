/** Rating of an answer with an optional comment, and its usage. Loaded with the first answer. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Coins, MessageSquareText, ThumbsDown, ThumbsUp } from "lucide-react";
import { useState } from "react";
import type { Feedback, Rating } from "@/api/feedback";
import { useAnswerStrings } from "@/i18n/answers";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatCost, formatCount, formatPercent } from "@/i18n/format";
import type { Message } from "@/run/message";
import { usePage } from "@/state/context";
import { useFeature, useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { focusOnMount } from "@/ui/dom/focusOnMount";
import { IconButton } from "@/ui/IconButton";

interface Props {
  readonly message: Message;
}

export default function AnswerRating({ message }: Props) {
  const threadId = usePage((page) => page.threadId);
  const rates = useFeature("feedback");
  const counts = useFeature("token_usage");
  const { runId } = message;
  if (threadId === null || runId === null) return null;
  return (
    <>
      {rates && <Thumbs threadId={threadId} runId={runId} messageId={message.id} />}
      {counts && <Usage threadId={threadId} runId={runId} />}
    </>
  );
}

interface ThumbsProps {
  readonly threadId: string;
  readonly runId: string;
  readonly messageId: string;
}

function Thumbs({ threadId, runId, messageId }: ThumbsProps) {
  const strings = useAnswerStrings();
  const server = useServer();
  const queries = useQueryClient();
  const queryKey = ["thread", threadId, "feedback"];
  const all = useQuery({ queryKey, queryFn: () => server.feedback(threadId), staleTime: 60_000 });
  const given = all.data?.find((each) => each.message_id === messageId);
  const [commenting, setCommenting] = useState(false);

  const show = async (change: (known: readonly Feedback[]) => readonly Feedback[]) => {
    // A response requested earlier must not replace what was stored now.
    await queries.cancelQueries({ queryKey });
    queries.setQueryData<readonly Feedback[]>(queryKey, (known = []) => change(known));
  };
  const without = (known: readonly Feedback[]) => known.filter((each) => each.message_id !== messageId);
  const saving = useMutation({
    mutationFn: async ({ rating, comment }: { rating: Rating | null; comment: string | null }) => {
      if (rating === null) {
        if (given !== undefined) await server.unrate(threadId, given);
        return show(without);
      }
      const stored = await server.rate(threadId, given?.run_id ?? runId, {
        message_id: messageId,
        rating,
        comment,
      });
      await show((known) => [...without(known), stored]);
    },
  });
  const rate = (rating: Rating) => {
    const taken = given?.rating === rating;
    setCommenting(!taken);
    saving.mutate({ rating: taken ? null : rating, comment: null });
  };
  return (
    <>
      {([1, -1] as const).map((rating) => (
        <IconButton
          key={rating}
          icon={rating === 1 ? ThumbsUp : ThumbsDown}
          label={rating === 1 ? strings.good : strings.bad}
          aria-pressed={given?.rating === rating}
          disabled={all.isPending || saving.isPending}
          onClick={() => rate(rating)}
          className="aria-pressed:text-accent aria-pressed:[&_svg]:fill-current"
        />
      ))}
      {given !== undefined && !commenting && given.comment !== null && (
        <IconButton
          icon={MessageSquareText}
          label={strings.editComment}
          onClick={() => setCommenting(true)}
        />
      )}
      {saving.isError && (
        <span role="alert" className="px-1 text-small text-error">
          {strings.notRated}
        </span>
      )}
      {commenting && given !== undefined && (
        <Comment
          given={given}
          onClose={() => setCommenting(false)}
          onSave={(comment) => {
            setCommenting(false);
            saving.mutate({ rating: given.rating, comment });
          }}
        />
      )}
    </>
  );
}

interface CommentProps {
  readonly given: Feedback;
  readonly onClose: () => void;
  readonly onSave: (comment: string | null) => void;
}

const LONGEST = 4000;

function Comment({ given, onClose, onSave }: CommentProps) {
  const strings = useAnswerStrings();
  const [text, setText] = useState(given.comment ?? "");
  return (
    <form
      className="absolute top-9 left-2 z-20 flex w-[min(24rem,100%-8px)] animate-appear flex-col gap-2 rounded-box border border-line bg-raised p-3 shadow-float"
      onSubmit={(event) => {
        event.preventDefault();
        onSave(text.trim() || null);
      }}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        event.stopPropagation();
        onClose();
      }}
    >
      <textarea
        ref={focusOnMount}
        value={text}
        rows={2}
        maxLength={LONGEST}
        onChange={({ target }) => setText(target.value)}
        aria-label={strings.commentLabel}
        placeholder={given.rating === 1 ? strings.commentGood : strings.commentBad}
        className="resize-none rounded-box border border-line-strong bg-paper px-2 py-1.5 outline-none placeholder:text-faint focus:border-accent"
      />
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>{strings.skipComment}</Button>
        <Button type="submit" primary>
          {strings.saveComment}
        </Button>
      </div>
    </form>
  );
}

/** Tokens and cost of the run, loaded when they are asked for. */
function Usage({ threadId, runId }: { threadId: string; runId: string }) {
  const strings = useAnswerStrings();
  const common = useStrings();
  const language = useLanguage();
  const server = useServer();
  const [wanted, setWanted] = useState(false);
  const usage = useQuery({
    queryKey: ["thread", threadId, "usage", runId],
    queryFn: () => server.runUsage(threadId, runId),
    enabled: wanted,
  });
  const tokens = usage.data;
  const facts =
    tokens === undefined
      ? []
      : [
          strings.tokensUsed(
            formatCount(tokens.input_tokens, language),
            formatCount(tokens.output_tokens, language),
          ),
          ...(tokens.cached_tokens > 0 && tokens.input_tokens > 0
            ? [strings.cachedShare(formatPercent(tokens.cached_tokens / tokens.input_tokens, language))]
            : []),
          ...(tokens.cost ? [formatCost(tokens.cost, language)] : []),
        ];
  const text = usage.isError ? strings.usageUnknown : facts.join(" · ");
  return (
    <>
      <IconButton
        icon={Coins}
        label={text === "" ? strings.usage : `${strings.usage}: ${text}`}
        onPointerEnter={() => setWanted(true)}
        onFocus={() => setWanted(true)}
        onClick={() => setWanted(true)}
      />
      {wanted && (
        <span
          aria-hidden
          className="px-2 text-small text-faint max-wide:order-last max-wide:basis-full wide:whitespace-nowrap"
        >
          {usage.isPending ? common.loadingFile : text}
        </span>
      )}
    </>
  );
}

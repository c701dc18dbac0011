/** Links under which others read a thread: made, copied, listed and taken back. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link2, Trash2, X } from "lucide-react";
import { useState } from "react";
import type { Share } from "@/api/sharing";
import { useLanguage, useWords } from "@/app/context";
import { useServer } from "@/app/server";
import { Button } from "@/ui/Button";
import { CopyButton } from "@/ui/CopyButton";
import { Dialog } from "@/ui/Dialog";
import { IconButton } from "@/ui/IconButton";
import { Segments } from "@/ui/Segments";
import { sentence } from "@/words/words";

interface Props {
  readonly threadId: string;
  readonly title: string;
  readonly onClose: () => void;
}

type Days = "7" | "30" | "any";

export default function ShareDialog({ threadId, title, onClose }: Props) {
  const words = useWords();
  return (
    <Dialog label={words.shareThread(title)} onClose={onClose} className="max-h-[88dvh] w-[min(34rem,94vw)]">
      <div className="flex h-12 shrink-0 items-center gap-2 border-b border-line pr-2 pl-4">
        <h2 className="min-w-0 flex-1 truncate font-medium">{words.shareThread(title)}</h2>
        <IconButton icon={X} label={words.closeIt} onClick={onClose} />
      </div>
      <div className="flex flex-col gap-4 overflow-y-auto p-4">
        <p className="text-soft">{words.shareExplained}</p>
        <Maker threadId={threadId} />
        <Links threadId={threadId} />
      </div>
    </Dialog>
  );
}

function Maker({ threadId }: { threadId: string }) {
  const words = useWords();
  const server = useServer();
  const queries = useQueryClient();
  const [days, setDays] = useState<Days>("7");
  const making = useMutation({
    mutationFn: () => server.share(threadId, days === "any" ? null : Number(days)),
    onSuccess: () => queries.invalidateQueries({ queryKey: keyOf(threadId) }),
  });
  const address = making.data === undefined ? null : new URL(making.data.path, location.href).href;
  return (
    <>
      <div className="flex flex-wrap items-center gap-3">
        <Segments<Days>
          label={words.shareLasts}
          value={days}
          options={{ "7": words.shareDays(7), "30": words.shareDays(30), any: words.shareNoEnd }}
          onChoose={setDays}
        />
        <Button primary disabled={making.isPending} onClick={() => making.mutate()}>
          {words.shareMake}
        </Button>
      </div>
      <div role="status" className="empty:hidden">
        {making.isError && (
          <p className="text-small text-error">{sentence(making.error.message) || words.shareFailed}</p>
        )}
        {address !== null && (
          <div className="flex flex-col gap-1">
            <div className="flex items-center gap-1 rounded-box border border-line-strong bg-rail pl-3">
              <input
                readOnly
                value={address}
                aria-label={words.shareAddress}
                onFocus={(event) => event.target.select()}
                className="h-9 min-w-0 flex-1 truncate bg-transparent font-mono text-small outline-none"
              />
              <CopyButton text={address} label={words.shareCopy} />
            </div>
            <p className="text-small text-faint">{words.shareOnce}</p>
          </div>
        )}
      </div>
    </>
  );
}

function Links({ threadId }: { threadId: string }) {
  const words = useWords();
  const server = useServer();
  const links = useQuery({ queryKey: keyOf(threadId), queryFn: () => server.shares(threadId) });
  if (links.isError) {
    return (
      <div className="flex flex-wrap items-center gap-3 text-soft">
        {words.shareUnlisted}
        <Button onClick={() => void links.refetch()}>{words.tryAgain}</Button>
      </div>
    );
  }
  if (links.data === undefined || links.data.length === 0) return null;
  return (
    <ul aria-label={words.shareLinks} className="divide-y divide-line rounded-box border border-line">
      {links.data.map((share) => (
        <LinkRow key={share.share_id} share={share} threadId={threadId} />
      ))}
    </ul>
  );
}

function LinkRow({ share, threadId }: { share: Share; threadId: string }) {
  const words = useWords();
  const language = useLanguage();
  const server = useServer();
  const queries = useQueryClient();
  const ending = useMutation({
    mutationFn: () => server.unshare(threadId, share.share_id),
    onSettled: () => queries.invalidateQueries({ queryKey: keyOf(threadId) }),
  });
  const day = (moment: string) => new Date(moment).toLocaleDateString(language, { dateStyle: "medium" });
  const exact = new Date(share.created_at).toLocaleString(language);
  return (
    <li className="flex items-center gap-3 py-1 pr-1 pl-3">
      <Link2 aria-hidden className="size-4 shrink-0 text-faint" />
      <div className="min-w-0 flex-1" title={exact}>
        <div className="truncate">{words.shareMade(exact)}</div>
        <div className="text-small text-faint">{ending.isError ? words.shareFailed : endOf(share)}</div>
      </div>
      <IconButton
        icon={Trash2}
        label={words.shareTakeBack(exact)}
        disabled={ending.isPending}
        onClick={() => ending.mutate()}
      />
    </li>
  );

  function endOf({ expires_at }: Share): string {
    if (expires_at === null) return words.shareWorks;
    return Date.parse(expires_at) < Date.now()
      ? words.shareEnded(day(expires_at))
      : words.shareEnds(day(expires_at));
  }
}

function keyOf(threadId: string): readonly string[] {
  return ["thread", threadId, "shares"];
}

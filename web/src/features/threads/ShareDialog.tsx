/** Dialog to share a thread with people and teams, and to create, copy, list and revoke share links. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link2, Trash2, X } from "lucide-react";
import { useState } from "react";
import type { Share } from "@/api/sharing";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import { sentence } from "@/i18n/i18n";
import { useSharingStrings } from "@/i18n/sharing";
import { useTeamStrings } from "@/i18n/teams";
import { Grants } from "@/layout/Grants";
import { useFeature, useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { CopyButton } from "@/ui/CopyButton";
import { Dialog } from "@/ui/Dialog";
import { IconButton } from "@/ui/IconButton";
import { Segments } from "@/ui/Segments";

interface Props {
  readonly threadId: string;
  readonly title: string;
  readonly onClose: () => void;
}

type Days = "7" | "30" | "any";

export default function ShareDialog({ threadId, title, onClose }: Props) {
  const strings = useStrings();
  const teamStrings = useTeamStrings();
  const canShare = useFeature("sharing");
  const { accounts } = useServer();
  const hasPeople = useQuery({ queryKey: ["me"], queryFn: accounts.me }).data?.login_required === true;
  return (
    <Dialog
      label={strings.shareThread(title)}
      onClose={onClose}
      className="max-h-[88dvh] w-[min(34rem,94vw)]"
    >
      <div className="flex h-12 shrink-0 items-center gap-2 border-b border-line pr-2 pl-4">
        <h2 className="min-w-0 flex-1 truncate font-medium">{strings.shareThread(title)}</h2>
        <IconButton icon={X} label={strings.close} onClick={onClose} />
      </div>
      <div className="flex flex-col gap-4 overflow-y-auto p-4">
        {hasPeople && <Grants of={{ kind: "thread", id: threadId }} />}
        {hasPeople && <h3 className="border-t border-line pt-4 font-medium">{teamStrings.links}</h3>}
        {canShare ? (
          <>
            <p className="text-soft">{strings.shareHint}</p>
            <NewLink threadId={threadId} />
            <Links threadId={threadId} />
          </>
        ) : (
          <SharingOff />
        )}
      </div>
    </Dialog>
  );
}

/** Says how to switch sharing on. */
function SharingOff() {
  const strings = useSharingStrings();
  return (
    <>
      <p className="text-soft">{strings.off}</p>
      <pre className="overflow-x-auto rounded-box bg-rail p-3 font-mono text-small">
        {"sharing:\n  enabled: true"}
      </pre>
      <p className="text-small text-faint">{strings.offHint}</p>
    </>
  );
}

function NewLink({ threadId }: { threadId: string }) {
  const strings = useStrings();
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
          label={strings.shareExpiry}
          value={days}
          options={{ "7": strings.shareDays(7), "30": strings.shareDays(30), any: strings.shareNever }}
          onChoose={setDays}
        />
        <Button primary disabled={making.isPending} onClick={() => making.mutate()}>
          {strings.shareCreate}
        </Button>
      </div>
      <div role="status" className="empty:hidden">
        {making.isError && (
          <p className="text-small text-error">{sentence(making.error.message) || strings.shareFailed}</p>
        )}
        {address !== null && (
          <div className="flex flex-col gap-1">
            <div className="flex items-center gap-1 rounded-box border border-line-strong bg-rail pl-3">
              <input
                readOnly
                value={address}
                aria-label={strings.shareAddress}
                onFocus={(event) => event.target.select()}
                className="h-9 min-w-0 flex-1 truncate bg-transparent font-mono text-small outline-none"
              />
              <CopyButton text={address} label={strings.shareCopy} />
            </div>
            <p className="text-small text-faint">{strings.shareOnce}</p>
          </div>
        )}
      </div>
    </>
  );
}

function Links({ threadId }: { threadId: string }) {
  const strings = useStrings();
  const server = useServer();
  const links = useQuery({ queryKey: keyOf(threadId), queryFn: () => server.shares(threadId) });
  if (links.isError) {
    return (
      <div className="flex flex-wrap items-center gap-3 text-soft">
        {strings.shareLinksUnavailable}
        <Button onClick={() => void links.refetch()}>{strings.tryAgain}</Button>
      </div>
    );
  }
  if (links.data === undefined || links.data.length === 0) return null;
  return (
    <ul aria-label={strings.shareLinks} className="divide-y divide-line rounded-box border border-line">
      {links.data.map((share) => (
        <LinkRow key={share.share_id} share={share} threadId={threadId} />
      ))}
    </ul>
  );
}

function LinkRow({ share, threadId }: { share: Share; threadId: string }) {
  const sharing = useSharingStrings();
  const strings = useStrings();
  const language = useLanguage();
  const server = useServer();
  const queries = useQueryClient();
  const ending = useMutation({
    mutationFn: () => server.unshare(threadId, share.share_id),
    onSettled: () => queries.invalidateQueries({ queryKey: keyOf(threadId) }),
  });
  const day = (moment: string) => formatMoment(moment, language);
  const exact = formatMoment(share.created_at, language);
  return (
    <li className="flex items-center gap-3 py-1 pr-1 pl-3">
      <Link2 aria-hidden className="size-4 shrink-0 text-faint" />
      <div className="min-w-0 flex-1" title={exact}>
        <div className="truncate">{strings.shareCreated(exact)}</div>
        <div className="text-small text-faint">{ending.isError ? sharing.notRevoked : endOf(share)}</div>
      </div>
      <IconButton
        icon={Trash2}
        label={strings.shareRevoke(exact)}
        disabled={ending.isPending}
        onClick={() => ending.mutate()}
      />
    </li>
  );

  function endOf({ expires_at }: Share): string {
    if (expires_at === null) return strings.shareNeverExpires;
    return Date.parse(expires_at) < Date.now()
      ? strings.shareExpired(day(expires_at))
      : strings.shareExpires(day(expires_at));
  }
}

function keyOf(threadId: string): readonly string[] {
  return ["thread", threadId, "shares"];
}

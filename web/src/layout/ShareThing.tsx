/** Button and dialog to share an own agent or skill with people and teams, and who shares one with the person. */

import { useQuery } from "@tanstack/react-query";
import { Users, X } from "lucide-react";
import { useState } from "react";
import { useStrings } from "@/i18n/context";
import { useTeamStrings } from "@/i18n/teams";
import { Grants } from "@/layout/Grants";
import type { Access, Shareable } from "@/state/server";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { IconButton } from "@/ui/IconButton";

/** Not shown on a server without accounts, which has nobody to share with. */
export function ShareThingButton({ of }: { of: Shareable }) {
  const strings = useStrings();
  const { accounts } = useServer();
  const hasPeople = useQuery({ queryKey: ["me"], queryFn: accounts.me }).data?.login_required === true;
  const [open, setOpen] = useState(false);
  if (!hasPeople) return null;
  const label = strings.shareThread(of.id);
  return (
    <>
      <Button onClick={() => setOpen(true)}>{strings.share}</Button>
      {open && (
        <Dialog label={label} onClose={() => setOpen(false)} className="max-h-[88dvh] w-[min(34rem,94vw)]">
          <div className="flex h-12 shrink-0 items-center gap-2 border-b border-line pr-2 pl-4">
            <h2 className="min-w-0 flex-1 truncate font-medium">{label}</h2>
            <IconButton icon={X} label={strings.close} onClick={() => setOpen(false)} />
          </div>
          <div className="overflow-y-auto p-4">
            <Grants of={of} />
          </div>
        </Dialog>
      )}
    </>
  );
}

interface Share {
  readonly shared_by?: string | null;
  readonly access?: Access | null;
  readonly has_editors?: boolean;
}

/** Owner of a shared thing, what the person may do with it, and whether others can change it. */
export function OwnerNote({ share, hint }: { share: Share; hint?: string }) {
  const strings = useTeamStrings();
  if (!share.shared_by || !share.access) return null;
  return (
    <p className="flex items-start gap-2 text-small text-soft [overflow-wrap:anywhere]">
      <Users aria-hidden className="mt-0.5 size-4 shrink-0 text-faint" />
      <span>
        {strings.sharedBy(share.shared_by)} · {strings.accesses[share.access]}
        {share.has_editors && ` · ${strings.hasEditors}`}
        {hint !== undefined && <span className="block text-faint">{hint}</span>}
      </span>
    </p>
  );
}

/** Takes the place of the composer in a thread that the person may only read. */
export function ReadOnlyNote({ sharedBy }: { sharedBy: string }) {
  const strings = useTeamStrings();
  return (
    <p
      role="note"
      className="mx-auto mb-3 w-[calc(100%-2rem)] max-w-[44rem] rounded-box border border-line bg-rail px-4 py-3 text-center text-soft [overflow-wrap:anywhere]"
    >
      {strings.readOnly(sharedBy)}
    </p>
  );
}

/** Dialog with the tool calls that are allowed in a thread; each can be revoked. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { ShieldCheck, X } from "lucide-react";
import type { ThreadPermission } from "@/api/sharing";
import { useApprovalStrings } from "@/i18n/approvals";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { IconButton } from "@/ui/IconButton";
import { ErrorState, LoadingState } from "@/ui/states";

interface Props {
  readonly threadId: string;
  readonly onClose: () => void;
}

export default function PermissionsDialog({ threadId, onClose }: Props) {
  const page = useStrings();
  const strings = useApprovalStrings();
  const server = useServer();
  const given = useQuery({ queryKey: keyOf(threadId), queryFn: () => server.permissions(threadId) });
  return (
    <Dialog label={strings.permissions} onClose={onClose} className="max-h-[88dvh] w-[min(34rem,94vw)]">
      <div className="flex h-12 shrink-0 items-center gap-2 border-b border-line pr-2 pl-4">
        <h2 className="min-w-0 flex-1 truncate font-medium">{strings.permissions}</h2>
        <IconButton icon={X} label={page.close} onClick={onClose} />
      </div>
      <div className="flex flex-col gap-4 overflow-y-auto p-4">
        {given.isError ? (
          <ErrorState text={strings.permissionsUnavailable} onRetry={() => void given.refetch()} />
        ) : given.data === undefined ? (
          <LoadingState />
        ) : given.data.length === 0 ? (
          <p className="text-soft">{strings.noPermissions}</p>
        ) : (
          <>
            <p className="text-soft">{strings.permissionsHint}</p>
            <ul
              aria-label={strings.permissions}
              className="divide-y divide-line rounded-box border border-line"
            >
              {given.data.map((permission) => (
                <Row key={permission.permission_id} threadId={threadId} permission={permission} />
              ))}
            </ul>
          </>
        )}
      </div>
    </Dialog>
  );
}

function Row({ threadId, permission }: { threadId: string; permission: ThreadPermission }) {
  const page = useStrings();
  const strings = useApprovalStrings();
  const language = useLanguage();
  const server = useServer();
  const queries = useQueryClient();
  const { permission_id, tool, rule, hosts, created_at } = permission;
  const reasons: Readonly<Record<string, string>> = page.policyReasons;
  const revoking = useMutation({
    networkMode: "always",
    mutationFn: () => server.revokePermission(threadId, permission_id),
    onSettled: () => queries.invalidateQueries({ queryKey: keyOf(threadId) }),
  });
  return (
    <li className="flex items-start gap-3 px-3 py-2">
      <ShieldCheck aria-hidden className="mt-0.5 size-4 shrink-0 text-done" />
      <div className="min-w-0 flex-1">
        <code className="font-mono text-ui wrap-anywhere">{tool}</code>
        <p className="text-small text-soft wrap-anywhere">
          {hosts.length > 0 ? strings.onlyHosts(hosts.join(", ")) : strings.anyInput}
        </p>
        <p className="text-small text-faint wrap-anywhere empty:hidden">{reasons[rule] ?? ""}</p>
        <p className="text-small text-faint">{strings.granted(formatMoment(created_at, language))}</p>
        {revoking.isError && (
          <p role="alert" className="text-small text-error">
            {strings.notRevoked}
          </p>
        )}
      </div>
      <Button
        aria-label={strings.revoke(tool)}
        disabled={revoking.isPending}
        onClick={() => revoking.mutate()}
      >
        {strings.revokeWord}
      </Button>
    </li>
  );
}

function keyOf(threadId: string): readonly string[] {
  return ["permissions", threadId];
}

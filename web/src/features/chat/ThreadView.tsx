/** The open thread in each of its states. */

import { useQuery } from "@tanstack/react-query";
import { CloudOff, type LucideIcon, MessageCircleOff, Unplug } from "lucide-react";
import { lazy, type ReactNode, Suspense, useEffect } from "react";
import { Conversation } from "@/features/chat/Conversation";
import { Composer } from "@/features/chat/composer/Composer";
import { type UseAttachments, useAttachments } from "@/features/chat/composer/useAttachments";
import { NewThread } from "@/features/chat/NewThread";
import { TemporaryBanner } from "@/features/chat/TemporaryChat";
import { useStrings } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import type { Problem } from "@/state/queries";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";

const ReadOnlyNote = lazy(() =>
  import("@/layout/ShareThing").then((module) => ({ default: module.ReadOnlyNote })),
);

export function ThreadView() {
  const threadId = usePage((page) => page.threadId);
  const opening = usePage((page) => page.opening);
  const stale = usePage((page) => page.stale);
  const attachments = useAttachments();
  useReloadOnReturn(stale || (opening.phase === "failed" && opening.problem === "unreachable"));
  if (threadId === null) {
    return (
      <>
        <ConnectionBanner />
        <NewThread attachments={attachments} />
      </>
    );
  }
  if (opening.phase === "failed") return <OpenError problem={opening.problem} threadId={threadId} />;
  return (
    <>
      <ConnectionBanner />
      <TemporaryBanner />
      {opening.phase === "loading" ? <Skeleton /> : <Conversation />}
      <ComposerIfAllowed threadId={threadId} attachments={attachments} />
    </>
  );
}

interface ComposerProps {
  readonly threadId: string;
  readonly attachments: UseAttachments;
}

/** The thread list and the header read what is shared with the person. */
function ComposerIfAllowed({ threadId, attachments }: ComposerProps) {
  const { fetch } = useServer();
  const shared = useQuery({
    queryKey: ["shared-with-me"],
    queryFn: async () => (await import("@/api/teams")).teamsApi(fetch).sharedWithMe(),
    enabled: false,
  });
  const found = shared.data?.threads.find(({ thread }) => thread.thread_id === threadId);
  if (found?.access !== "read") return <Composer attachments={attachments} />;
  return (
    <Suspense>
      <ReadOnlyNote sharedBy={found.shared_by} />
    </Suspense>
  );
}

const LOOK_AGAIN_MS = 5000;

/** Reload until the server responds. */
function useReloadOnReturn(away: boolean): void {
  const actions = useActions();
  useEffect(() => {
    if (!away) return;
    const timer = setInterval(() => void actions.reload(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [actions, away]);
}

function ConnectionBanner() {
  const strings = useStrings();
  const actions = useActions();
  const online = usePage((page) => page.online);
  const connected = usePage(({ conversation }) => conversation.run.connected);
  const stale = usePage((page) => page.stale);
  if (online && connected && !stale) return null;
  const Icon = online ? Unplug : CloudOff;
  return (
    <div className="flex animate-appear items-center justify-center gap-2 border-b border-line bg-warning-tint px-4 py-2 text-small text-warning">
      <Icon aria-hidden className="size-4 shrink-0" />
      {!online ? strings.offline : connected ? strings.stale : strings.reconnecting}
      {online && stale && <Button onClick={() => void actions.reload()}>{strings.tryAgain}</Button>}
    </div>
  );
}

function OpenError({ problem, threadId }: { problem: Problem; threadId: string }) {
  const strings = useStrings();
  const actions = useActions();
  if (problem === "missing") {
    return (
      <ErrorMessage icon={MessageCircleOff} title={strings.threadMissing} hint={strings.threadMissingHint}>
        <Button onClick={() => void actions.open(null)}>{strings.newThread}</Button>
      </ErrorMessage>
    );
  }
  return (
    <ErrorMessage icon={Unplug} title={strings.threadUnavailable} hint={strings.threadUnavailableHint}>
      <Button onClick={() => void actions.open(threadId, "pop")}>{strings.tryAgain}</Button>
    </ErrorMessage>
  );
}

interface ErrorMessageProps {
  readonly icon: LucideIcon;
  readonly title: string;
  readonly hint: string;
  readonly children: ReactNode;
}

function ErrorMessage({ icon: Icon, title, hint, children }: ErrorMessageProps) {
  return (
    <div role="alert" className="m-auto flex max-w-96 flex-col items-center gap-2 p-6 text-center">
      <Icon aria-hidden className="mb-2 size-6 text-faint" />
      <h2 className="text-title font-semibold">{title}</h2>
      <p className="mb-3 text-soft">{hint}</p>
      {children}
    </div>
  );
}

function Skeleton() {
  const strings = useStrings();
  return (
    <div role="status" aria-label={strings.loadingThread} className="min-h-0 flex-1 overflow-hidden">
      <div className="mx-auto flex w-full max-w-[46rem] animate-late flex-col gap-3 px-4 py-6">
        <div className="mb-3 ml-auto h-12 w-2/5 animate-breathe rounded-box bg-tint" />
        {["w-full", "w-11/12", "w-4/5", "w-2/5"].map((width) => (
          <div key={width} className={`h-5 animate-breathe rounded-box bg-tint ${width}`} />
        ))}
      </div>
    </div>
  );
}

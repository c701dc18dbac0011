/** Read-only page of a shared thread. */

import { useQuery } from "@tanstack/react-query";
import { Link2Off, Unplug } from "lucide-react";
import { useEffect } from "react";
import type { SharedThread } from "@/api/sharing";
import { OpenShared } from "@/app/shared/OpenShared";
import { Conversation } from "@/features/chat/Conversation";
import { type FileActions, FileActionsProvider } from "@/features/chat/message/FileActions";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import { useTitle } from "@/layout/useTitle";
import { useActions, usePage } from "@/state/context";
import { Button } from "@/ui/Button";

const FILE_ACTIONS: FileActions = { OpenFile: OpenShared, InstallSkill: null, ChangedFiles: null };

export function SharedPage({ about }: { about: () => Promise<SharedThread> }) {
  const strings = useStrings();
  const opening = usePage((page) => page.opening);
  const title = usePage(({ conversation }) => conversation.title);
  useDocumentAttributes();
  useTitle(title ?? strings.sharedThread);
  return (
    <main className="flex h-dvh flex-col">
      <header className="flex h-12 shrink-0 items-center gap-3 border-b border-line px-4">
        <img src="/icon.svg" alt="DeerFlow" className="size-5" />
        <h1 className="min-w-0 flex-1 truncate font-medium">{title ?? strings.sharedThread}</h1>
        <span className="shrink-0 rounded-full border border-line px-2 py-0.5 text-small text-soft">
          {strings.readOnly}
        </span>
      </header>
      {opening.phase === "ready" && (
        <FileActionsProvider actions={FILE_ACTIONS}>
          <Conversation fromStart />
        </FileActionsProvider>
      )}
      {opening.phase === "loading" && (
        <p role="status" className="m-auto animate-late text-soft">
          {strings.loadingThread}
        </p>
      )}
      {opening.phase === "failed" && <OpenError missing={opening.problem === "missing"} />}
      {opening.phase === "ready" && <Note about={about} />}
    </main>
  );
}

/** Shows the time of sharing. */
function Note({ about }: { about: () => Promise<SharedThread> }) {
  const strings = useStrings();
  const language = useLanguage();
  const thread = useQuery({ queryKey: ["shared"], queryFn: about, staleTime: Number.POSITIVE_INFINITY });
  const shared = thread.data && new Date(thread.data.shared_at);
  return (
    <footer
      title={shared && formatMoment(shared, language)}
      className="min-h-9 shrink-0 border-t border-line px-4 py-2 text-center text-small text-faint"
    >
      {shared && strings.sharedNote(formatMoment(shared, language))}
    </footer>
  );
}

function OpenError({ missing }: { missing: boolean }) {
  const strings = useStrings();
  const actions = useActions();
  const Icon = missing ? Link2Off : Unplug;
  return (
    <div role="alert" className="m-auto flex max-w-96 flex-col items-center gap-2 p-6 text-center">
      <Icon aria-hidden className="mb-2 size-6 text-faint" />
      <h2 className="text-title font-semibold">
        {missing ? strings.linkMissing : strings.threadUnavailable}
      </h2>
      <p className="mb-3 text-soft">{missing ? strings.linkMissingHint : strings.threadUnavailableHint}</p>
      {!missing && <Button onClick={() => void actions.reload()}>{strings.tryAgain}</Button>}
    </div>
  );
}

function useDocumentAttributes(): void {
  const language = useLanguage();
  useEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
}

/** View of one file: preview or source, with its actions. */

import {
  ArrowLeft,
  ChevronLeft,
  ChevronRight,
  Download,
  ExternalLink,
  type LucideIcon,
  Maximize,
  Minimize,
} from "lucide-react";
import { type ComponentProps, lazy, type RefObject, Suspense, useEffect, useRef, useState } from "react";
import { artifactUrl, fileName, previewUrl } from "@/api/artifacts";
import { TextView } from "@/features/panel/TextView";
import { DownloadButton } from "@/files/DownloadButton";
import { FilePreview } from "@/files/FilePreview";
import { endingOf } from "@/files/kinds";
import { mayBeText, type Preview, previewOf } from "@/files/previews";
import { useText } from "@/files/useText";
import { useStrings } from "@/i18n/context";
import { usePreviewStrings } from "@/i18n/useResultStrings";
import { useLiveFile } from "@/state/useLiveFile";
import { CopyButton } from "@/ui/CopyButton";
import { IconButton } from "@/ui/IconButton";
import { Segments } from "@/ui/Segments";
import { ErrorState, LoadingState } from "@/ui/states";

const LiveFile = lazy(() => import("@/files/LiveFile"));

interface Props {
  readonly threadId: string;
  readonly path: string;
  /** Files next to this one, in order. */
  readonly siblings: readonly string[];
  readonly onOpen: (path: string) => void;
  readonly onBack: () => void;
}

type View = "preview" | "text";

export function FileView({ threadId, path, siblings, onOpen, onBack }: Props) {
  const strings = useStrings();
  const preview = previewOf(path);
  const live = useLiveFile(threadId, path);
  const isLive = live !== null && (preview === "page" || preview === "markdown");
  const [chosen, setChosen] = useState<View>("preview");
  const view: View = preview === null ? "text" : chosen;
  const name = fileName(path);
  const section = useRef<HTMLElement>(null);
  return (
    <section ref={section} aria-label={name} className="flex min-h-0 flex-1 flex-col bg-paper">
      <div className="flex h-11 shrink-0 items-center gap-1 border-b border-line px-2">
        <IconButton icon={ArrowLeft} label={strings.back} onClick={onBack} />
        <h2 title={path} className="min-w-0 flex-1 truncate font-medium">
          {name}
        </h2>
        <Siblings path={path} siblings={siblings} onOpen={onOpen} />
      </div>
      <div className="flex h-11 shrink-0 items-center gap-1 border-b border-line px-2">
        {preview !== null && mayBeText(path) && !isLive && (
          <Segments<View>
            label={strings.fileView}
            value={view}
            options={{ preview: strings.preview, text: strings.source }}
            onChoose={setChosen}
          />
        )}
        <span className="flex-1" />
        {!isLive && mayBeText(path) && <CopyText threadId={threadId} path={path} />}
        <Actions threadId={threadId} path={path} preview={preview} section={section} />
      </div>
      <Suspense fallback={<LoadingState />}>
        {isLive ? (
          <LiveFile path={path} text={live} />
        ) : view === "preview" && preview !== null ? (
          <FilePreview kind={preview} threadId={threadId} path={path} />
        ) : mayBeText(path) ? (
          <TextView key={path} threadId={threadId} path={path} />
        ) : (
          <ErrorState text={strings.noPreview}>
            <DownloadButton path={path} />
          </ErrorState>
        )}
      </Suspense>
    </section>
  );
}

function Siblings({ path, siblings, onOpen }: Pick<Props, "path" | "siblings" | "onOpen">) {
  const strings = usePreviewStrings();
  const at = siblings.indexOf(path);
  if (at < 0 || siblings.length < 2) return null;
  const [before, after] = [siblings[at - 1], siblings[at + 1]];
  return (
    <>
      <IconButton
        icon={ChevronLeft}
        label={strings.previousFile}
        disabled={before === undefined}
        onClick={() => before !== undefined && onOpen(before)}
      />
      <span className="shrink-0 text-small text-faint">{strings.filePosition(at + 1, siblings.length)}</span>
      <IconButton
        icon={ChevronRight}
        label={strings.nextFile}
        disabled={after === undefined}
        onClick={() => after !== undefined && onOpen(after)}
      />
    </>
  );
}

function CopyText({ threadId, path }: { threadId: string; path: string }) {
  const strings = usePreviewStrings();
  const file = useText(threadId, path);
  if (file.data == null) return null;
  return <CopyButton text={file.data.text} label={strings.copyFile} />;
}

interface ActionsProps {
  readonly threadId: string;
  readonly path: string;
  readonly preview: Preview | null;
  readonly section: RefObject<HTMLElement | null>;
}

function Actions({ threadId, path, preview, section }: ActionsProps) {
  const strings = useStrings();
  const results = usePreviewStrings();
  const isFull = useIsFullScreen();
  const tab = tabUrl(threadId, path, preview);
  return (
    <>
      {tab !== null && (
        <IconLink
          icon={ExternalLink}
          label={results.openInTab}
          href={tab}
          target="_blank"
          rel="noopener noreferrer"
        />
      )}
      {document.fullscreenEnabled && (
        <IconButton
          icon={isFull ? Minimize : Maximize}
          label={isFull ? results.endFullScreen : results.fullScreen}
          onClick={() => void (isFull ? document.exitFullscreen() : section.current?.requestFullscreen())}
        />
      )}
      <IconLink
        icon={Download}
        label={strings.download(fileName(path))}
        href={artifactUrl(threadId, path, { download: true })}
        download={fileName(path)}
      />
    </>
  );
}

// Served as attachments, because browsers would run them.
const NOT_INLINE = ["xml", "xhtml", "xsl", "xslt", "shtml", "mht", "mhtml"];

// Untrusted files of these kinds are never opened by the browser itself, so the page shows them.
const SHOWN_BY_PAGE: readonly (Preview | null)[] = ["pdf", "sound", "film", "office"];

/** Return the address at which a file can be shown safely, null if it can only be downloaded. */
export function tabUrl(threadId: string, path: string, preview: Preview | null): string | null {
  // Pages of the agent are shown without an origin, as in the panel.
  if (preview === "page") return previewUrl(threadId, path);
  if (preview === "picture") return artifactUrl(threadId, path);
  if (SHOWN_BY_PAGE.includes(preview))
    return `/threads/${encodeURIComponent(threadId)}?panel=artifacts&file=${encodeURIComponent(path)}`;
  return mayBeText(path) && !NOT_INLINE.includes(endingOf(path)) ? artifactUrl(threadId, path) : null;
}

interface IconLinkProps extends ComponentProps<"a"> {
  readonly href: string;
  readonly icon: LucideIcon;
  readonly label: string;
}

function IconLink({ icon: Icon, label, href, ...rest }: IconLinkProps) {
  return (
    <a
      href={href}
      aria-label={label}
      title={label}
      className="inline-flex size-8 shrink-0 items-center justify-center rounded-box text-faint hover:bg-tint hover:text-ink"
      {...rest}
    >
      <Icon aria-hidden className="size-4" />
    </a>
  );
}

function useIsFullScreen(): boolean {
  const [isFull, setFull] = useState(false);
  useEffect(() => {
    const onChange = () => setFull(document.fullscreenElement !== null);
    document.addEventListener("fullscreenchange", onChange);
    return () => document.removeEventListener("fullscreenchange", onChange);
  }, []);
  return isFull;
}

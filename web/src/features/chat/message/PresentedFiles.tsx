/** Files presented by the agent. */

import { useQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { fileName } from "@/api/artifacts";
import { useFileActions } from "@/features/chat/message/FileActions";
import { FileIcon } from "@/files/FileIcon";
import { describeKind, isPicture } from "@/files/kinds";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatSize } from "@/i18n/format";
import { useIsReader, usePage } from "@/state/context";
import { useServer } from "@/state/server";
import { useFileUrls } from "@/ui/FileUrls";

const Lightbox = lazy(() => import("@/ui/Lightbox"));

interface Props {
  /** Paths of the call; files missing on the server are left out. */
  readonly paths: readonly string[];
  /** Shown if no file is available. */
  readonly children: ReactNode;
}

export function PresentedFiles({ paths, children }: Props) {
  const strings = useStrings();
  const threadId = usePage((page) => page.threadId);
  const artifacts = usePage(({ conversation }) => conversation.artifacts);
  const found = [...new Set(paths)].filter((path) => artifacts.includes(path));
  const pictures = found.filter(isPicture);
  const others = found.filter((path) => !isPicture(path));
  if (threadId === null || found.length === 0) return children;
  return (
    <ul aria-label={strings.presentedFiles} className="grid items-start gap-3 wide:grid-cols-2">
      {[...pictures, ...others].map((path) => (
        <FileCard key={path} threadId={threadId} path={path} large={path === pictures[0] && !pictures[1]} />
      ))}
    </ul>
  );
}

interface CardProps {
  readonly threadId: string;
  readonly path: string;
  /** A single image uses the full width. */
  readonly large: boolean;
}

function FileCard({ threadId, path, large }: CardProps) {
  const strings = useStrings();
  const urls = useFileUrls();
  const { OpenFile, InstallSkill } = useFileActions();
  const [lost, setLost] = useState(false);
  const [enlarged, setEnlarged] = useState(false);
  const isReader = useIsReader();
  const name = fileName(path);
  const picture = isPicture(path) && !lost;
  return (
    <li
      className={`flex min-w-0 flex-col overflow-hidden rounded-box border border-line ${large ? "wide:col-span-2" : ""}`}
    >
      {picture && (
        <button
          type="button"
          title={name}
          onClick={() => setEnlarged(true)}
          className="block cursor-zoom-in border-b border-line bg-rail focus-visible:-outline-offset-2"
        >
          <img
            src={urls.artifact(path)}
            alt={name}
            loading="lazy"
            onError={() => setLost(true)}
            className={`w-full object-contain ${large ? "h-56 wide:h-80" : "h-48"}`}
          />
        </button>
      )}
      {enlarged && (
        <Suspense>
          <Lightbox image={urls.artifact(path)} label={name} onClose={() => setEnlarged(false)}>
            <DownloadLink path={path} />
          </Lightbox>
        </Suspense>
      )}
      <div className="flex items-center gap-3 py-2 pr-2 pl-3">
        <FileIcon path={path} large />
        <div className="min-w-0 flex-1">
          <OpenFile path={path} />
          <div className="text-small text-faint">
            {describeKind(path, strings)}
            {!isReader && <FileSize threadId={threadId} path={path} />}
          </div>
        </div>
        {path.endsWith(".skill") && InstallSkill !== null && <InstallSkill threadId={threadId} path={path} />}
        <DownloadLink path={path} />
      </div>
    </li>
  );
}

function DownloadLink({ path }: { path: string }) {
  const strings = useStrings();
  const urls = useFileUrls();
  const name = fileName(path);
  return (
    <a
      href={urls.artifact(path, { download: true })}
      download={name}
      aria-label={strings.download(name)}
      title={strings.download(name)}
      className="inline-flex size-8 shrink-0 items-center justify-center rounded-box text-faint hover:bg-tint hover:text-ink"
    >
      <Download aria-hidden className="size-4" />
    </a>
  );
}

/** Size of a file, as its folder lists it: one request for all files of a folder. */
function FileSize({ threadId, path }: { threadId: string; path: string }) {
  const language = useLanguage();
  const server = useServer();
  const folder = path.slice(0, path.lastIndexOf("/"));
  const listed = useQuery({
    queryKey: ["thread", threadId, "folder", folder],
    queryFn: () => server.folder(threadId, folder),
    retry: false,
  });
  const size = listed.data?.entries.find((entry) => entry.path === path)?.size;
  return size === undefined ? null : ` · ${formatSize(size, language)}`;
}

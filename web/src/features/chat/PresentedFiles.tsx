/** Files presented by the agent. */

import { Download } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useFileUrls, useIsReader, usePage, useStrings } from "@/app/context";
import { describeKind, fileKind, isPicture } from "@/features/chat/files";
import { fileName } from "@/features/chat/tools";
import { kindIcon } from "@/features/panel/kinds";
import { OpenInPanel } from "@/features/panel/OpenInPanel";
import { OpenShared } from "@/features/sharing/OpenShared";
import { InstallFromThread } from "@/features/skills/InstallFromThread";

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
        <FileCard key={path} path={path} large={path === pictures[0] && !pictures[1]} />
      ))}
    </ul>
  );
}

interface CardProps {
  readonly path: string;
  /** A single image uses the full width. */
  readonly large: boolean;
}

function FileCard({ path, large }: CardProps) {
  const strings = useStrings();
  const addresses = useFileUrls();
  const [lost, setLost] = useState(false);
  const name = fileName(path);
  const Icon = kindIcon(fileKind(path));
  const picture = isPicture(path) && !lost;
  return (
    <li
      className={`flex min-w-0 flex-col overflow-hidden rounded-box border border-line ${large ? "wide:col-span-2" : ""}`}
    >
      {picture && (
        <a
          href={addresses.artifact(path)}
          target="_blank"
          rel="noreferrer"
          className="block border-b border-line bg-rail focus-visible:-outline-offset-2"
        >
          <img
            src={addresses.artifact(path)}
            alt={name}
            loading="lazy"
            onError={() => setLost(true)}
            className={`w-full object-contain ${large ? "h-56 wide:h-80" : "h-48"}`}
          />
        </a>
      )}
      <div className="flex items-center gap-3 py-2 pr-2 pl-3">
        <Icon aria-hidden className="size-5 shrink-0 text-accent" />
        <div className="min-w-0 flex-1">
          <OpenFile path={path} />
          <div className="text-small text-faint">{describeKind(path, strings)}</div>
        </div>
        {path.endsWith(".skill") && <InstallSkill path={path} />}
        <a
          href={addresses.artifact(path, { download: true })}
          download={name}
          aria-label={strings.download(name)}
          title={strings.download(name)}
          className="inline-flex size-8 shrink-0 items-center justify-center rounded-box text-faint hover:bg-tint hover:text-ink"
        >
          <Download aria-hidden className="size-4" />
        </a>
      </div>
    </li>
  );
}

/** File name that opens the file in the panel, or in a dialog on shared pages. */
function OpenFile({ path }: { path: string }) {
  return useIsReader() ? <OpenShared path={path} /> : <OpenInPanel path={path} />;
}

/** Only for the owner of the thread. */
function InstallSkill({ path }: { path: string }) {
  const threadId = usePage((page) => page.threadId);
  const isReader = useIsReader();
  return isReader || threadId === null ? null : <InstallFromThread threadId={threadId} path={path} />;
}

/** React context with the components that open a presented file and install a presented skill. */

import { type ComponentType, createContext, type ReactNode, use } from "react";
import { fileName } from "@/api/artifacts";

export interface FileActions {
  /** File name that opens the file. */
  readonly OpenFile: ComponentType<{ path: string }>;
  /** Button that installs a skill archive; null on shared pages. */
  readonly InstallSkill: ComponentType<{ threadId: string; path: string }> | null;
  /** Badge with the files that an answer changed; null on shared pages. */
  readonly ChangedFiles: ComponentType<{ threadId: string; runId: string }> | null;
}

const FileActionsContext = createContext<FileActions>({
  OpenFile: ({ path }) => <span>{fileName(path)}</span>,
  InstallSkill: null,
  ChangedFiles: null,
});

export function FileActionsProvider({ actions, children }: { actions: FileActions; children: ReactNode }) {
  return <FileActionsContext value={actions}>{children}</FileActionsContext>;
}

export function useFileActions(): FileActions {
  return use(FileActionsContext);
}

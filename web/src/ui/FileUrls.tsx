/** React context with the URLs of the open thread's files. */

import { createContext, type ReactNode, use } from "react";
import { type FileUrls, fileUrls } from "@/api/artifacts";

const FileUrlsContext = createContext<FileUrls>(fileUrls(""));

export function FileUrlsProvider({ urls, children }: { urls: FileUrls; children: ReactNode }) {
  return <FileUrlsContext value={urls}>{children}</FileUrlsContext>;
}

export function useFileUrls(): FileUrls {
  return use(FileUrlsContext);
}

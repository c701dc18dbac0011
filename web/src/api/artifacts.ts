/** URLs of a thread's files and of sandboxed previews. */
export interface FileUrls {
  artifact(path: string, how?: { readonly download?: boolean }): string;
  preview(path: string): string;
  /** A small version of an image; missing for readers of a share link. */
  thumbnail?(path: string, size: number): string;
  /** The saved copy of a web page; missing for readers of a share link. */
  webPage?(url: string): string;
}

export function fileUrls(threadId: string): FileUrls {
  return {
    artifact: (path, how) => artifactUrl(threadId, path, how),
    preview: (path) => previewUrl(threadId, path),
    thumbnail: (path, size) =>
      `${artifactUrl(threadId, path).replace("/artifacts/", "/thumbnails/")}?size=${size}`,
    webPage: (url) => webPageUrl(threadId, url),
  };
}

/** Return the URL of a file. */
export function artifactUrl(threadId: string, path: string, { download = false } = {}): string {
  const segments = path.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/");
  return `/api/threads/${encodeURIComponent(threadId)}/artifacts/${segments}${download ? "?download=true" : ""}`;
}

/** Return the URL of the saved copy of a web page. */
export function webPageUrl(threadId: string, url: string): string {
  return `/api/threads/${encodeURIComponent(threadId)}/web-pages/at?url=${encodeURIComponent(url)}`;
}

/** Return the URL of a ZIP archive with all artifacts. */
export function bundleUrl(threadId: string): string {
  return `/api/threads/${encodeURIComponent(threadId)}/artifacts.zip`;
}

/** Return the URL of a sandboxed preview of an HTML file. */
export function previewUrl(threadId: string, path: string): string {
  return artifactUrl(threadId, path).replace("/artifacts/", "/previews/");
}

/** Return the last segment of a path. */
export function fileName(path: string): string {
  return path.replace(/\/+$/, "").split("/").at(-1) || path;
}

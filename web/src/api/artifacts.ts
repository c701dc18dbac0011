/** Where files are to be had, and web pages to be seen at work, reaching nothing. */
export interface Addresses {
  artifact(path: string, how?: { readonly download?: boolean }): string;
  preview(path: string): string;
  /** A page of the web as the agent read it; missing where that is nobody's business. */
  webPage?(url: string): string;
}

export function addressesOf(threadId: string): Addresses {
  return {
    artifact: (path, how) => artifactUrl(threadId, path, how),
    preview: (path) => previewUrl(threadId, path),
    webPage: (url) => webPageUrl(threadId, url),
  };
}

/** Where a file the agent presented is to be had. */
export function artifactUrl(threadId: string, path: string, { download = false } = {}): string {
  const segments = path.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/");
  return `/api/threads/${encodeURIComponent(threadId)}/artifacts/${segments}${download ? "?download=true" : ""}`;
}

/** Where a page that the agent has read is to be had as it was then. */
export function webPageUrl(threadId: string, url: string): string {
  return `/api/threads/${encodeURIComponent(threadId)}/web-pages/at?url=${encodeURIComponent(url)}`;
}

/** Where all files the agent made are to be had in one. */
export function bundleUrl(threadId: string): string {
  return `/api/threads/${encodeURIComponent(threadId)}/artifacts.zip`;
}

/** Where a web page the agent made can be seen at work, reaching nothing. */
export function previewUrl(threadId: string, path: string): string {
  return artifactUrl(threadId, path).replace("/artifacts/", "/previews/");
}

/** Where a file the agent presented is to be had. */
export function artifactUrl(threadId: string, path: string, { download = false } = {}): string {
  const segments = path.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/");
  return `/api/threads/${encodeURIComponent(threadId)}/artifacts/${segments}${download ? "?download=true" : ""}`;
}

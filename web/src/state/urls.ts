/** URLs of threads. */

/** Return the thread id of a path, null for a new thread, undefined for other views. */
export function threadInPath(path: string): string | null | undefined {
  if (path === "/") return null;
  const id = /^\/threads\/([^/]+)\/?$/.exec(path)?.[1];
  return id === undefined ? undefined : decodeURIComponent(id);
}

/** Return the token of a share link, null for other paths. */
export function sharedInPath(path: string): string | null {
  const token = /^\/share\/([^/]+)\/?$/.exec(path)?.[1];
  return token === undefined ? null : decodeURIComponent(token);
}

export function pathOf(threadId: string | null): string {
  return threadId === null ? "/" : `/threads/${encodeURIComponent(threadId)}`;
}

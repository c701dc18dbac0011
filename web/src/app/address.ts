/** Which thread an address means. */

/** The thread of a view that shows one, null for a new one; undefined for every other view. */
export function threadInPath(path: string): string | null | undefined {
  if (path === "/") return null;
  const id = /^\/threads\/([^/]+)\/?$/.exec(path)?.[1];
  return id === undefined ? undefined : decodeURIComponent(id);
}

/** The secret of a link, where the address is one under which somebody reads a thread. */
export function sharedInPath(path: string): string | null {
  const token = /^\/share\/([^/]+)\/?$/.exec(path)?.[1];
  return token === undefined ? null : decodeURIComponent(token);
}

export function pathOf(threadId: string | null): string {
  return threadId === null ? "/" : `/threads/${encodeURIComponent(threadId)}`;
}

/** Completing `@` to the path of a file of the thread. */

import { fileName } from "@/features/chat/tools";

export interface Mention {
  /** Where the `@` stands. */
  readonly start: number;
  readonly query: string;
}

const MENTION = /(?:^|\s)@([^\s@]*)$/;
const MOST = 8;

/** What is being mentioned right before `caret`. */
export function mentionAt(text: string, caret: number): Mention | null {
  const found = MENTION.exec(text.slice(0, caret));
  const query = found?.[1];
  return query === undefined ? null : { start: caret - query.length - 1, query };
}

/** The files a mention may mean, those whose name begins so first. */
export function matching(paths: readonly string[], query: string): readonly string[] {
  const wanted = query.toLowerCase();
  const found = [...new Set(paths)].filter((path) => fileName(path).toLowerCase().includes(wanted));
  const rank = (path: string) => (fileName(path).toLowerCase().startsWith(wanted) ? 0 : 1);
  return found.sort((a, b) => rank(a) - rank(b)).slice(0, MOST);
}

/** The text with the mention made a path, and where the caret is then. */
export function completed(text: string, caret: number, { start }: Mention, path: string): [string, number] {
  const before = `${text.slice(0, start)}${path} `;
  return [before + text.slice(caret).replace(/^ /, ""), before.length];
}

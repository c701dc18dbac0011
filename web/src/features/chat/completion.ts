/** Completing what is being written: `@` to the path of a file, `/` at the beginning to the name of a skill. */

import type { Skill } from "@/api/skills";
import { fileName } from "@/features/chat/tools";

export interface Mention {
  readonly kind: "file" | "skill";
  /** Where its sign stands. */
  readonly start: number;
  readonly query: string;
}

/** What a mention may become. */
export interface Candidate {
  readonly id: string;
  readonly label: string;
  readonly note: string;
  /** What is written in the place of the mention. */
  readonly text: string;
  /** The page itself carries it out. */
  readonly isCommand?: boolean;
}

const FILE = /(?:^|\s)@([^\s@]*)$/;
const SKILL = /^\/([^\s/]*)$/;
const MOST = 8;

/** What is being mentioned right before `caret`. */
export function mentionAt(text: string, caret: number): Mention | null {
  const before = text.slice(0, caret);
  const skill = SKILL.exec(before)?.[1];
  if (skill !== undefined) return { kind: "skill", start: 0, query: skill };
  const file = FILE.exec(before)?.[1];
  return file === undefined ? null : { kind: "file", start: caret - file.length - 1, query: file };
}

export function fileCandidates(paths: readonly string[], query: string): readonly Candidate[] {
  const files = [...new Set(paths)].map((path) => ({
    id: path,
    label: fileName(path),
    note: path,
    text: path,
  }));
  return matching(files, query, MOST);
}

/** Skills are to be discovered, so all of them are offered. */
export function skillCandidates(skills: readonly Skill[], query: string): readonly Candidate[] {
  const usable = skills.filter(({ enabled }) => enabled);
  const candidates = usable.map(({ name, description }) => ({
    id: name,
    label: `/${name}`,
    note: description,
    text: `/${name}`,
  }));
  return matching(candidates, query, candidates.length);
}

/** The text with the mention made whole, and where the caret is then. */
export function completed(text: string, caret: number, { start }: Mention, whole: string): [string, number] {
  const before = `${text.slice(0, start)}${whole} `;
  return [before + text.slice(caret).replace(/^ /, ""), before.length];
}

/** Those whose label has the query, those that begin with it first. */
export function matching(all: readonly Candidate[], query: string, most: number): readonly Candidate[] {
  const wanted = query.toLowerCase();
  const name = ({ label }: Candidate) => label.replace(/^\//, "").toLowerCase();
  const rank = (candidate: Candidate) => (name(candidate).startsWith(wanted) ? 0 : 1);
  return all
    .filter((candidate) => name(candidate).includes(wanted))
    .sort((a, b) => rank(a) - rank(b))
    .slice(0, most);
}

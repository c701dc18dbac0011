/** Completion: `@` for file paths, `/` at the start for skills. */

import { fileName } from "@/api/artifacts";
import type { Skill } from "@/api/skills";

export interface Mention {
  readonly kind: "file" | "skill" | "model";
  /** Position of the trigger character. */
  readonly start: number;
  readonly query: string;
}

/** A completion candidate. */
export interface Candidate {
  readonly id: string;
  readonly label: string;
  readonly note: string;
  /** Text inserted for the mention. */
  readonly text: string;
  /** Handled by the page. */
  readonly isCommand?: boolean;
  /** Carried out when chosen, instead of inserting the text. */
  readonly run?: () => void;
}

const FILE = /(?:^|\s)@([^\s@]*)$/;
const MODEL = /^\/model\s+(\S*)$/;
const SKILL = /^\/([^\s/]*)$/;
const MOST = 8;

/** Return the mention before the caret. */
export function mentionAt(text: string, caret: number): Mention | null {
  const before = text.slice(0, caret);
  const skill = SKILL.exec(before)?.[1];
  if (skill !== undefined) return { kind: "skill", start: 0, query: skill };
  const model = MODEL.exec(before)?.[1];
  if (model !== undefined) return { kind: "model", start: caret - model.length, query: model };
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

/** All skills are listed so that users can discover them. */
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

/** Insert a candidate; returns the text and the caret. */
export function completed(text: string, caret: number, { start }: Mention, whole: string): [string, number] {
  const before = `${text.slice(0, start)}${whole} `;
  return [before + text.slice(caret).replace(/^ /, ""), before.length];
}

/** Filter by label, prefix matches first. */
export function matching(all: readonly Candidate[], query: string, most: number): readonly Candidate[] {
  const wanted = query.toLowerCase();
  const name = ({ label }: Candidate) => label.replace(/^\//, "").toLowerCase();
  const rank = (candidate: Candidate) => (name(candidate).startsWith(wanted) ? 0 : 1);
  return all
    .filter((candidate) => name(candidate).includes(wanted))
    .sort((a, b) => rank(a) - rank(b))
    .slice(0, most);
}

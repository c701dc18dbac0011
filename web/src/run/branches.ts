/**
 * A conversation that went several ways, and the one way through it that is shown.
 *
 * A run that begins at an earlier point leaves what was said after it behind. A line is what one run has left behind,
 * or, under null, what nobody has: the way things went in the end.
 */

import { isOwn, type Message } from "@/run/message";

/** Where versions part, at the message that is shown there. */
export interface Fork {
  /** The runs that each left the version before them behind, newest first. */
  readonly runs: readonly string[];
  /** How many of them the reader has gone back past. */
  readonly back: number;
}

export interface Way {
  readonly ids: readonly string[];
  readonly forks: ReadonlyMap<string, Fork>;
}

/** Left behind by a run that has no id yet. */
export const LEAVING = "";

interface Told {
  readonly order: readonly string[];
  readonly settled: ReadonlyMap<string, Message>;
}

/** The way the reader has chosen: past each run in `undone` to the version it left behind. */
export function wayThrough({ order, settled }: Told, undone: ReadonlySet<string>): Way {
  const lines = linesOf({ order, settled });
  if (lines.size <= 1) return { ids: lines.get(null) ?? [], forks: NO_FORKS };
  const heads = headsOf(lines, settled);
  const followed = followedBy(lines, settled, heads);
  const forks = new Map<string, Fork>();
  const ids: string[] = [];

  function walk(line: string | null, first: Fork | null): void {
    const start = firstShown(lines.get(line), settled);
    for (const id of lines.get(line) ?? []) {
      const arrived = first !== null && id === start;
      const fork = arrived ? first : forkAt(heads.get(id), followed, undone);
      if (fork !== null && !arrived && fork.back > 0) {
        walk(fork.runs[fork.back - 1] ?? null, fork);
        return;
      }
      if (fork !== null) forks.set(id, fork);
      ids.push(id);
    }
  }

  walk(null, null);
  return { ids, forks };
}

const NO_FORKS: Way["forks"] = new Map();

type Lines = ReadonlyMap<string | null, readonly string[]>;

function linesOf({ order, settled }: Told): Lines {
  const lines = new Map<string | null, string[]>();
  for (const id of order) {
    const line = settled.get(id)?.leftBehindBy ?? null;
    const known = lines.get(line);
    if (known === undefined) lines.set(line, [id]);
    else known.push(id);
  }
  return lines;
}

/** The first message of each run that left something behind: what stands in the place of the first it left. */
function headsOf(lines: Lines, settled: Told["settled"]): ReadonlyMap<string, string> {
  const heads = new Map<string, string>();
  const seen = new Set<string>();
  for (const ids of lines.values()) {
    for (const id of ids) {
      const message = settled.get(id);
      const runId = message?.runId ?? null;
      if (message === undefined || message.hidden || runId === null || seen.has(runId)) continue;
      const left = firstShown(lines.get(runId), settled);
      // An answer that was made anew keeps its question.
      if (left === undefined || isOwn(settled.get(left)) !== isOwn(message)) continue;
      seen.add(runId);
      heads.set(id, runId);
    }
  }
  return heads;
}

/** Which run stands at the beginning of what another has left behind. */
function followedBy(
  lines: Lines,
  settled: Told["settled"],
  heads: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const followed = new Map<string, string>();
  for (const [run, ids] of lines) {
    const head = heads.get(firstShown(ids, settled) ?? "");
    if (run !== null && head !== undefined) followed.set(run, head);
  }
  return followed;
}

function firstShown(ids: readonly string[] | undefined, settled: Told["settled"]): string | undefined {
  return ids?.find((id) => settled.get(id)?.hidden === false);
}

function forkAt(
  head: string | undefined,
  followed: ReadonlyMap<string, string>,
  undone: ReadonlySet<string>,
): Fork | null {
  if (head === undefined) return null;
  const runs: string[] = [];
  for (let run: string | undefined = head; run !== undefined && !runs.includes(run); run = followed.get(run))
    runs.push(run);
  const kept = runs.findIndex((run) => !undone.has(run));
  return { runs, back: kept < 0 ? runs.length : kept };
}

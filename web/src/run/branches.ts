/**
 * Versions of a conversation and the branch that is shown.
 *
 * A run that starts at an earlier checkpoint supersedes the messages after it. Messages are grouped by the run that
 * superseded them; null is the latest branch.
 */

import { isOwn, type Message } from "@/run/message";

/** Fork point at a visible message. */
export interface Fork {
  /** Runs that each superseded the version before, newest first. */
  readonly runs: readonly string[];
  /** Number of runs the user has gone back. */
  readonly back: number;
}

export interface Branch {
  readonly ids: readonly string[];
  readonly forks: ReadonlyMap<string, Fork>;
}

/** Superseded by a run without an id yet. */
export const PENDING = "";

interface Messages {
  readonly order: readonly string[];
  readonly settled: ReadonlyMap<string, Message>;
}

/** Select the visible messages: each run in `rewoundRuns` shows the version it superseded. */
export function selectBranch({ order, settled }: Messages, rewoundRuns: ReadonlySet<string>): Branch {
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
      const fork = arrived ? first : forkAt(heads.get(id), followed, rewoundRuns);
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

const NO_FORKS: Branch["forks"] = new Map();

type Lines = ReadonlyMap<string | null, readonly string[]>;

function linesOf({ order, settled }: Messages): Lines {
  const lines = new Map<string | null, string[]>();
  for (const id of order) {
    const line = settled.get(id)?.supersededBy ?? null;
    const known = lines.get(line);
    if (known === undefined) lines.set(line, [id]);
    else known.push(id);
  }
  return lines;
}

/** Return the first message of each run that superseded others. */
function headsOf(lines: Lines, settled: Messages["settled"]): ReadonlyMap<string, string> {
  const heads = new Map<string, string>();
  const seen = new Set<string>();
  for (const ids of lines.values()) {
    for (const id of ids) {
      const message = settled.get(id);
      const runId = message?.runId ?? null;
      if (message === undefined || message.hidden || runId === null || seen.has(runId)) continue;
      const left = firstShown(lines.get(runId), settled);
      // A regenerated response keeps its question.
      if (left === undefined || isOwn(settled.get(left)) !== isOwn(message)) continue;
      seen.add(runId);
      heads.set(id, runId);
    }
  }
  return heads;
}

/** Map each run to the run whose version it superseded. */
function followedBy(
  lines: Lines,
  settled: Messages["settled"],
  heads: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const followed = new Map<string, string>();
  for (const [run, ids] of lines) {
    const head = heads.get(firstShown(ids, settled) ?? "");
    if (run !== null && head !== undefined) followed.set(run, head);
  }
  return followed;
}

function firstShown(ids: readonly string[] | undefined, settled: Messages["settled"]): string | undefined {
  return ids?.find((id) => settled.get(id)?.hidden === false);
}

function forkAt(
  head: string | undefined,
  followed: ReadonlyMap<string, string>,
  rewoundRuns: ReadonlySet<string>,
): Fork | null {
  if (head === undefined) return null;
  const runs: string[] = [];
  for (let run: string | undefined = head; run !== undefined && !runs.includes(run); run = followed.get(run))
    runs.push(run);
  const kept = runs.findIndex((run) => !rewoundRuns.has(run));
  return { runs, back: kept < 0 ? runs.length : kept };
}

/** Drafts kept over a reload. */

import { isRecord, parseJson } from "@/api/json";
import type { Page } from "@/state/page";

const KEY = "deerflow.drafts";
// Bounds the size of what is stored.
const KEPT = 20;
const LONGEST = 20_000;
const PAUSE_MS = 300;

export function readDrafts(storage: Storage): Page["drafts"] {
  const stored = parseJson(storage.getItem(KEY) ?? "");
  if (!isRecord(stored)) return new Map();
  const texts = Object.entries(stored).filter(
    (each): each is [string, string] => typeof each[1] === "string",
  );
  return new Map(texts.map(([id, text]) => [id || null, text]));
}

/** Write drafts a moment after they change. */
export function keepDrafts(storage: Storage, read: () => Page["drafts"]): () => void {
  let isScheduled = false;
  let written = read();
  const write = () => {
    isScheduled = false;
    written = read();
    const texts = [...written].filter(([, text]) => text !== "").slice(-KEPT);
    try {
      storage.setItem(
        KEY,
        JSON.stringify(Object.fromEntries(texts.map(([id, text]) => [id ?? "", text.slice(0, LONGEST)]))),
      );
    } catch {
      // Full or blocked storage: drafts last until the page is closed.
    }
  };
  return () => {
    if (isScheduled || read() === written) return;
    isScheduled = true;
    setTimeout(write, PAUSE_MS);
  };
}

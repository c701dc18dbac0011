/** Attachment state: a pure reducer. */

import type { UploadLimits } from "@/api/files";
import type { SentFile } from "@/api/sentFiles";

export type Fault = "too large" | "too many" | "refused" | "unreachable";

export interface Attachment {
  readonly id: string;
  readonly name: string;
  readonly size: number;
  readonly state:
    | { readonly phase: "sending"; readonly part: number }
    | { readonly phase: "uploaded"; readonly file: SentFile }
    | { readonly phase: "failed"; readonly fault: Fault; readonly reason: string };
}

export type AttachmentEvent =
  | {
      readonly type: "added";
      readonly id: string;
      readonly name: string;
      readonly size: number;
      readonly fault: Fault | null;
    }
  | { readonly type: "sending"; readonly id: string; readonly part: number }
  | { readonly type: "uploaded"; readonly id: string; readonly file: SentFile }
  | { readonly type: "failed"; readonly id: string; readonly fault: Fault; readonly reason: string }
  | { readonly type: "removed"; readonly id: string }
  | { readonly type: "sent" }
  /** Another thread was opened. */
  | { readonly type: "cleared" };

export type Attachments = readonly Attachment[];

export function reduceAttachments(all: Attachments, event: AttachmentEvent): Attachments {
  switch (event.type) {
    case "added": {
      const { id, name, size, fault } = event;
      const state =
        fault === null
          ? ({ phase: "sending", part: 0 } as const)
          : ({ phase: "failed", fault, reason: "" } as const);
      return [...all, { id, name, size, state }];
    }
    case "sending":
      return changed(all, event.id, { phase: "sending", part: event.part });
    case "uploaded":
      return changed(all, event.id, { phase: "uploaded", file: event.file });
    case "failed":
      return changed(all, event.id, { phase: "failed", fault: event.fault, reason: event.reason });
    case "removed":
      return all.filter(({ id }) => id !== event.id);
    case "cleared":
      return [];
    case "sent":
      return all.filter(({ state }) => state.phase !== "uploaded");
  }
}

function changed(all: Attachments, id: string, state: Attachment["state"]): Attachments {
  return all.map((each) => (each.id === id ? { ...each, state } : each));
}

/** Return why a file is rejected before the upload, null if it is accepted. */
export function faultOf(size: number, others: Attachments, limits: UploadLimits | null): Fault | null {
  if (limits === null) return null;
  const taken = others.filter(({ state }) => state.phase !== "failed");
  if (taken.length >= limits.max_files) return "too many";
  const total = taken.reduce((sum, each) => sum + each.size, size);
  return size > limits.max_file_size || total > limits.max_total_size ? "too large" : null;
}

export function uploadedFiles(all: Attachments): readonly SentFile[] {
  return all.flatMap(({ state }) => (state.phase === "uploaded" ? [state.file] : []));
}

export function isSending(all: Attachments): boolean {
  return all.some(({ state }) => state.phase === "sending");
}

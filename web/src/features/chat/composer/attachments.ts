/** Attachment state: a pure reducer. */

import type { UploadLimits } from "@/api/files";
import type { SentFile } from "@/api/sentFiles";

export type Fault = "too large" | "too large together" | "too many" | "refused" | "unreachable";

export interface Attachment {
  readonly id: string;
  /** The thread it is attached in; null is the new thread. */
  readonly threadId: string | null;
  readonly name: string;
  readonly size: number;
  /** URL of the image, if it is one. */
  readonly image: string | null;
  readonly state: /** Kept in the page: its thread is created by the first message. */
    | { readonly phase: "held" }
    | { readonly phase: "sending"; readonly part: number }
    | { readonly phase: "uploaded"; readonly file: SentFile }
    | { readonly phase: "failed"; readonly fault: Fault; readonly reason: string };
}

export type AttachmentEvent =
  | {
      readonly type: "added";
      readonly id: string;
      readonly threadId: string | null;
      readonly name: string;
      readonly size: number;
      readonly image?: string | null;
      readonly fault: Fault | null;
    }
  /** The limits of the server became known. */
  | { readonly type: "limited"; readonly limits: UploadLimits }
  /** The new thread got its id. */
  | { readonly type: "begun"; readonly threadId: string }
  | { readonly type: "sending"; readonly id: string; readonly part: number }
  | { readonly type: "uploaded"; readonly id: string; readonly file: SentFile }
  | { readonly type: "failed"; readonly id: string; readonly fault: Fault; readonly reason: string }
  | { readonly type: "removed"; readonly id: string }
  | { readonly type: "sent"; readonly threadId: string | null };

export type Attachments = readonly Attachment[];

export function reduceAttachments(all: Attachments, event: AttachmentEvent): Attachments {
  switch (event.type) {
    case "added":
      return [...all, addedAttachment(event)];
    case "limited":
      return limited(all, event.limits);
    case "begun":
      return all.map((each) =>
        each.threadId !== null
          ? each
          : { ...each, threadId: event.threadId, state: each.state.phase === "held" ? STARTED : each.state },
      );
    case "sending":
      return changed(all, event.id, { phase: "sending", part: event.part });
    case "uploaded":
      return changed(all, event.id, { phase: "uploaded", file: event.file });
    case "failed":
      return changed(all, event.id, { phase: "failed", fault: event.fault, reason: event.reason });
    case "removed":
      return all.filter(({ id }) => id !== event.id);
    case "sent":
      return all.filter(({ threadId, state }) => threadId !== event.threadId || state.phase !== "uploaded");
  }
}

const STARTED: Attachment["state"] = { phase: "sending", part: 0 };

function addedAttachment(event: Extract<AttachmentEvent, { readonly type: "added" }>): Attachment {
  const { id, threadId, name, size, image = null, fault } = event;
  const state: Attachment["state"] =
    fault !== null ? { phase: "failed", fault, reason: "" } : threadId === null ? { phase: "held" } : STARTED;
  return { id, threadId, name, size, image, state };
}

/** Check the files that were attached before the limits were known. */
function limited(all: Attachments, limits: UploadLimits): Attachments {
  const accepted: Attachment[] = [];
  return all.map((each) => {
    if (!isHeld(each)) return each;
    const fault = faultOf(each.size, accepted, limits);
    if (fault !== null) return { ...each, state: { phase: "failed", fault, reason: "" } };
    accepted.push(each);
    return each;
  });
}

function changed(all: Attachments, id: string, state: Attachment["state"]): Attachments {
  return all.map((each) => (each.id === id ? { ...each, state } : each));
}

/** Return why a file is rejected before the upload, null if it is accepted. */
export function faultOf(size: number, others: Attachments, limits: UploadLimits | null): Fault | null {
  if (limits === null) return null;
  const taken = others.filter(({ state }) => state.phase !== "failed");
  if (taken.length >= limits.max_files) return "too many";
  if (size > limits.max_file_size) return "too large";
  const total = taken.reduce((sum, each) => sum + each.size, size);
  return total > limits.max_total_size ? "too large together" : null;
}

export function uploadedFiles(all: Attachments): readonly SentFile[] {
  return all.flatMap(({ state }) => (state.phase === "uploaded" ? [state.file] : []));
}

export function isSending(all: Attachments): boolean {
  return all.some(({ state }) => state.phase === "sending");
}

export function isHeld({ state }: Attachment): boolean {
  return state.phase === "held";
}

export function hasFailed({ state }: Attachment): boolean {
  return state.phase === "failed";
}

/** Links under which others read a thread: made and taken back by its owner. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";

export interface Share {
  readonly share_id: string;
  readonly created_at: string;
  /** null: until it is taken back. */
  readonly expires_at: string | null;
}

export interface NewShare extends Share {
  /** Where its page is, below the address of this server; told once. */
  readonly path: string;
}

export interface SharingApi {
  /** The links to a thread, newest first. */
  shares(threadId: string): Promise<readonly Share[]>;
  /** Makes a link for so many days, or for as long as the server allows. */
  share(threadId: string, days: number | null): Promise<NewShare>;
  unshare(threadId: string, shareId: string): Promise<void>;
}

export function sharingApi(fetch: Fetch): SharingApi {
  return {
    shares: (threadId) => requestJson(fetch, sharesOf(threadId)),
    share: (threadId, days) => requestJson(fetch, sharesOf(threadId), jsonBody({ expires_in_days: days })),
    async unshare(threadId, shareId) {
      await request(fetch, `${sharesOf(threadId)}/${encodeURIComponent(shareId)}`, { method: "DELETE" });
    },
  };
}

function sharesOf(threadId: string): string {
  return `/api/threads/${encodeURIComponent(threadId)}/shares`;
}

/** Share links of a thread. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";

export interface Share {
  readonly share_id: string;
  readonly created_at: string;
  /** Null for no expiry. */
  readonly expires_at: string | null;
}

export interface NewShare extends Share {
  /** URL path of the shared page; returned once. */
  readonly path: string;
}

export interface SharingApi {
  /** List share links, newest first. */
  shares(threadId: string): Promise<readonly Share[]>;
  /** Create a link that expires in `days`, or never. */
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

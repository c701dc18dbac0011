/** A thread for somebody who has nothing but a link to it: everything else is refused before it is asked. */

import type { Addresses } from "@/api/artifacts";
import type { Gateway } from "@/api/gateway";
import { type Fetch, Refused, request, requestJson } from "@/api/http";
import type { Said } from "@/api/said";
import type { WireMessage } from "@/api/wire";

const AT_ONCE = 200;

/** What a link leads to. */
export interface SharedThread {
  readonly title: string | null;
  /** What was said later is not shown. */
  readonly shared_at: string;
  readonly expires_at: string | null;
  readonly artifacts: readonly string[];
}

interface SharedMessages {
  readonly data: readonly { readonly message: WireMessage; readonly created_at: string }[];
  readonly before: string | null;
}

export interface SharedApi extends Addresses {
  about(): Promise<SharedThread>;
  said(before: string | null): Promise<Said>;
  bytes(path: string): Promise<ArrayBuffer>;
}

export function sharedApi(fetch: Fetch, token: string): SharedApi {
  const root = `/api/shared/${encodeURIComponent(token)}`;
  const file = (kind: string, path: string) =>
    `${root}/${kind}/${path.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/")}`;
  const about = () => requestJson<SharedThread>(fetch, root);
  const artifact: Addresses["artifact"] = (path, { download = false } = {}) =>
    `${file("artifacts", path)}${download ? "?download=true" : ""}`;
  return {
    about,
    artifact,
    preview: (path) => file("previews", path),
    async bytes(path) {
      return (await request(fetch, artifact(path))).arrayBuffer();
    },
    async said(before) {
      const place = before === null ? "" : `&before=${encodeURIComponent(before)}`;
      const [thread, page] = await Promise.all([
        before === null ? about() : null,
        requestJson<SharedMessages>(fetch, `${root}/messages?limit=${AT_ONCE}${place}`),
      ]);
      const told = page.data.map(
        ({ message, created_at }) => [message.id ?? "", Date.parse(created_at)] as const,
      );
      return {
        ...(thread !== null && { title: thread.title, artifacts: thread.artifacts }),
        messages: page.data.map(({ message }) => message),
        told: new Map(told.map(([id, at]) => [id, { at }])),
        before: page.before,
      };
    },
  };
}

/** The calls of a page that can only read. */
export function readingGateway(shared: SharedApi): Gateway {
  const refuse = async (): Promise<never> => {
    throw new Refused("ReadOnly", 403, "this thread can only be read");
  };
  return {
    said: (_, before = null) => shared.said(before),
    newestRun: async () => null,
    unfinishedRuns: async () => [],
    reports: async () => [],
    threads: async () => [],
    starters: async () => [],
    sandbox: refuse,
    models: refuse,
    updateThread: refuse,
    deleteThread: refuse,
    startRun: refuse,
    resumeRun: refuse,
    repeatRun: refuse,
    addRun: refuse,
    beginningOf: refuse,
    endOf: refuse,
    copyThread: refuse,
    joinRun: refuse,
    cancelRun: refuse,
  };
}

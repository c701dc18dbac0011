/** Share links and permissions of a thread, and read-only access through a link. */

import type { FileUrls } from "@/api/artifacts";
import type { Gateway } from "@/api/gateway";
import { ApiError, type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { MessagePage } from "@/api/messagePage";
import type { Schemas, WireMessage } from "@/api/wire";

export type Share = Omit<Schemas["Share"], "thread_id">;

export type NewShare = Pick<Schemas["NewShare"], "share_id" | "created_at" | "expires_at" | "path">;

export type ThreadPermission = Schemas["Permission"];

export interface SharingApi {
  /** List share links, newest first. */
  shares(threadId: string): Promise<readonly Share[]>;
  /** Create a link that expires in `days`, or never. */
  share(threadId: string, days: number | null): Promise<NewShare>;
  unshare(threadId: string, shareId: string): Promise<void>;
  /** List the tool calls allowed in a thread, oldest first. */
  permissions(threadId: string): Promise<readonly ThreadPermission[]>;
  revokePermission(threadId: string, permissionId: string): Promise<void>;
}

export function sharingApi(fetch: Fetch): SharingApi {
  return {
    shares: (threadId) => requestJson(fetch, sharesOf(threadId)),
    share: (threadId, days) => requestJson(fetch, sharesOf(threadId), jsonBody({ expires_in_days: days })),
    async unshare(threadId, shareId) {
      await request(fetch, `${sharesOf(threadId)}/${encodeURIComponent(shareId)}`, { method: "DELETE" });
    },
    permissions: async (threadId) =>
      (await requestJson<Schemas["Permissions"]>(fetch, permissionsOf(threadId))).permissions,
    async revokePermission(threadId, permissionId) {
      const path = `${permissionsOf(threadId)}/${encodeURIComponent(permissionId)}`;
      await request(fetch, path, { method: "DELETE" });
    },
  };
}

function sharesOf(threadId: string): string {
  return `/api/threads/${encodeURIComponent(threadId)}/shares`;
}

function permissionsOf(threadId: string): string {
  return `/api/threads/${encodeURIComponent(threadId)}/permissions`;
}

const AT_ONCE = 200;

/** A shared thread. */
export type SharedThread = Schemas["SharedThread"];

type SharedMessages = Pick<Schemas["SharedMessages"], "before"> & {
  readonly data: readonly (Pick<Schemas["SharedMessage"], "created_at"> & {
    readonly message: WireMessage;
  })[];
};

export interface SharedApi extends FileUrls {
  about(): Promise<SharedThread>;
  messagePage(before: string | null): Promise<MessagePage>;
  bytes(path: string): Promise<ArrayBuffer>;
}

export function sharedApi(fetch: Fetch, token: string): SharedApi {
  const root = `/api/shared/${encodeURIComponent(token)}`;
  const file = (kind: string, path: string) =>
    `${root}/${kind}/${path.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/")}`;
  const about = () => requestJson<SharedThread>(fetch, root);
  const artifact: FileUrls["artifact"] = (path, { download = false } = {}) =>
    `${file("artifacts", path)}${download ? "?download=true" : ""}`;
  return {
    about,
    artifact,
    preview: (path) => file("previews", path),
    async bytes(path) {
      return (await request(fetch, artifact(path))).arrayBuffer();
    },
    async messagePage(before) {
      const place = before === null ? "" : `&before=${encodeURIComponent(before)}`;
      const [thread, page] = await Promise.all([
        before === null ? about() : null,
        requestJson<SharedMessages>(fetch, `${root}/messages?limit=${AT_ONCE}${place}`),
      ]);
      const times = page.data.map(
        ({ message, created_at }) => [message.id ?? "", Date.parse(created_at)] as const,
      );
      return {
        ...(thread !== null && { title: thread.title, artifacts: thread.artifacts }),
        messages: page.data.map(({ message }) => message),
        metadata: new Map(times.map(([id, at]) => [id, { at }])),
        before: page.before,
      };
    },
  };
}

/** Return a gateway that can only read. */
export function readingGateway(shared: SharedApi): Gateway {
  const refuse = async (): Promise<never> => {
    throw new ApiError("ReadOnly", 403, "this thread can only be read");
  };
  return {
    messagePage: (_, before = null) => shared.messagePage(before),
    newestRun: async () => null,
    unfinishedRuns: async () => [],
    reports: async () => [],
    runError: async () => null,
    threads: async () => [],
    starters: async () => [],
    sandbox: refuse,
    models: refuse,
    updateThread: refuse,
    deleteThread: refuse,
    makeTemporary: refuse,
    endTemporary: refuse,
    compact: refuse,
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

/** HTTP requests with typed errors. */

/** An error response of the gateway. */
export class ApiError extends Error {
  override readonly name: string;
  readonly status: number;

  constructor(name: string, status: number, sentence: string) {
    super(sentence);
    this.name = name;
    this.status = status;
  }
}

/** No response: the network or the server is down. */
export class NetworkError extends Error {
  override readonly name = "NetworkError";
}

export type Fetch = (path: string, init?: RequestInit) => Promise<Response>;

/** Send a request. Throws `ApiError`, `NetworkError` or the abort reason. */
export async function request(fetch: Fetch, path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new NetworkError("the server did not respond", { cause });
  }
  if (response.ok) return response;
  throw await toError(response);
}

export async function requestJson<T>(fetch: Fetch, path: string, init?: RequestInit): Promise<T> {
  const response = await request(fetch, path, init);
  return (await response.json()) as T;
}

export function jsonBody(body: unknown, method = "POST"): RequestInit {
  return { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
}

async function toError(response: Response): Promise<Error> {
  const body: unknown = await response.json().catch(() => null);
  const { error, detail } = (body ?? {}) as { error?: unknown; detail?: unknown };
  // A reverse proxy answers 502 to 504 without our error body while the server is down.
  if (body === null && response.status >= 502 && response.status <= 504) {
    return new NetworkError("the server did not respond");
  }
  const name = typeof error === "string" ? error : "HttpError";
  const sentence = typeof detail === "string" ? detail : `${response.status} ${response.statusText}`.trim();
  return new ApiError(name, response.status, sentence);
}

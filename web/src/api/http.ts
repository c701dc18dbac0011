/** One way to speak to the gateway, with named errors. */

/** The gateway answered, and said no. */
export class Refused extends Error {
  override readonly name: string;
  readonly status: number;

  constructor(name: string, status: number, sentence: string) {
    super(sentence);
    this.name = name;
    this.status = status;
  }
}

/** No answer came: the network or the server is away. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

export type Fetch = (path: string, init?: RequestInit) => Promise<Response>;

/** Sends a request; resolves to a successful response or throws `Refused`, `Unreachable` or the abort. */
export async function request(fetch: Fetch, path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new Unreachable("the server did not answer", { cause });
  }
  if (response.ok) return response;
  throw await refusal(response);
}

export async function requestJson<T>(fetch: Fetch, path: string, init?: RequestInit): Promise<T> {
  const response = await request(fetch, path, init);
  return (await response.json()) as T;
}

export function jsonBody(body: unknown, method = "POST"): RequestInit {
  return { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
}

async function refusal(response: Response): Promise<Error> {
  const body: unknown = await response.json().catch(() => null);
  const { error, detail } = (body ?? {}) as { error?: unknown; detail?: unknown };
  // A proxy in front of a stopped server answers for it, without our error body.
  if (body === null && response.status >= 502 && response.status <= 504) {
    return new Unreachable("the server did not answer");
  }
  const name = typeof error === "string" ? error : "HttpError";
  const sentence = typeof detail === "string" ? detail : `${response.status} ${response.statusText}`.trim();
  return new Refused(name, response.status, sentence);
}

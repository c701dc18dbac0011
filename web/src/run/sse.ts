/** Server-sent events of a fetch body. */

export interface SseEvent {
  readonly id: string | null;
  readonly event: string;
  readonly data: string;
}

/** Create an incremental parser; returns the events completed by each chunk. */
export function createSseParser(): (text: string) => SseEvent[] {
  let rest = "";
  let id: string | null = null;
  let event = "";
  let data: string[] = [];
  let started = false;

  function line(text: string, events: SseEvent[]): void {
    if (text === "") {
      if (data.length > 0) events.push({ id, event: event || "message", data: data.join("\n") });
      event = "";
      data = [];
      return;
    }
    const colon = text.indexOf(":");
    if (colon === 0) return; // a keep-alive comment
    const field = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(text[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") data.push(value);
    else if (field === "event") event = value;
    else if (field === "id" && !value.includes("\0")) id = value;
  }

  return (text) => {
    rest += text;
    if (!started && rest !== "") {
      started = true;
      if (rest.startsWith("\ufeff")) rest = rest.slice(1);
    }
    const events: SseEvent[] = [];
    let from = 0;
    for (;;) {
      const end = lineEnd(rest, from);
      if (end === null) break;
      line(rest.slice(from, end.at), events);
      from = end.next;
    }
    rest = rest.slice(from);
    return events;
  };
}

/** Return the end of the line, null if incomplete. */
function lineEnd(text: string, from: number): { at: number; next: number } | null {
  for (let at = from; at < text.length; at++) {
    const char = text[at];
    if (char === "\n") return { at, next: at + 1 };
    if (char !== "\r") continue;
    if (at + 1 === text.length) return null; // the "\n" of "\r\n" may follow
    return { at, next: text[at + 1] === "\n" ? at + 2 : at + 1 };
  }
  return null;
}

/** Yield the events of a body; `onBytes` is called for every chunk, comments included. */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  onBytes: () => void = () => {},
): AsyncGenerator<SseEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parse = createSseParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onBytes();
      yield* parse(decoder.decode(value, { stream: true }));
    }
  } finally {
    await reader.cancel().catch(() => {}); // already broken
  }
}

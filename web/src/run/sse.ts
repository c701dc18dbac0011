/** Server-sent events of a fetch body. */

import { createParser } from "eventsource-parser";

export interface SseEvent {
  readonly id: string | null;
  readonly event: string;
  readonly data: string;
}

/** Yield the events of a body; `onBytes` is called for every chunk, comments included. */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  onBytes: () => void = () => {},
): AsyncGenerator<SseEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const events: SseEvent[] = [];
  const parser = createParser({
    onEvent: ({ id = null, event = "message", data }) => events.push({ id, event, data }),
  });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onBytes();
      parser.feed(decoder.decode(value, { stream: true }));
      yield* events.splice(0);
    }
  } finally {
    await reader.cancel().catch(() => {}); // already broken
  }
}

"""A server that speaks the streaming protocols of several model vendors, on an event loop and a thread of its own."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

ANSWER = ("Hello", " from", " the", " server.")
LIMIT_S = 20
INPUT_TOKENS = 9

SSE, NDJSON = "text/event-stream", "application/x-ndjson"


def encode_openai(words: Sequence[str]) -> list[bytes]:
    """Return an answer as chat completion chunks."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": len(words), "total_tokens": INPUT_TOKENS + len(words)}
    choices = [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    parts = [{**head, "choices": choices}]
    parts += [{**head, "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]} for word in words]
    parts.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    parts.append({**head, "choices": [], "usage": usage})
    return [*(b"data: %s\n\n" % json.dumps(part).encode() for part in parts), b"data: [DONE]\n\n"]


def encode_anthropic(words: Sequence[str]) -> list[bytes]:
    """Return an answer as events of the messages API."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": 1}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "stop_sequence": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}} for word in words),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": len(words)},
        },
        {"type": "message_stop"},
    ]
    return [b"event: %s\ndata: %s\n\n" % (each["type"].encode(), json.dumps(each).encode()) for each in events]


def encode_gemini(words: Sequence[str]) -> list[bytes]:
    """Return an answer as responses of `streamGenerateContent`; each has the counts so far."""
    parts = []
    for number, word in enumerate(words, start=1):
        candidate: dict[str, Any] = {"content": {"parts": [{"text": word}], "role": "model"}, "index": 0}
        if number == len(words):
            candidate["finishReason"] = "STOP"
        usage = {
            "promptTokenCount": INPUT_TOKENS,
            "candidatesTokenCount": number,
            "totalTokenCount": INPUT_TOKENS + number,
        }
        head = {"modelVersion": "m", "responseId": "response-1"}
        parts.append({"candidates": [candidate], "usageMetadata": usage, **head})
    return [b"data: %s\r\n\r\n" % json.dumps(part).encode() for part in parts]


def encode_ollama(words: Sequence[str]) -> list[bytes]:
    """Return an answer as lines of `/api/chat`."""
    head = {"model": "m", "created_at": "2026-01-01T00:00:00.000000Z"}
    lines: list[dict[str, Any]] = [
        {**head, "message": {"role": "assistant", "content": word}, "done": False} for word in words
    ]
    counts = {"prompt_eval_count": INPUT_TOKENS, "eval_count": len(words), "total_duration": 1}
    end = {**head, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop", **counts}
    return [json.dumps(line).encode() + b"\n" for line in (*lines, end)]


@dataclass(frozen=True, slots=True)
class Protocol:
    """Encoding of a streamed answer, for requests whose path ends in `path`."""

    path: str
    content_type: str
    encode: Callable[[Sequence[str]], list[bytes]]
    is_streamed: Callable[[dict[str, Any]], bool] = lambda body: body.get("stream") is True


PROTOCOLS = {
    "openai": Protocol("/chat/completions", SSE, encode_openai),
    "anthropic": Protocol("/v1/messages", SSE, encode_anthropic),
    "gemini": Protocol(":streamGenerateContent", SSE, encode_gemini, lambda body: True),
    "ollama": Protocol("/api/chat", NDJSON, encode_ollama),
}


@dataclass(frozen=True, slots=True)
class VendorRequest:
    """A request that was received."""

    path: str
    protocol: str | None
    is_streamed: bool
    body: dict[str, Any]


class VendorServer:
    """Streams the same answer for every request, in the protocol of its path. A context manager.

    With `pause`, it sends each event alone and then waits for `pause()`. Its methods may be called from any thread.
    """

    def __init__(self, words: Sequence[str] = ANSWER, pause: Callable[[], Awaitable[None]] | None = None) -> None:
        self._pause = pause
        self.requests: list[VendorRequest] = []
        self._frames = {name: protocol.encode(words) for name, protocol in PROTOCOLS.items()}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._connections = 0
        self._changed = threading.Condition()
        self._holds = False
        self._released = asyncio.Event()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        start = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(start, self._loop).result(LIMIT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(LIMIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()

    def hold_next(self) -> None:
        """Keep the next response open after its first half, until `release` is called."""
        self._holds = True

    def release(self) -> None:
        """Let the response that is held end."""
        self._loop.call_soon_threadsafe(self._released.set)

    def wait_for_connections(self, count: int) -> None:
        """Wait until clients have this number of connections open.

        Raises:
            TimeoutError: They have another number.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._connections == count, LIMIT_S):
                raise TimeoutError(f"{self._connections} connections are open, not {count}")

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count(1)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    await self._answer(await read_request(reader), writer)
        except asyncio.CancelledError:
            return  # asyncio logs a cancelled handler as an error
        finally:
            self._count(-1)
            writer.close()

    def _count(self, change: int) -> None:
        with self._changed:
            self._connections += change
            self._changed.notify_all()

    async def _answer(self, request: VendorRequest, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        if request.protocol is None or not request.is_streamed:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        protocol, frames = PROTOCOLS[request.protocol], self._frames[request.protocol]
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {protocol.content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        middle = len(frames) // 2
        parts = frames if self._pause else [b"".join(frames[:middle]), b"".join(frames[middle:])]
        for number, part in enumerate(parts):
            if number == 1 and self._holds:
                self._holds = False
                await asyncio.wait_for(self._released.wait(), LIMIT_S)
                self._released.clear()
            writer.write(encode_chunk(part))
            await writer.drain()
            if self._pause:
                await self._pause()
        writer.write(encode_chunk(b""))
        await writer.drain()


async def read_request(reader: asyncio.StreamReader) -> VendorRequest:
    """Return the next request of a connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lines = head.split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    path = lines[0].split()[1].partition("?")[0]
    name = next((name for name, protocol in PROTOCOLS.items() if path.endswith(protocol.path)), None)
    payload = json.loads(body) if body else {}
    return VendorRequest(path, name, name is not None and PROTOCOLS[name].is_streamed(payload), payload)


def encode_chunk(data: bytes) -> bytes:
    """Return a chunk of a response body."""
    return b"%x\r\n%s\r\n" % (len(data), data)

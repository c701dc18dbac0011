"""Scripted server with the OpenAI chat completions API."""

import asyncio
import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import orjson
from aiohttp import web

from deerflow.config.sections.models import ModelConfig
from deerflow.testing.turns import Answer, AnswerChunk, CutAfter, RateLimited, Raw, ServerFault, Stall, Usage

DONE = b"data: [DONE]\n\n"
CREATED = 1_700_000_000
TITLE_PROMPT = "Give this conversation a title"
"""Beginning of requests for the title of a thread."""
SYNONYMS = ("boss", "director", "heads", "leads", "manager", "supervisor"), ("cost", "fee", "paid", "price")
DIMENSIONS = 256


def embed_text(text: str) -> list[float]:
    """Return the sum of hashed words as a vector; words of one group of `SYNONYMS` are the same."""
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()):
        group = next((words[0] for words in SYNONYMS if word in words), word)
        for at, byte in enumerate(blake2b(group.encode(), digest_size=DIMENSIONS // 8).digest() * 8):
            vector[at] += 1.0 if byte >> (at // (DIMENSIONS // 8)) & 1 else -1.0
    return vector


def stream_frames(answer: Answer, *, completion_id: str, model: str, with_usage: bool) -> list[bytes]:
    """Return the answer as server-sent events, one per chunk, ending with `[DONE]`."""
    head = {"id": completion_id, "object": "chat.completion.chunk", "created": CREATED, "model": model}

    def choice(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]
        return _event({**head, "choices": choices})

    frames = [choice({"role": "assistant", "content": ""})]
    frames += [choice(_delta(chunk)) for chunk in answer.chunks()]
    frames.append(choice({}, answer.effective_finish_reason))
    if with_usage:
        frames.append(_event({**head, "choices": [], "usage": _usage(answer.effective_usage)}))
    return [*frames, DONE]


def completion(answer: Answer, *, completion_id: str, model: str) -> dict[str, Any]:
    """Return the answer as one response body."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.full_text or None}
    if answer.reasoning:
        message["reasoning_content"] = answer.full_reasoning
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    return {
        "id": completion_id,
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [
            {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.effective_finish_reason}
        ],
        "usage": _usage(answer.effective_usage),
    }


def _delta(chunk: AnswerChunk) -> dict[str, Any]:
    if chunk.kind == "text":
        return {"content": chunk.text}
    if chunk.kind == "reasoning":
        return {"reasoning_content": chunk.text}
    call: dict[str, Any] = {"index": chunk.index, "function": {"arguments": chunk.text}}
    if chunk.name is not None:
        call |= {"id": chunk.call_id, "type": "function", "function": {"name": chunk.name, "arguments": chunk.text}}
    return {"tool_calls": [call]}


def _usage(effective_usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": effective_usage.input_tokens,
        "completion_tokens": effective_usage.output_tokens,
        "total_tokens": effective_usage.input_tokens + effective_usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": effective_usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": effective_usage.reasoning_tokens},
    }


def _event(payload: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(payload) + b"\n\n"


ServerReply: TypeAlias = str | Answer | Stall | RateLimited | ServerFault | CutAfter | Raw
ServerTurn: TypeAlias = "ServerReply | Callable[[ServerRequest], ServerReply]"


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A recorded completion request."""

    number: int  # 1 for the first
    body: dict[str, Any]
    headers: Mapping[str, str]
    client: tuple[str, int]  # equal for requests over the same connection

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages

    @property
    def model(self) -> str:
        return str(self.body.get("model"))

    @property
    def wants_usage(self) -> bool:
        return bool((self.body.get("stream_options") or {}).get("include_usage"))


def is_title_request(body: Mapping[str, Any]) -> bool:
    """Return whether a request asks for the title of a thread."""
    messages = body.get("messages") or [{}]
    return str(messages[0].get("content")).startswith(TITLE_PROMPT)


class ScriptedServer:
    """Server for `/v1/chat/completions` (streamed or not), `/v1/embeddings` and `/v1/models` on a free local port.

    `async with ScriptedServer(["Hello", RateLimited(retry_after=2)]) as server` — one turn per request: a text,
    an `Answer`, a fault, or a function from the request to one of these. With `endless`, the last turn repeats.
    Requests for titles of threads are rejected and not recorded; with `titles`, they are part of the script.
    With `key`, requests without it are rejected. `listing` replaces the response of `/v1/models`; with False there is
    no such path. Without `streams`, answers are sent as a whole, and without `reports_usage` they have no token counts.
    `certificate` is a file with a certificate and its key, for HTTPS.
    """

    def __init__(
        self,
        turns: Iterable[ServerTurn] = (),
        *,
        models: Iterable[str] = ("scripted",),
        endless: bool = False,
        titles: bool = False,
        port: int = 0,
        key: str | None = None,
        listing: "ServerFault | Raw | bool" = True,
        certificate: Path | None = None,
        streams: bool = True,
        reports_usage: bool = True,
    ) -> None:
        self.requests: list[ServerRequest] = []
        self.waiting = asyncio.Event()  # set while a stalled turn keeps a response open
        self.disconnected = asyncio.Event()  # set when a client disconnects before its response ended
        self._turns = list(turns)
        self._models = list(models)
        self._endless = endless
        self._titles = titles
        self._port = port
        self._key = key
        self._listing = listing
        self._certificate = certificate
        self._streams = streams
        self._reports_usage = reports_usage
        self.rejected_keys: list[str] = []
        self.embedded = 0
        """Number of texts that were embedded."""
        self._released = asyncio.Event()
        self._frames: dict[tuple[Answer, str, bool], list[bytes]] = {}
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        scheme = "http" if self._certificate is None else "https"
        return f"{scheme}://127.0.0.1:{self._port}/v1"

    def model_config(self, name: str = "scripted", **settings: Any) -> ModelConfig:
        """Return a configuration entry for a model on this server."""
        entry: dict[str, Any] = {
            "name": name,
            "use": "deerflow.models.openai_compatible:OpenAICompatibleChatModel",
            "model": self._models[0],
            "base_url": self.base_url,
            "api_key": "scripted-key",
        }
        return ModelConfig.model_validate(entry | settings)

    def release(self) -> None:
        """Release stalled turns."""
        self._released.set()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_post("/v1/embeddings", self._embed)
        if self._listing is not False:
            app.router.add_get("/v1/models", self._list_models)
        # Without handler_cancellation, a stalled response would not notice that its client disconnected.
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        secure = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if self._certificate is not None else None
        if secure is not None:
            secure.load_cert_chain(str(self._certificate))
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=secure)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _list_models(self, request: web.Request) -> web.StreamResponse:
        if refusal := self._refuse_key(request):
            return refusal
        if isinstance(self._listing, ServerFault):
            return _fault(self._listing.status, self._listing.message, {}, self._listing.code)
        if isinstance(self._listing, Raw):
            return await self._send_raw(self._listing, request)
        entries = [{"id": name, "object": "model", "owned_by": "script"} for name in self._models]
        return _json({"object": "list", "data": entries})

    async def _embed(self, request: web.Request) -> web.StreamResponse:
        if refusal := self._refuse_key(request):
            return refusal
        body = orjson.loads(await request.read())
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        self.embedded += len(texts)
        vectors = await asyncio.to_thread(lambda: [embed_text(text) for text in texts])
        data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        return _json({"object": "list", "model": body["model"], "data": data})

    def _refuse_key(self, request: web.Request) -> web.Response | None:
        sent = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self._key is None or sent == self._key:
            return None
        self.rejected_keys.append(sent)
        return _fault(401, f"Incorrect API key provided: {sent}.", {}, "invalid_api_key")

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        if refusal := self._refuse_key(request):
            return refusal
        body = orjson.loads(await request.read())
        if not self._titles and is_title_request(body):
            return _fault(400, "titles are not part of the script", {})
        client = request.get_extra_info("peername")
        received = ServerRequest(len(self.requests) + 1, body, request.headers.copy(), client)
        self.requests.append(received)
        reply = self._next_reply(received)
        try:
            return await self._send(reply, received, request)
        except (asyncio.CancelledError, ConnectionError):
            self.disconnected.set()
            raise

    def _next_reply(self, received: ServerRequest) -> ServerReply:
        if received.number > len(self._turns) and not (self._endless and self._turns):
            return ServerFault(400, f"the script has {len(self._turns)} turns and this is request {received.number}")
        turn = self._turns[min(received.number, len(self._turns)) - 1]
        reply = turn(received) if callable(turn) else turn
        return Answer(reply) if isinstance(reply, str) else reply

    async def _send(self, reply: ServerReply, received: ServerRequest, request: web.Request) -> web.StreamResponse:
        match reply:
            case RateLimited():
                headers = {} if reply.retry_after is None else {"Retry-After": str(reply.retry_after)}
                return _fault(429, reply.message, headers)
            case ServerFault():
                return _fault(reply.status, reply.message, {}, reply.code)
            case Raw():
                return await self._send_raw(reply, request)
            case CutAfter():
                return await self._cut(reply, received, request)
            case Stall():
                return await self._stall(reply, received, request)
            case Answer() if received.body.get("stream") and self._streams:
                return await self._stream(reply, received, request)
            case Answer():
                await asyncio.sleep(reply.delay_s)
                answer = reply.with_call_ids(received.number)
                body = completion(answer, completion_id=f"chatcmpl-{received.number}", model=received.model)
                return _json(body if self._reports_usage else body | {"usage": None})
            case _:
                raise AssertionError(f"not a turn: {reply!r}")

    async def _stream(self, answer: Answer, received: ServerRequest, request: web.Request) -> web.StreamResponse:
        frames = self._encode(answer, received)
        response = await _open_stream(request)
        if answer.delay_s:
            for frame in frames:
                await response.write(frame)
                await asyncio.sleep(answer.delay_s)
        else:
            await response.write(b"".join(frames))
        await response.write_eof()
        return response

    async def _stall(self, stall: Stall, received: ServerRequest, request: web.Request) -> web.StreamResponse:
        if not received.body.get("stream"):
            await self._wait_for_release()
            return await self._send(stall.after, received, request)
        frames = self._encode(stall.after, received)
        sent = len(stall.after.chunks()) + 1
        response = await _open_stream(request)
        await response.write(b"".join(frames[:sent]))
        await self._wait_for_release()
        await response.write(b"".join(frames[sent:]))
        await response.write_eof()
        return response

    async def _wait_for_release(self) -> None:
        self._released.clear()
        self.waiting.set()
        try:
            await self._released.wait()
        finally:
            self.waiting.clear()

    async def _cut(self, cut: CutAfter, received: ServerRequest, request: web.Request) -> web.StreamResponse:
        frames = self._encode(cut.answer, received)
        sent = cut.chunks + 1
        response = await _open_stream(request)
        half = frames[sent][: len(frames[sent]) // 2]
        await response.write(b"".join(frames[:sent]) + half)
        if request.transport is not None:
            request.transport.close()
        return response

    async def _send_raw(self, raw: Raw, request: web.Request) -> web.StreamResponse:
        response = await _open_stream(request, status=raw.status, content_type=raw.content_type)
        for part in raw.writes:
            await response.write(part)
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    def _encode(self, answer: Answer, received: ServerRequest) -> list[bytes]:
        """Return the frames of an answer. Cached, because benchmarks request the same answer repeatedly."""
        answer = answer.with_call_ids(received.number)
        key = (answer, received.model, received.wants_usage)
        if key not in self._frames:
            self._frames[key] = stream_frames(
                answer,
                completion_id=f"chatcmpl-{received.number}",
                model=received.model,
                with_usage=received.wants_usage and self._reports_usage,
            )
        return self._frames[key]


async def _open_stream(
    request: web.Request, *, status: int = 200, content_type: str = "text/event-stream"
) -> web.StreamResponse:
    response = web.StreamResponse(status=status, headers={"Content-Type": content_type, "Cache-Control": "no-cache"})
    await response.prepare(request)
    return response


def _json(payload: dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    body = orjson.dumps(payload)
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


def _fault(status: int, message: str, headers: Mapping[str, str], code: str | None = None) -> web.Response:
    kind = "rate_limit_error" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
    return _json({"error": {"message": message, "type": kind, "param": None, "code": code}}, status, headers)

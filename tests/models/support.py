"""A server that answers with any bytes, and the clients that ask it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from deerflow.agent_support.model_failures import classify_failure
from deerflow.config.sections.models import ModelConfig
from deerflow.domain.errors import ModelError
from deerflow.models.factory import create_chat_model
from deerflow.models.openai_compatible.client import OpenAICompatibleChatModel

OWN, OPENAI = "own client", "ChatOpenAI"
CLIENTS: dict[str, dict[str, Any]] = {
    OWN: {"use": "deerflow.models.openai_compatible:OpenAICompatibleChatModel", "timeout": 5},
    OPENAI: {"use": "langchain_openai:ChatOpenAI", "native": False, "timeout": 5, "max_retries": 0},
}
LIMIT_S = 20
EVENT_STREAM, JSON = "text/event-stream", "application/json"

Respond = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serve_bytes(respond: Respond | bytes) -> AsyncIterator[str]:
    """Yield the base URL of a server that gives every request the same response, then closes the connection."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            if isinstance(respond, bytes):
                writer.write(respond)
            else:
                await respond(writer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


def build_response(
    body: bytes, content_type: str = JSON, *, status: str = "200 OK", length: int | None = None, **headers: str
) -> bytes:
    """Return a response; `length` is the announced length."""
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body) if length is None else length}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def build_stream(*events: bytes) -> bytes:
    """Return an event stream with these data fields, which ends as it should."""
    return b"".join(b"data: %s\n\n" % event for event in (*events, b"[DONE]"))


def build_event(message: object, streamed: bool, **fields: object) -> dict[str, Any]:
    """Return a response object with a message, or with the delta of a stream."""
    if isinstance(message, dict):
        message = {"role": "assistant", **message}
    choice = {"index": 0, "delta" if streamed else "message": message, "finish_reason": "stop"}
    kind = "chat.completion.chunk" if streamed else "chat.completion"
    return {"id": "1", "object": kind, "created": 1, "model": "m", "choices": [choice], **fields}


def build_answer(payload: bytes | dict[str, Any], streamed: bool) -> bytes:
    """Return the response with one payload."""
    data = payload if isinstance(payload, bytes) else orjson.dumps(payload)
    return build_response(build_stream(data), EVENT_STREAM) if streamed else build_response(data)


def create_client(client: str, base_url: str) -> BaseChatModel:
    """Create a model as the configuration does."""
    entry = {"name": "m", "model": "m", "base_url": base_url, "api_key": "none", **CLIENTS[client]}
    return create_chat_model(ModelConfig.model_validate(entry))


async def ask(model: BaseChatModel, streamed: bool) -> AIMessage | ModelError:
    """Return the answer of a model, or the error that a run would end with.

    Raises:
        Exception: It has no name of ours.
    """
    async with asyncio.timeout(LIMIT_S):
        (outcome,) = await asyncio.gather(model.ainvoke("hi", stream=streamed), return_exceptions=True)
    if isinstance(outcome, AIMessage):
        return outcome
    assert isinstance(outcome, Exception)
    failure = classify_failure(outcome)
    if failure is None:
        raise outcome
    return outcome if isinstance(outcome, ModelError) else failure.to_error()


async def close(model: BaseChatModel) -> None:
    """Close the connections of a model, if it can."""
    if isinstance(model, OpenAICompatibleChatModel):
        await model.aclose()

"""Responses without an end: each ends in an error, and memory stays bounded."""

import asyncio
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import langchain_openai  # noqa: F401  # the first import would hold the event loop of a test
import orjson
import pytest
from langchain_core.messages import AIMessage

from deerflow.domain.errors import ModelError, ModelResponseTooLarge
from deerflow.models.openai_compatible.vendors import MAX_EVENT_BYTES, MAX_RESPONSE_BYTES, ResponseMeter
from tests.models.support import (
    CLIENTS,
    EVENT_STREAM,
    JSON,
    LIMIT_S,
    Respond,
    ask,
    build_event,
    build_response,
    build_stream,
    close,
    create_client,
    serve_bytes,
)

PIECE = bytes(256 * 1024).replace(b"\0", b"x")
MAX_PEAK = 6 * MAX_EVENT_BYTES
"""Peak of the memory: the event, its copies in the client, and one that is being made."""


def endless(content_type: str, start: bytes, piece: bytes, headers: str = "") -> Respond:
    """Return a response that repeats a piece until the client hangs up."""

    async def respond(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{headers}\r\n"
        writer.write(head.encode() + start)
        while True:
            writer.write(piece)
            await writer.drain()

    return respond


async def endless_headers(writer: asyncio.StreamWriter) -> None:
    """Send headers until the client hangs up."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-Header: value\r\n" * 1000)
        await writer.drain()


async def endless_header_line(writer: asyncio.StreamWriter) -> None:
    """Send one header until the client hangs up."""
    writer.write(b"HTTP/1.1 200 OK\r\nX-Header: ")
    while True:
        writer.write(PIECE)
        await writer.drain()


async def endless_status_line(writer: asyncio.StreamWriter) -> None:
    """Send a status line until the client hangs up."""
    writer.write(b"HTTP/1.1 200 ")
    while True:
        writer.write(PIECE)
        await writer.drain()


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Check the peak of the memory that Python allocates."""
    tracemalloc.start(1)
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MAX_PEAK, f"{peak / 1024**2:.0f} MB"


async def ask_endless(client: str, respond: Respond, streamed: bool) -> AIMessage | ModelError:
    async with serve_bytes(respond) as base_url:
        model = create_client(client, base_url)
        with bounded_memory():
            outcome = await ask(model, streamed)
        await close(model)
    return outcome


ENDLESS: dict[str, tuple[bool, Callable[[], Respond]]] = {
    "a line of a stream": (True, lambda: endless(EVENT_STREAM, b"data: ", PIECE)),
    "a comment of a stream": (True, lambda: endless(EVENT_STREAM, b": ", PIECE)),
    "an event of many lines": (True, lambda: endless(EVENT_STREAM, b"", b"data: " + PIECE + b"\n")),
    "a stream of many events": (True, lambda: endless(EVENT_STREAM, b"", b": " + PIECE + b"\r\n\r\n")),
    "a stream that is JSON": (True, lambda: endless(JSON, b'{"choices": "', PIECE)),
    "a body": (False, lambda: endless(JSON, b'{"choices": "', PIECE)),
    "a body of blank lines": (False, lambda: endless(JSON, b"", b"\n" * len(PIECE))),
    "a body of another type": (False, lambda: endless("text/plain", b"", PIECE)),
}


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("streamed", "build"), ENDLESS.values(), ids=list(ENDLESS))
async def test_a_response_without_an_end_is_too_large(
    client: str, streamed: bool, build: Callable[[], Respond]
) -> None:
    outcome = await ask_endless(client, build(), streamed)
    assert isinstance(outcome, ModelResponseTooLarge), outcome
    assert "sent more than 16 MB" in str(outcome) or "sent more than 128 MB" in str(outcome)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("respond", [endless_headers, endless_header_line, endless_status_line])
@pytest.mark.parametrize("streamed", [False, True])
async def test_headers_without_an_end_are_an_error(client: str, respond: Respond, streamed: bool) -> None:
    assert isinstance(await ask_endless(client, respond, streamed), ModelError)


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
async def test_an_error_page_without_an_end_is_an_error(client: str) -> None:
    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            writer.write(PIECE)
            await writer.drain()

    assert isinstance(await ask_endless(client, respond, True), ModelError)


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("streamed", [False, True])
async def test_small_data_that_expands_to_much_is_too_large(client: str, streamed: bool) -> None:
    packed = zlib.compressobj(wbits=31)
    body = b"".join([*(packed.compress(PIECE) for _ in range(1000)), packed.flush()])
    response = build_response(body, EVENT_STREAM if streamed else JSON, Content_Encoding="gzip")

    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(response)

    outcome = await ask_endless(client, respond, streamed)
    assert isinstance(outcome, ModelError), outcome


@pytest.mark.parametrize("client", CLIENTS)
async def test_synchronous_calls_have_the_same_limits(client: str) -> None:
    async with serve_bytes(endless(EVENT_STREAM, b"data: ", PIECE)) as base_url, asyncio.timeout(LIMIT_S):
        model = create_client(client, base_url)
        with pytest.raises(ModelResponseTooLarge):
            await asyncio.to_thread(lambda: list(model.stream("hi")))


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_large_answer_is_read(client: str) -> None:
    text = "x" * (MAX_EVENT_BYTES // 2)
    events = [build_event({"content": text}, True)] * 3
    response = build_response(build_stream(*map(orjson.dumps, events)), EVENT_STREAM)

    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(response)

    async with serve_bytes(respond) as base_url:
        model = create_client(client, base_url)
        outcome = await ask(model, True)
        await close(model)
    assert isinstance(outcome, AIMessage) and len(outcome.text) == 3 * len(text)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
def test_an_event_ends_with_a_blank_line_however_it_is_received(end: bytes, size: int) -> None:
    meter = ResponseMeter()
    stream = (b"data: x" + end) * 5
    for at in range(0, len(stream), size):
        meter.add(stream[at : at + size])
    for _ in range(MAX_EVENT_BYTES // len(PIECE) - 1):
        meter.add(PIECE)
    with pytest.raises(ModelResponseTooLarge, match="without completing an event"):
        meter.add(PIECE)
        meter.add(PIECE)


def test_a_response_has_a_limit_however_short_its_events_are() -> None:
    meter = ResponseMeter()
    with pytest.raises(ModelResponseTooLarge, match="in one response"):
        for _ in range(MAX_RESPONSE_BYTES // len(PIECE) + 1):
            meter.add(PIECE + b"\n\n")

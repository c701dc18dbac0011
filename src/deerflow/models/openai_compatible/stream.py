"""Parsing of server-sent events into message chunks, at a limited rate."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, Protocol

import orjson
from langchain_core.messages import AIMessageChunk

from deerflow.domain.errors import ModelError, ModelStreamCut, ModelUnavailable
from deerflow.models.openai_compatible.accumulator import StreamAccumulator
from deerflow.models.openai_compatible.vendors import find_error, make_event_error


class SseParser:
    """Incremental parser of server-sent events that returns the data of complete events."""

    __slots__ = ("_data", "_ends_in_cr", "_rest", "_started")

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # parts of an incomplete line
        self._data: list[bytes] = []  # lines of an incomplete event
        self._ends_in_cr = False
        self._started = False

    def feed(self, received: bytes) -> list[bytes]:
        """Return the data of the events that `received` completes."""
        if received and (self._ends_in_cr or b"\r" in received):
            received = self._normalize_line_ends(received)
        self._rest.append(received)
        if b"\n" not in received:  # a long line is not copied with each of its parts
            return []
        lines = b"".join(self._rest).split(b"\n")
        self._rest = [lines.pop()]
        if lines and not self._started:
            self._started = True
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
        return self._complete_events(lines)

    def close(self) -> list[bytes]:
        """Return the last event when the response ended without a blank line."""
        return self.feed(b"\n\n")

    def _complete_events(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line and data:
                events.append(data[0] if len(data) == 1 else b"\n".join(data))
                data.clear()
        return events

    def _normalize_line_ends(self, received: bytes) -> bytes:
        if self._ends_in_cr:
            received = received.removeprefix(b"\n")  # the second half of a split line end
        self._ends_in_cr = received.endswith(b"\r")
        return received.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


DONE = b"[DONE]"
DRAIN_LIMIT_S = 0.05


class ByteSource(Protocol):
    """A response body that is still being received."""

    @property
    def is_complete(self) -> bool: ...
    async def read(self) -> bytes: ...
    async def pause(self, seconds: float) -> None: ...


async def stream_answer(
    source: ByteSource, accumulator: StreamAccumulator, interval_s: float, clock: Callable[[], float] | None = None
) -> AsyncGenerator[AIMessageChunk, None]:
    """Yield chunks of the answer: the first at once, then one for all data received within `interval_s`.

    A pause that took longer, because the event loop is busy, makes the next one longer by as much: fewer chunks then
    leave it more time.
    """
    events = SseParser()
    clock = clock or asyncio.get_running_loop().time
    due = late = 0.0
    done = ended = False
    while not (done or ended):
        if (wait := due - clock()) > 0:
            await source.pause(wait)
            late = max(0.0, clock() - due)
        received = await _read(source, accumulator)
        ended = not received
        for payload in events.close() if ended else events.feed(received):
            if payload == DONE:
                done = True
                break
            accumulator.add(parse_event(payload))
            if accumulator.has_new_content and not interval_s:
                yield accumulator.take_chunk()
        if accumulator.has_new_content and not done:
            yield accumulator.take_chunk()
            due = clock() + interval_s + late
    if not done and accumulator.finish_reason is None:
        raise ModelStreamCut("the model endpoint ended the stream before the answer was complete")
    yield accumulator.finish()
    await _drain(source)


def parse_answer(payload: bytes) -> dict[str, Any]:
    """Return the response object of a request without streaming."""
    response = parse_event(payload)
    if not response.get("choices"):
        raise ModelUnavailable(f"the model endpoint returned no answer: {payload[:200]!r}")
    return response


def parse_event(payload: bytes) -> dict[str, Any]:
    """Return the object in a payload; raise a `ModelError` if it reports an error."""
    try:
        event = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise ModelStreamCut(f"the model endpoint returned invalid JSON: {payload[:200]!r}") from error
    if (not isinstance(event, dict) or event.get("error") or "choices" not in event) and (failure := find_error(event)):
        raise make_event_error(failure)
    if not isinstance(event, dict):
        raise ModelUnavailable(f"the model endpoint returned no JSON object: {payload[:200]!r}")
    return event


async def _read(source: ByteSource, accumulator: StreamAccumulator) -> bytes:
    try:
        return await source.read()
    except ModelStreamCut:
        if accumulator.finish_reason is None:
            raise
        return b""  # the answer is complete; only the [DONE] event is missing


async def _drain(source: ByteSource) -> None:
    """Wait for the end of the body, so that the connection can be reused."""
    with suppress(TimeoutError, ModelError):
        async with asyncio.timeout(DRAIN_LIMIT_S):
            while not source.is_complete:
                await source.read()

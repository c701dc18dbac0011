"""From the bytes of a response to the answer in it, at a pace."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, Protocol

import orjson
from langchain_core.messages import AIMessageChunk

from deerflow.domain.errors import ModelStreamCut, ModelUnavailable
from deerflow.models.draft import Draft
from deerflow.models.failures import error_in, failed_event
from deerflow.models.sse import EventParser

DONE = b"[DONE]"
DRAIN_LIMIT_S = 0.05


class ByteSource(Protocol):
    """A response body that is still arriving."""

    @property
    def has_arrived(self) -> bool: ...
    async def read(self) -> bytes: ...
    async def rest(self, seconds: float) -> None: ...


async def stream_answer(source: ByteSource, draft: Draft, interval_s: float) -> AsyncGenerator[AIMessageChunk, None]:
    """Chunks of the answer: the first at once, then one for all that arrives within `interval_s`."""
    events = EventParser()
    clock = asyncio.get_running_loop().time
    due = 0.0
    done = ended = False
    while not (done or ended):
        if (wait := due - clock()) > 0:
            await source.rest(wait)
        received = await _read(source, draft)
        ended = not received
        for payload in events.close() if ended else events.feed(received):
            if payload == DONE:
                done = True
                break
            draft.add(parse_event(payload))
            if draft.has_news and not interval_s:
                yield draft.take()
        if draft.has_news and not done:
            yield draft.take()
            due = clock() + interval_s
    if not done and draft.finish_reason is None:
        raise ModelStreamCut("the model endpoint ended the stream before the answer was complete")
    yield draft.finish()
    await _drain(source)


def parse_answer(payload: bytes) -> dict[str, Any]:
    """A response that holds the whole answer."""
    response = parse_event(payload)
    if not response.get("choices"):
        raise ModelUnavailable(f"the model endpoint sent no answer: {payload[:200]!r}")
    return response


def parse_event(payload: bytes) -> dict[str, Any]:
    """The object in a payload, unless it says that the endpoint failed."""
    try:
        event = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise ModelStreamCut(f"the model endpoint sent something that is not JSON: {payload[:200]!r}") from error
    if not isinstance(event, dict):
        raise ModelUnavailable(f"the model endpoint sent something that is not an object: {payload[:200]!r}")
    if (event.get("error") or "choices" not in event) and (failure := error_in(event)):
        raise failed_event(failure)
    return event


async def _read(source: ByteSource, draft: Draft) -> bytes:
    try:
        return await source.read()
    except ModelStreamCut:
        if draft.finish_reason is None:
            raise
        return b""  # the answer is complete; only its end mark is missing


async def _drain(source: ByteSource) -> None:
    """Wait for the end of the body, so that the connection can be used again."""
    with suppress(TimeoutError, ModelUnavailable):
        async with asyncio.timeout(DRAIN_LIMIT_S):
            while not source.has_arrived:
                await source.read()

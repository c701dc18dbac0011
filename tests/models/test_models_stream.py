"""Streaming of answers at a limited rate."""

import asyncio
from collections import deque

import pytest

from deerflow.domain.errors import ModelRejected, ModelStreamCut, ModelUnavailable
from deerflow.models.openai_compatible.accumulator import StreamAccumulator
from deerflow.models.openai_compatible.stream import stream_answer
from deerflow.models.openai_compatible.vendors import DEFAULT_VENDOR
from deerflow.testing import Answer, ToolRequest
from deerflow.testing.scripted_server import stream_frames

INTERVAL_S = 0.02


class ScriptedBody:
    """A response body whose parts arrive while the reader pauses or waits for data."""

    def __init__(self, at_once: bytes, *, during_rest: tuple[bytes, ...] = (), later: tuple[bytes, ...] = ()) -> None:
        self._buffer = at_once
        self._during_rest = deque(during_rest)
        self._later = deque(later)
        self.rests: list[float] = []

    @property
    def is_complete(self) -> bool:
        return not (self._during_rest or self._later)

    async def read(self) -> bytes:
        if not self._buffer and self._later:
            self._buffer = self._later.popleft()
        received, self._buffer = self._buffer, b""
        return received

    async def pause(self, seconds: float) -> None:
        self.rests.append(seconds)
        if self._during_rest:
            self._buffer += self._during_rest.popleft()


def build_frames(answer: Answer) -> list[bytes]:
    return stream_frames(answer, completion_id="c", model="m", with_usage=True)


async def read_chunks(source: ScriptedBody, interval_s: float = INTERVAL_S) -> list[str]:
    async with asyncio.timeout(5):
        return [
            str(chunk.content) async for chunk in stream_answer(source, StreamAccumulator(DEFAULT_VENDOR), interval_s)
        ]


async def test_yields_the_first_delta_at_once_and_merges_the_next() -> None:
    role, one, two, three, *end = build_frames(Answer(("one ", "two ", "three")))
    source = ScriptedBody(role + one, during_rest=(two + three, b"".join(end)))

    assert await read_chunks(source) == ["one ", "two three", ""]
    assert 0 < source.rests[0] <= INTERVAL_S


class BusyLoop:
    """Body and clock of an event loop on which pauses end late."""

    def __init__(self, frames: list[bytes], late_s: tuple[float, ...]) -> None:
        self._frames = deque(frames)
        self._late_s = deque(late_s)
        self.now = 0.0
        self.pauses: list[float] = []

    @property
    def is_complete(self) -> bool:
        return not self._frames

    async def read(self) -> bytes:
        return self._frames.popleft()

    async def pause(self, seconds: float) -> None:
        self.pauses.append(round(seconds, 6))
        self.now += seconds + self._late_s.popleft()


async def test_waits_longer_after_a_pause_that_ended_late() -> None:
    role, *words, last, usage, done = build_frames(Answer(("a", "b", "c", "d")))
    loop = BusyLoop([role + words[0], *words[1:], last + usage + done], (0.0, 0.05, 0.0, 0.0))

    answer = stream_answer(loop, StreamAccumulator(DEFAULT_VENDOR), 0.02, lambda: loop.now)
    contents = [chunk.content async for chunk in answer]

    assert contents == ["a", "b", "c", "d", ""]
    assert loop.pauses == [0.02, 0.02, 0.07, 0.02]


async def test_an_empty_first_delta_does_not_delay_the_first_word() -> None:
    role, one, *end = build_frames(Answer(("one",)))
    source = ScriptedBody(role, later=(one, b"".join(end)))
    received = stream_answer(source, StreamAccumulator(DEFAULT_VENDOR), INTERVAL_S)

    first = await anext(received)

    assert first.content == "one"
    assert source.rests == []
    await received.aclose()


async def test_yields_every_delta_without_an_interval() -> None:
    source = ScriptedBody(b"".join(build_frames(Answer(("one ", "two ", "three")))))

    assert await read_chunks(source, interval_s=0) == ["one ", "two ", "three", ""]
    assert source.rests == []


async def test_merged_deltas_keep_all_content() -> None:
    answer = Answer("the text", "the reasoning", (ToolRequest("a", '{"x": 1}', "1"), ToolRequest("b", "{}", "2")))
    source = ScriptedBody(b"".join(build_frames(answer)))

    [chunk] = [chunk async for chunk in stream_answer(source, StreamAccumulator(DEFAULT_VENDOR), INTERVAL_S)]

    assert chunk.content == "the text"
    assert chunk.additional_kwargs == {"reasoning_content": "the reasoning"}
    assert [(call["name"], call["args"], call["id"]) for call in chunk.tool_calls] == [
        ("a", {"x": 1}, "1"),
        ("b", {}, "2"),
    ]
    assert chunk.usage_metadata is not None
    assert chunk.response_metadata["finish_reason"] == "tool_calls"
    assert chunk.chunk_position == "last"


async def test_reports_a_body_that_ends_early() -> None:
    role, one, *_ = build_frames(Answer(("one", "two")))

    with pytest.raises(ModelStreamCut, match="before the answer was complete"):
        await read_chunks(ScriptedBody(role + one))


async def test_a_finish_reason_completes_an_answer_without_done() -> None:
    *all_but_usage_and_done, _, _ = build_frames(Answer("one"))

    assert await read_chunks(ScriptedBody(b"".join(all_but_usage_and_done))) == ["one", ""]


async def test_done_completes_an_answer_without_a_finish_reason() -> None:
    role, one, _, _, done = build_frames(Answer(("one",)))

    assert await read_chunks(ScriptedBody(role + one + done)) == ["one"]


@pytest.mark.parametrize(
    ("payload", "error", "text"),
    [
        (b'{"error": {"message": "slow", "code": 502}}', ModelUnavailable, "slow"),
        (b'{"error": {"message": "too long", "code": "context_length_exceeded"}}', ModelRejected, "too long"),
        (b'{"error": "boom"}', ModelUnavailable, "boom"),
        (b'{"object": "error", "message": "no such model", "code": 404}', ModelRejected, "no such model"),
        (b"[1]", ModelUnavailable, "no JSON object"),
        (b"{broken", ModelStreamCut, "invalid JSON"),
    ],
)
async def test_raises_a_named_error_for_an_invalid_event(payload: bytes, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        await read_chunks(ScriptedBody(b"data: " + payload + b"\n\n"))

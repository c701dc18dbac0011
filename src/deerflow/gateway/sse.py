"""Server-sent events: a run's log on the wire."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing

import orjson
from starlette.responses import StreamingResponse

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.events import StreamEvent
from deerflow.domain.runs import RunRecord, StreamMode
from deerflow.runtime.changes import DerivedState
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.spoken import Spoken
from deerflow.runtime.stream_bridge.bridge import HEARTBEAT_S

HEARTBEAT = b": heartbeat\n\n"
ALWAYS = frozenset({"metadata", "error", "end"})
MOST_DIGITS = 18
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def event_stream(
    runs: RunManager, run: RunRecord, modes: Sequence[StreamMode], *, after: int = 0, stop_when_left: bool = False
) -> StreamingResponse:
    """An answer that follows `run` from its event `after` to its end."""
    frames = encode(runs, run, modes, after)
    place = run_location(run)
    return StreamingResponse(
        stopping(runs, run, frames) if stop_when_left else frames,
        media_type="text/event-stream",
        headers={**STREAM_HEADERS, "Content-Location": place, "Location": f"{place}/stream"},
    )


async def stopping(runs: RunManager, run: RunRecord, frames: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    """`frames`, and the end of the run when the reader leaves before it."""
    is_over = False
    try:
        async with aclosing(frames):
            async for piece in frames:
                yield piece
        is_over = True
    finally:
        if not is_over:
            runs.stop_soon(run)


def run_location(run: RunRecord) -> str:
    """Where clients of the LangGraph API look for the id of the run they started."""
    return f"/threads/{run.thread_id}/runs/{run.run_id}"


async def encode(
    runs: RunManager,
    run: RunRecord,
    modes: Sequence[StreamMode],
    after: int,
    heartbeat_s: float = HEARTBEAT_S,
    mark: str = "",
) -> AsyncGenerator[bytes]:
    """The bytes of the stream, one piece for every group of events. Ids begin with `mark`."""
    framer = Framer(modes, await runs.state_before(run, after) if "values" in modes else None, after, mark)
    # What has been said so far is put together from its beginning.
    start = 0 if "messages" in modes else after
    async with aclosing(runs.listen(run, after=start, heartbeat_s=heartbeat_s)) as groups:
        async for group in groups:
            yield b"".join(map(framer.frame, group)) if group else HEARTBEAT


class Framer:
    """Shows events as a reader with certain wishes sees them."""

    def __init__(self, modes: Sequence[StreamMode], state: DerivedState | None, after: int, mark: str) -> None:
        """`state` is what event `after` left, if whole states are wanted."""
        self._wanted = ALWAYS | {
            "messages" if mode == "messages-tuple" else mode for mode in modes if mode != "messages"
        }
        self._spoken = Spoken() if "messages" in modes else None
        self._state = state
        self._after = after
        self._mark = mark.encode()

    def frame(self, event: StreamEvent) -> bytes:
        """One event; nothing when it is not among the wishes."""
        frames = [b"event: %s\ndata: %s\n\n" % (name.encode(), data) for name, data in self._shown(event)]
        if not frames or event.seq <= self._after:
            return b""
        # The id belongs to the last frame: a reader that lost the connection between two must get both again.
        frames[-1] = b"id: %s%d\n%s" % (self._mark, event.seq, frames[-1])
        return b"".join(frames)

    def _shown(self, event: StreamEvent) -> Iterator[tuple[str, bytes]]:
        if event.event in self._wanted:
            yield event.event, event.data
        if event.event == "messages" and self._spoken is not None:
            yield from self._spoken.take(event.data)
        if event.event == "subgraph":
            yield from self._shown_inside(event.data)
        if event.event == "changes" and self._state is not None and event.seq > self._after:
            self._state.apply(event.data)
            yield "values", self._state.to_json()

    def _shown_inside(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        part = orjson.loads(data)
        if part["event"] in self._wanted:
            yield "|".join([part["event"], *part["namespace"]]), orjson.dumps(part["data"])


def parse_last_event_id(value: str | None) -> int:
    """The number in a `Last-Event-ID` header.

    Raises:
        InvalidRequest: it is not one of ours.
    """
    if not value or value == "-":  # how clients say: from the beginning
        return 0
    if not value.isdecimal() or len(value) > MOST_DIGITS:
        raise InvalidRequest(f"Last-Event-ID is the number of an event, not {value[:MOST_DIGITS]!r}")
    return int(value)

"""Server-sent events: the event log of a run as a stream."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing

import orjson
from starlette.responses import StreamingResponse

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.runs import RunEvent, RunRecord, StreamMode
from deerflow.runtime.journal.chunks import MessageAccumulator
from deerflow.runtime.journal.state_diff import DerivedState
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.stream_bridge.base import HEARTBEAT_S

HEARTBEAT = b": heartbeat\n\n"
ALWAYS = frozenset({"metadata", "error", "end"})
MAX_DIGITS = 18
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def event_stream(
    runs: RunManager, run: RunRecord, modes: Sequence[StreamMode], *, after: int = 0, cancel_on_disconnect: bool = False
) -> StreamingResponse:
    """Return a response that streams `run` from its event `after` to its end."""
    frames = encode_events(runs, run, modes, after)
    place = run_location(run)
    return StreamingResponse(
        cancel_on_close(runs, run, frames) if cancel_on_disconnect else frames,
        media_type="text/event-stream",
        headers={**STREAM_HEADERS, "Content-Location": place, "Location": f"{place}/stream"},
    )


async def cancel_on_close(runs: RunManager, run: RunRecord, frames: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    """Yield `frames`, and cancel the run if the client disconnects before its end."""
    is_over = False
    try:
        async with aclosing(frames):
            async for piece in frames:
                yield piece
        is_over = True
    finally:
        if not is_over:
            runs.cancel_in_background(run)


def run_location(run: RunRecord) -> str:
    """Return the path where LangGraph clients find the id of the run they started."""
    return f"/threads/{run.thread_id}/runs/{run.run_id}"


async def encode_events(
    runs: RunManager,
    run: RunRecord,
    modes: Sequence[StreamMode],
    after: int,
    heartbeat_s: float = HEARTBEAT_S,
    mark: str = "",
) -> AsyncGenerator[bytes]:
    """Yield the bytes of the stream, one chunk per group of events. Event ids start with `mark`."""
    framer = EventFramer(modes, await runs.state_before(run, after) if "values" in modes else None, after, mark)
    # Whole messages are accumulated from the first event on.
    start = 0 if "messages" in modes else after
    async with aclosing(runs.listen(run, after=start, heartbeat_s=heartbeat_s)) as groups:
        async for group in groups:
            yield b"".join(map(framer.frame, group)) if group else HEARTBEAT


class EventFramer:
    """Converts logged events to frames of the requested stream modes."""

    def __init__(self, modes: Sequence[StreamMode], state: DerivedState | None, after: int, mark: str) -> None:
        """Start after the event `after`; `state` is the thread state after it, if `values` are requested."""
        self._requested = ALWAYS | {
            "messages" if mode == "messages-tuple" else mode for mode in modes if mode != "messages"
        }
        self._accumulator = MessageAccumulator() if "messages" in modes else None
        self._state = state
        self._after = after
        self._mark = mark.encode()

    def frame(self, event: RunEvent) -> bytes:
        """Return the frames of an event, empty if it is not requested."""
        frames = [b"event: %s\ndata: %s\n\n" % (name.encode(), data) for name, data in self._frames(event)]
        if not frames or event.seq <= self._after:
            return b""
        # The id is on the last frame: a client that loses the connection between two frames must get both again.
        frames[-1] = b"id: %s%d\n%s" % (self._mark, event.seq, frames[-1])
        return b"".join(frames)

    def _frames(self, event: RunEvent) -> Iterator[tuple[str, bytes]]:
        if event.event in self._requested:
            yield event.event, event.data
        if event.event == "messages" and self._accumulator is not None:
            yield from self._accumulator.take(event.data)
        if event.event == "subgraph":
            yield from self._subgraph_frames(event.data)
        if event.event == "changes" and self._state is not None and event.seq > self._after:
            self._state.apply(event.data)
            yield "values", self._state.to_json()

    def _subgraph_frames(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        part = orjson.loads(data)
        if part["event"] in self._requested:
            yield "|".join([part["event"], *part["namespace"]]), orjson.dumps(part["data"])


def parse_last_event_id(value: str | None) -> int:
    """Return the number in a `Last-Event-ID` header.

    Raises:
        InvalidRequest: it is not a number.
    """
    if not value or value == "-":  # clients send this to start at the first event
        return 0
    if not value.isdecimal() or len(value) > MAX_DIGITS:
        raise InvalidRequest(f"Last-Event-ID must be the number of an event, not {value[:MAX_DIGITS]!r}")
    return int(value)

"""Server-sent events: a run's log on the wire."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing
from typing import Literal

from starlette.responses import StreamingResponse

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.events import StreamEvent
from deerflow.domain.runs import RunRecord
from deerflow.runtime.changes import DerivedState
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.stream_bridge.bridge import HEARTBEAT_S

StreamMode = Literal["values", "messages", "messages-tuple", "changes", "custom"]

HEARTBEAT = b": heartbeat\n\n"
ALWAYS = frozenset({"metadata", "error", "end"})


def event_stream(
    runs: RunManager, run: RunRecord, modes: Sequence[StreamMode], *, after: int = 0, stop_when_left: bool = False
) -> StreamingResponse:
    """An answer that follows `run` from its event `after` to its end."""
    frames = encode(runs, run, modes, after)
    return StreamingResponse(
        stopping(runs, run, frames) if stop_when_left else frames,
        media_type="text/event-stream",
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Content-Location": run_location(run)},
    )


async def stopping(runs: RunManager, run: RunRecord, frames: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    """`frames`, and the end of the run when the reader leaves before it."""
    try:
        async with aclosing(frames):
            async for piece in frames:
                yield piece
    finally:
        runs.request_stop(run.run_id)


def run_location(run: RunRecord) -> str:
    """Where clients of the LangGraph API look for the id of the run they started."""
    return f"/threads/{run.thread_id}/runs/{run.run_id}"


async def encode(
    runs: RunManager, run: RunRecord, modes: Sequence[StreamMode], after: int, heartbeat_s: float = HEARTBEAT_S
) -> AsyncGenerator[bytes]:
    """The bytes of the stream, one piece for every group of events."""
    wanted = ALWAYS | {"messages" if mode == "messages-tuple" else mode for mode in modes}
    state = await runs.state_before(run, after) if "values" in wanted else None
    async with aclosing(runs.listen(run, after=after, heartbeat_s=heartbeat_s)) as groups:
        async for group in groups:
            yield b"".join(frame(event, wanted, state) for event in group) if group else HEARTBEAT


def frame(event: StreamEvent, wanted: Collection[str], state: DerivedState | None) -> bytes:
    """One event as a reader with these wishes sees it; nothing when it is not among them."""
    frames = [b"event: %s\ndata: %s\n\n" % (event.event.encode(), event.data)] if event.event in wanted else []
    if state is not None and event.event == "changes":
        state.apply(event.data)
        frames.append(b"event: values\ndata: %s\n\n" % state.to_json())
    if frames:
        # The id belongs to the last frame: a reader that lost the connection between two must get both again.
        frames[-1] = b"id: %d\n%s" % (event.seq, frames[-1])
    return b"".join(frames)


def parse_last_event_id(value: str | None) -> int:
    """The number in a `Last-Event-ID` header.

    Raises:
        InvalidRequest: it is not one of ours.
    """
    if not value:
        return 0
    if not value.isdecimal():
        raise InvalidRequest(f"Last-Event-ID is the number of an event, not {value!r}")
    return int(value)

"""Server-sent events: the event log of a run, or of the runs of a thread, as a stream."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import orjson
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from deerflow.domain.errors import InvalidRequest, NotFound
from deerflow.domain.identity import Principal
from deerflow.domain.runs import RunEvent, RunRecord, StreamMode
from deerflow.gateway.middleware.request_context import EVENT_STREAM
from deerflow.harness import Harness
from deerflow.runtime.journal.serialization import MessageAccumulator
from deerflow.runtime.journal.state_diff import DerivedState
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.stream_bridge.local import HEARTBEAT_S

HEARTBEAT = b": heartbeat\n\n"
ALWAYS = frozenset({"metadata", "error", "end"})
MAX_DIGITS = 18
ThreadStreamMode = Literal["run_modes", "lifecycle", "state_update"]
THREAD_MODES: Mapping[str, Sequence[StreamMode]] = MappingProxyType({"lifecycle": (), "state_update": ("values",)})
"""Stream modes of a thread stream, besides those of each run: begin and end of runs only, or their states."""
MAX_KNOWN, MAX_LATEST = 1000, 100
"""Runs that are looked at when a thread stream begins, and each time there is a new run."""
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def event_stream(
    runs: RunManager, run: RunRecord, modes: Sequence[StreamMode], *, after: int = 0, cancel_on_disconnect: bool = False
) -> StreamingResponse:
    """Return a response that streams `run` from its event `after` to its end."""
    frames = encode_events(runs, run, modes, after)
    place = run_location(run)
    return EventStreamResponse(
        cancel_on_close(runs, run, frames) if cancel_on_disconnect else frames,
        media_type="text/event-stream",
        headers={**STREAM_HEADERS, "Content-Location": place, "Location": f"{place}/stream"},
    )


class EventStreamResponse(StreamingResponse):
    """Response whose body is sent by `RequestContextMiddleware`, after all inner layers have returned.

    A reader that waits for events would otherwise keep the frames of twenty coroutines, three exit stacks and a task
    group, half of the memory of a connection.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers through all middlewares, and leave the body to the outermost."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        scope[EVENT_STREAM] = self.body_iterator


async def cancel_on_close(runs: RunManager, run: RunRecord, frames: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
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


@dataclass(frozen=True, slots=True)
class ThreadFollower:
    """Follows the runs of a thread, one after the other."""

    harness: Harness
    thread_id: str
    user: Principal
    mode: ThreadStreamMode
    seen: set[str] = field(default_factory=set)
    """Runs that were streamed, and those that had ended before."""

    async def follow(
        self, begun: RunRecord | None, after: int, heartbeat_s: float = HEARTBEAT_S
    ) -> AsyncGenerator[bytes]:
        """Yield the frames of all runs, starting with the rest of `begun`. Ids contain run and event."""
        async with aclosing(self.harness.runs.watch(self.thread_id, heartbeat_s=heartbeat_s)) as signals:
            await self._skip_ended(begun)
            limit = MAX_KNOWN
            async for is_new in signals:
                waiting = await self._list_unseen(limit)
                for run in waiting:
                    async with aclosing(self._stream(run, after)) as pieces:
                        async for piece in pieces:
                            yield piece
                    after = 0
                limit = MAX_LATEST
                if not (is_new or waiting):
                    if not await self._exists():
                        return
                    yield HEARTBEAT

    async def _stream(self, run: RunRecord, after: int) -> AsyncGenerator[bytes]:
        self.seen.add(run.run_id)
        modes = await self.harness.runs.modes_of(run) if self.mode == "run_modes" else THREAD_MODES[self.mode]
        async with aclosing(encode_events(self.harness.runs, run, modes, after, mark=f"{run.run_id}.")) as pieces:
            async for piece in pieces:
                yield piece

    async def _skip_ended(self, begun: RunRecord | None) -> None:
        """Mark the runs that are not streamed: those before `begun`, or else those that have ended."""
        known = await self.harness.runs.list_by_thread(self.thread_id, self.user, MAX_KNOWN)
        ids = [run.run_id for run in known]
        if begun is not None:
            self.seen.update(ids[ids.index(begun.run_id) + 1 :] if begun.run_id in ids else ids)
        else:
            self.seen.update(run.run_id for run in known if run.status.is_final)

    async def _list_unseen(self, limit: int) -> list[RunRecord]:
        """Return the runs among the latest that were not streamed yet, oldest first."""
        latest = await self.harness.runs.list_by_thread(self.thread_id, self.user, limit)
        return [run for run in reversed(latest) if run.run_id not in self.seen]

    async def _exists(self) -> bool:
        try:
            await self.harness.threads.get(self.thread_id, self.user)
        except NotFound:
            return False
        return True


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

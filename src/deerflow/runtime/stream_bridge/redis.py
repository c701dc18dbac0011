"""Stream bridge across processes: Redis carries notifications only; events stay in the database."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import aclosing, asynccontextmanager

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from deerflow.domain.runs import RunEvent
from deerflow.runtime.background import log_task_exception
from deerflow.runtime.stream_bridge.local import (
    ALL_PROCESSES,
    HEARTBEAT_S,
    THREADS,
    IsUnfinished,
    MemoryStreamBridge,
    ReadLog,
)

logger = logging.getLogger(__name__)

RUNS = "deerflow:run:"
PROCESSES = "deerflow:process:"
RETRY_S = 1.0
CONNECT_LIMIT_S = 5.0
CLOSE_LIMIT_S = 2.0


class RedisStreamBridge:
    """In-process bridge that other processes notify through Redis.

    Every run has a channel. A process subscribes to it while it has readers of a run of another process. While
    Redis is unreachable, these readers check the log at every heartbeat.
    """

    def __init__(self, redis: Redis, process: str, read_log: ReadLog, is_unfinished: IsUnfinished) -> None:
        self._redis = redis
        self._local = MemoryStreamBridge(read_log, is_unfinished)
        self.woken = self._local.woken
        self._channels = [PROCESSES + process, PROCESSES + ALL_PROCESSES]
        self._pubsub: PubSub | None = None
        self._followed: dict[str, int] = {}
        self._outgoing: dict[str, bytes] = {}
        self._has_outgoing = asyncio.Event()
        self._is_lost = False
        self._is_closed = False

    def open(self, run_id: str, last_seq: int) -> None:
        self._local.open(run_id, last_seq)

    def publish(self, run_id: str, events: Sequence[RunEvent]) -> None:
        self._local.publish(run_id, events)
        self._send(RUNS + run_id, b"%d" % events[-1].seq)

    def publish_end(self, run_id: str) -> None:
        self._local.publish_end(run_id)
        self._send(RUNS + run_id, b"end")

    def publish_run(self, thread_id: str) -> None:
        self._local.publish_run(thread_id)
        self._send(RUNS + THREADS + thread_id, b"")

    async def watch(self, thread_id: str, *, heartbeat_interval: float = HEARTBEAT_S) -> AsyncGenerator[bool]:
        channel = RUNS + THREADS + thread_id
        await self._follow(channel)
        try:
            async with aclosing(self._local.watch(thread_id, heartbeat_interval=heartbeat_interval)) as signals:
                async for is_new in signals:
                    yield is_new
        finally:
            await self._unfollow(channel)

    def tell(self, process: str) -> None:
        self._send(PROCESSES + process, b"")

    def reader_count(self) -> int:
        return self._local.reader_count()

    def start_closing(self) -> None:
        self._local.start_closing()

    async def subscribe(
        self, run_id: str, *, last_event_id: int = 0, heartbeat_interval: float = HEARTBEAT_S
    ) -> AsyncGenerator[Sequence[RunEvent]]:
        channel = RUNS + run_id
        groups = self._local.subscribe(run_id, last_event_id=last_event_id, heartbeat_interval=heartbeat_interval)
        is_elsewhere = not self._local.is_live(run_id)
        if is_elsewhere:
            await self._follow(channel)
        try:
            async with aclosing(groups):
                async for group in groups:
                    yield group
        finally:
            if is_elsewhere:
                await self._unfollow(channel)

    async def send_all(self) -> None:
        """Send notifications until the bridge closes."""
        while not self._is_closed or self._outgoing:
            await self._has_outgoing.wait()
            self._has_outgoing.clear()
            try:
                await self._flush()
            except (RedisError, OSError) as problem:
                self._note_loss(problem)

    async def receive_all(self) -> None:
        """Receive notifications until cancelled; the library may report that as a lost connection."""
        while not self._is_closed:
            try:
                async with self._redis.pubsub() as pubsub:
                    await self._receive(pubsub)
            except (RedisError, OSError) as problem:
                self._note_loss(problem)
                await asyncio.sleep(RETRY_S)
            finally:
                self._pubsub = None

    def close(self) -> None:
        """Send pending notifications and stop."""
        self._is_closed = True
        self._has_outgoing.set()

    async def _flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, {}
        async with self._redis.pipeline(transaction=False) as pipeline:
            for channel, message in outgoing.items():
                pipeline.publish(channel, message)
            await pipeline.execute()

    def _send(self, channel: str, message: bytes) -> None:
        self._outgoing[channel] = message  # of several wake-ups the newest is enough
        self._has_outgoing.set()

    async def _receive(self, pubsub: PubSub) -> None:
        await pubsub.subscribe(*self._channels, *self._followed)
        self._pubsub = pubsub
        async for message in pubsub.listen():
            self._note_return()
            channel = message["channel"].decode()
            # A new subscription is a reason to check the log: an event may have arrived just before.
            if channel not in self._channels:
                self._local.wake(channel.removeprefix(RUNS))
            elif message["type"] == "message" or channel == self._channels[-1]:
                self.woken.set()

    async def _follow(self, channel: str) -> None:
        self._followed[channel] = self._followed.get(channel, 0) + 1
        if self._followed[channel] == 1 and self._pubsub is not None:
            await self._ask(self._pubsub.subscribe(channel))

    async def _unfollow(self, channel: str) -> None:
        self._followed[channel] -= 1
        if self._followed[channel] == 0:
            del self._followed[channel]
            if self._pubsub is not None:
                await self._ask(self._pubsub.unsubscribe(channel))

    async def _ask(self, asking: Awaitable[None]) -> None:
        try:
            await asking
        except (RedisError, OSError) as problem:
            self._note_loss(problem)  # all channels are asked for again when Redis is back

    def _note_loss(self, problem: Exception) -> None:
        if not (self._is_lost or self._is_closed):
            self._is_lost = True
            logger.warning(
                "Redis cannot be reached: %s; until it is back, runs of other processes are read at every heartbeat",
                problem,
            )

    def _note_return(self) -> None:
        if self._is_lost:
            self._is_lost = False
            logger.info("Redis is back")
            self._local.wake_all()


@asynccontextmanager
async def open_redis_bridge(
    url: str, process: str, read_log: ReadLog, is_unfinished: IsUnfinished
) -> AsyncIterator[RedisStreamBridge]:
    """Open a bridge over the Redis server at `url`, whether or not it is reachable now."""
    keepalive = {} if url.startswith("unix:") else {"socket_keepalive": True}
    # Retries are handled here, not in the library.
    redis = Redis.from_url(url, socket_connect_timeout=CONNECT_LIMIT_S, retry=Retry(NoBackoff(), 0), **keepalive)
    bridge = RedisStreamBridge(redis, process, read_log, is_unfinished)
    tasks = [asyncio.create_task(work(), name=work.__name__) for work in (bridge.send_all, bridge.receive_all)]
    for task in tasks:
        task.add_done_callback(log_task_exception)
    try:
        yield bridge
    finally:
        bridge.close()
        await asyncio.wait(tasks[:1], timeout=CLOSE_LIMIT_S)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=CLOSE_LIMIT_S)
        await redis.aclose()

"""Background tasks, bounded waits, and threads for work that may never end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, ParamSpec, TypeVar

from deerflow.domain.errors import StorageUnavailable

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


async def wait_for_event(event: asyncio.Event, seconds: float) -> bool:
    """Wait for `event` and return whether it was set in time."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


async def shield_until_done(doing: Coroutine[Any, Any, T]) -> T:
    """Await `doing` to its end and return its result. A cancellation that arrives meanwhile is ignored."""
    task = asyncio.create_task(doing)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


async def complete_before_cancel(doing: Coroutine[Any, Any, T]) -> T:
    """Await `doing` to its end and return its result. A cancellation that arrives meanwhile is raised afterwards."""
    task, stopped = asyncio.create_task(doing), None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as order:
            stopped = order
    if stopped is not None and task.exception() is None:
        raise stopped
    return task.result()


class BackgroundTasks:
    """Tasks that no caller waits for. They end by themselves or with their owner."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[object]] = set()

    def begin(self, work: Coroutine[Any, Any, object], name: str) -> None:
        """Start a task."""
        task = asyncio.create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self._end)

    def cancel(self) -> None:
        """Cancel all tasks."""
        for task in self.tasks:
            task.cancel()

    def _end(self, task: asyncio.Task[object]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.warning("%s failed: %s", task.get_name(), task.exception())


def log_task_exception(task: asyncio.Task[None]) -> None:
    """Log the exception that ended a task."""
    if not task.cancelled() and (problem := task.exception()) is not None:
        logger.error("%s has ended", task.get_name(), exc_info=problem)


async def run_unless_unavailable(step: Callable[[], Awaitable[T]]) -> T | None:
    """Return the result of `step`, or None if the database is unavailable."""
    try:
        return await step()
    except StorageUnavailable as problem:
        logger.error("%s", problem)
        return None


class DaemonThreadPool(Executor):
    """Pool of threads that do not keep the process alive.

    A thread cannot be ended from outside. `ThreadPoolExecutor` waits for its threads when the process exits, so a
    single call that blocks forever would keep a server from stopping.
    """

    def __init__(self, max_workers: int, name: str) -> None:
        self._max_workers = max_workers
        self._name = name
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._idle = Semaphore(0)  # threads that wait for work
        self._lock = Lock()
        self._count = 0
        self._is_closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function as soon as a thread is free."""
        future: Future[T] = Future()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the pool is closed")
            self._queue.put((future, partial(fn, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and self._count < self._max_workers:
                self._count += 1
                Thread(target=self._work, name=f"{self._name}-{self._count}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:
        """Cancel calls that have not begun, and let the threads end after their current call."""
        with self._lock:
            self._is_closed = True
            while not self._queue.empty():
                if (work := self._queue.get()) is not None:
                    work[0].cancel()
            for _ in range(self._count):
                self._queue.put(None)

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            future, call = work
            del work
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001  # it is raised where the result is awaited
                    future.set_exception(error)
            del future, call  # an idle thread keeps nothing alive
            self._idle.release()

"""Background tasks and bounded waits."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from deerflow.domain.errors import StorageUnavailable

logger = logging.getLogger(__name__)

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
            logger.warning("%s could not be had: %s", task.get_name(), task.exception())


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

"""Waiting with a limit, and tasks that nobody waits for."""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


async def happens_within(event: asyncio.Event, seconds: float) -> bool:
    """Whether `event` is set in time."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


async def surely(doing: Coroutine[Any, Any, T]) -> T:
    """What `doing` leads to, also when whoever waits for it is told to stop meanwhile: that comes too late."""
    task = asyncio.create_task(doing)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


async def wholly(doing: Coroutine[Any, Any, T]) -> T:
    """What `doing` leads to; whoever is told to stop meanwhile stops when it is done, and not halfway."""
    task, stopped = asyncio.create_task(doing), None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as order:
            stopped = order
    if stopped is not None and task.exception() is None:
        raise stopped
    return task.result()


class Beside:
    """Tasks that go on beside everything else, until they end or whoever has begun them is put away."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[object]] = set()

    def begin(self, work: Coroutine[Any, Any, object], name: str) -> None:
        """Do something that nobody waits for."""
        task = asyncio.create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self._end)

    def cancel(self) -> None:
        """Have all of them end."""
        for task in self.tasks:
            task.cancel()

    def _end(self, task: asyncio.Task[object]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.warning("%s could not be had: %s", task.get_name(), task.exception())


def tell_of_failure(task: asyncio.Task[None]) -> None:
    """Log what should not have ended a task."""
    if not task.cancelled() and (problem := task.exception()) is not None:
        logger.error("%s has ended", task.get_name(), exc_info=problem)

"""Async work for callers that cannot await, on a private event loop in a thread of its own."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, work).result()


def iterate(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """The items of an async generator, which is closed when the reader stops early."""
    end = object()

    async def advance() -> T | object:
        return await anext(items, end)

    with ThreadPoolExecutor(max_workers=1) as thread:
        runner = asyncio.Runner()
        try:
            while (item := thread.submit(runner.run, advance()).result()) is not end:
                yield item  # type: ignore[misc]  # anything but `end` is an item
        finally:
            thread.submit(runner.run, items.aclose()).result()
            thread.submit(runner.close).result()

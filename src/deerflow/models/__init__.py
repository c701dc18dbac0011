"""Chat models: detection, construction and clients; and synchronous calls of async code."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, work).result()


def iterate_sync(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield the items of an async generator, which is closed when the reader stops early."""
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

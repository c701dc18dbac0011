"""A place for the harness to live, whatever event loop the caller has."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar

from deerflow.harness import Harness

T = TypeVar("T")


class HarnessLoop:
    """A thread with an event loop in which the harness lives, so that callers may have any loop or none."""

    def __init__(self, open_harness: Callable[[], AbstractAsyncContextManager[Harness]]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="deerflow", daemon=True)
        self._thread.start()
        self._opened = AsyncExitStack()
        try:
            self.harness = self.call(self._opened.enter_async_context(open_harness()))
        except BaseException:
            self.close()
            raise

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` in the loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def acall(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` in the loop and await it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self) -> None:
        """Close the harness and end the thread."""
        if self._loop.is_closed():
            return
        self.call(self._opened.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

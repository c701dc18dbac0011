"""Work that ignores cancellations, and a tool that does it."""

import asyncio
from contextlib import suppress


class StubbornWork:
    """Work without end that swallows the first cancellations."""

    def __init__(self, swallows: int) -> None:
        self.left = swallows
        self.has_begun = asyncio.Event()
        self.has_ended = asyncio.Event()

    async def pause(self, seconds: float) -> None:
        self.has_begun.set()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not self.left:
                self.has_ended.set()
                raise
            self.left -= 1


WORKS: dict[str, StubbornWork] = {}
STUBBORN_TOOL = {"name": "insist", "group": "test", "use": "tests.runtime.stubborn_work:insist"}


async def insist(name: str) -> str:
    """Work without end.

    Args:
        name: Which work.
    """
    while True:
        await WORKS[name].pause(3600)

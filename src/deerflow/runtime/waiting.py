"""Waiting with a limit."""

import asyncio


async def happens_within(event: asyncio.Event, seconds: float) -> bool:
    """Whether `event` is set in time."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False

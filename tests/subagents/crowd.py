"""A model that knows how many subagents ask it at once."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from deerflow.testing import ScriptedModel
from tests.support import said


@dataclass
class Crowd:
    """Who works, who has begun in which order, and how many there were at once at most."""

    working: set[str] = field(default_factory=set)
    began: list[str] = field(default_factory=list)
    most: int = 0
    came: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def come(self, order: str) -> None:
        self.working.add(order)
        self.began.append(order)
        self.most = max(self.most, len(self.working))
        async with self.came:
            self.came.notify_all()

    async def until(self, count: int) -> None:
        """Wait until so many are at work."""
        async with self.came:
            await self.came.wait_for(lambda: len(self.working) >= count)


def crowded(model: ScriptedModel, steps: int = 20, gate: asyncio.Event | None = None) -> tuple[ScriptedModel, Crowd]:
    """`model`, with which every subagent stays for so many turns of the event loop, and who is there.

    Nobody leaves before the `gate` is open.
    """
    crowd = Crowd()

    class Crowded(ScriptedModel):
        async def _astream(self, messages: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            is_lead = "<subagent_system>" in messages[0].text
            order = said(messages)[0]
            if not is_lead:
                await crowd.come(order)
                for _ in range(steps):
                    await asyncio.sleep(0)
                if gate is not None:
                    await gate.wait()
            async for chunk in super()._astream(list(messages), *args, **kwargs):
                yield chunk
            crowd.working.discard(order)

    return Crowded.saying(*model._script), crowd

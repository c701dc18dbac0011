"""A model that tracks how many subagents call it concurrently."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from deerflow.testing import ScriptedModel
from tests.support import said


@dataclass
class ConcurrencyProbe:
    """Active prompts, the order in which they started, and the maximum concurrency."""

    working: set[str] = field(default_factory=set)
    started: list[str] = field(default_factory=list)
    max_active: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def enter(self, order: str) -> None:
        self.working.add(order)
        self.started.append(order)
        self.max_active = max(self.max_active, len(self.working))
        async with self.changed:
            self.changed.notify_all()

    async def wait_for_active(self, count: int) -> None:
        """Wait until `count` prompts are active."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.working) >= count)


def track_concurrency(
    model: ScriptedModel, count_tool_results: int = 20, gate: asyncio.Event | None = None
) -> tuple[ScriptedModel, ConcurrencyProbe]:
    """Return a copy of `model` and its probe. Each subagent call takes `steps` turns of the event loop.

    No call ends before the `gate` is open.
    """
    probe = ConcurrencyProbe()

    class Crowded(ScriptedModel):
        async def _astream(self, messages: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            is_lead = "<subagent_system>" in messages[0].text
            order = said(messages)[0]
            if not is_lead:
                await probe.enter(order)
                for _ in range(count_tool_results):
                    await asyncio.sleep(0)
                if gate is not None:
                    await gate.wait()
            async for chunk in super()._astream(list(messages), *args, **kwargs):
                yield chunk
            probe.working.discard(order)

    return Crowded.saying(*model._script), probe

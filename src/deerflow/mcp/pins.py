"""Which tools of a server an admin has seen as they are, as the client sees it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from deerflow.mcp.status import ToolCard


@dataclass(frozen=True, slots=True)
class ToolDiff:
    """A tool that is not what it was when it was accepted."""

    name: str
    before: ToolCard | None
    """None: it was not there."""
    now: ToolCard


@dataclass(frozen=True, slots=True)
class PinVerdict:
    """Which tools may be offered to agents."""

    accepted: tuple[str, ...]
    changed: tuple[ToolDiff, ...] = ()


class Pins(Protocol):
    """Remembers what tools were like when they were accepted."""

    async def check(self, server: str, tools: Sequence[ToolCard]) -> PinVerdict:
        """Judge what a server offers now; the first time, all of it is accepted and remembered."""
        ...


class AcceptAll:
    """Takes servers at their word."""

    async def check(self, server: str, tools: Sequence[ToolCard]) -> PinVerdict:
        return PinVerdict(tuple(tool.name for tool in tools))

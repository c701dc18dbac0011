"""What a command prints, told while it runs."""

import asyncio
from collections.abc import Callable
from typing import Any

PAUSE_S = 0.2
MAX_PIECE = 8_000
MAX_TOLD = 64_000
"""So much of one command is told live. The result of the tool has both ends of the rest."""


class Progress:
    """Gathers output for a moment, then reports it as one `tool_progress` event."""

    def __init__(self, report: Callable[[Any], None], tool_call_id: str, tool: str) -> None:
        self._report = report
        self._about = {"type": "tool_progress", "tool_call_id": tool_call_id, "tool": tool}
        self._gathered = ""
        self._told = 0
        self._timer: asyncio.TimerHandle | None = None

    def hear(self, text: str) -> None:
        """Take in what was printed; the first piece is told at once."""
        if self._told >= MAX_TOLD:
            return
        self._gathered = (self._gathered + text)[-MAX_PIECE:]
        if self._timer is None:
            self._tell()

    def close(self) -> None:
        """Tell nothing more: the result does."""
        if self._timer is not None:
            self._timer.cancel()
        self._told = MAX_TOLD

    def _tell(self) -> None:
        self._timer = None
        if not self._gathered or self._told >= MAX_TOLD:
            return
        self._told += len(self._gathered)
        self._report({**self._about, "output": self._gathered})
        self._gathered = ""
        self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self._tell)

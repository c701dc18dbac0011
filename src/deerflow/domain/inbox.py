"""What people say to a run while it is under way."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable


@runtime_checkable  # LangChain validates the run context with isinstance
class Inbox(Protocol):
    """Messages that join a run before the model is next asked."""

    async def take(self) -> Sequence[Any]:
        """What has come since this was last asked, as messages; they belong to the run from now on."""
        ...

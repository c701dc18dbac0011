"""Messages to and from an agent's program, within bounds that the `acp` package's own transport lacks."""

import asyncio
import json
from typing import Any

from deerflow.sandbox.conversation import Conversation, RulesBroken
from deerflow.sandbox.services import Service

MOST_MESSAGES = 500_000


class ServiceTransport:
    """Carries messages until the program ends or breaks the rules; `problem` then says which."""

    def __init__(self, service: Service) -> None:
        self.problem: str | None = None
        self._service = service
        self._heard = Conversation(service, parse)
        self._messages = 0

    async def send(self, message: dict[str, Any]) -> None:
        """Tell the program something.

        Raises:
            OSError: It listens no more.
        """
        await self._service.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when there will be no more."""
        if self.problem is not None:
            return None
        try:
            message = await self._heard.next()
        except RulesBroken as broken:
            self.problem = str(broken)
            return None
        if message is None:
            self.problem = self._heard.ending()
            return None
        self._messages += 1
        if self._messages > MOST_MESSAGES:
            self.problem = f"it sent more than {MOST_MESSAGES} messages"
        await asyncio.sleep(0)  # however much it says at once, others get their turn
        return message

    async def close(self) -> None:
        """Whoever has started the program ends it."""


def parse(line: bytes) -> dict[str, Any] | None:
    """The message in a line, if there is one that can be meant."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_message = isinstance(message, dict) and ("method" in message or "id" in message)
    has_good_id = is_message and isinstance(message.get("id"), str | int | None)
    return message if has_good_id and isinstance(message.get("method"), str | None) else None

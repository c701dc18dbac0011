"""Messages to and from an agent's program, one per line, within bounds that the `acp` package's own transport lacks."""

import asyncio
import json
from typing import Any

from deerflow.sandbox.services import Service

MB = 1024 * 1024
MAX_MESSAGE = 16 * MB
LARGE = 256 * 1024
"""Messages beyond this are parsed in a thread: they would hold up everybody else."""
CHUNK = 64 * 1024
MOST_GARBAGE = 200
"""Lines that are no message: some programs greet, but none for long."""
MOST_MESSAGES = 500_000
SHOWN = 200


class ServiceTransport:
    """Carries messages until the program ends or breaks the rules; `problem` then says which."""

    def __init__(self, service: Service) -> None:
        self.problem: str | None = None
        self._service = service
        self._rest = bytearray()
        self._garbage = 0
        self._messages = 0
        self._first_garbage: str | None = None

    async def send(self, message: dict[str, Any]) -> None:
        """Tell the program something.

        Raises:
            OSError: It listens no more.
        """
        await self._service.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when there will be no more."""
        while self.problem is None:
            line = await self._line()
            if line is None:
                self.problem = self.problem or self._ended()
                return None
            if not line.strip():
                continue
            message = await asyncio.to_thread(parse, line) if len(line) > LARGE else parse(line)
            if message is not None:
                self._count()
                await asyncio.sleep(0)  # however much it says at once, others get their turn
                return message
            self._note_garbage(line)
        return None

    async def close(self) -> None:
        """Whoever has started the program ends it."""

    async def _line(self) -> bytes | None:
        searched = 0
        while (end := self._rest.find(b"\n", searched)) < 0:
            if len(self._rest) > MAX_MESSAGE:
                self.problem = f"it sent a message of more than {MAX_MESSAGE // MB} MB, which was refused"
                return None
            searched = len(self._rest)
            chunk = await self._service.output.read(CHUNK)
            if not chunk:
                return None
            self._rest += chunk
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line

    def _count(self) -> None:
        self._messages += 1
        if self._messages > MOST_MESSAGES:
            self.problem = f"it sent more than {MOST_MESSAGES} messages"

    def _note_garbage(self, line: bytes) -> None:
        self._garbage += 1
        self._first_garbage = self._first_garbage or line[:SHOWN].decode(errors="replace")
        if self._garbage > MOST_GARBAGE:
            self.problem = f"what it prints is not the protocol: it begins with {self._first_garbage!r}"

    def _ended(self) -> str:
        said = self._service.complaints[-3 * SHOWN :] or self._first_garbage
        return f"it has ended by itself{f'; it said: {said}' if said else ' and said nothing'}"


def parse(line: bytes) -> dict[str, Any] | None:
    """The message in a line, if there is one that can be meant."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_message = isinstance(message, dict) and ("method" in message or "id" in message)
    has_good_id = is_message and isinstance(message.get("id"), str | int | None)
    return message if has_good_id and isinstance(message.get("method"), str | None) else None

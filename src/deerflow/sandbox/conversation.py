"""What a program says to the server: messages, one per line, within bounds that the libraries of protocols lack."""

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from deerflow.sandbox.services import Service

logger = logging.getLogger(__name__)

MB = 1024 * 1024
MAX_MESSAGE = 16 * MB
LARGE = 256 * 1024
"""Messages beyond this are parsed in a thread: they would hold up everybody else."""
CHUNK = 64 * 1024
MOST_GARBAGE = 200
"""Lines that are no message: some programs greet, but none for long."""
SHOWN = 200

Message = TypeVar("Message")


class RulesBroken(Exception):
    """A program does not keep to the protocol; the text says in which way."""


class Conversation(Generic[Message]):
    """Hands on what a program says, and gives up on it before it takes up the memory or goes on for ever."""

    def __init__(
        self,
        service: Service,
        parse: Callable[[bytes], Message | None],
        who: str = "it",
        limit: int = MAX_MESSAGE,
    ) -> None:
        """`parse` finds the message in a line, if there is one; `who` speaks is told in problems."""
        self.first_garbage: str | None = None
        self._service = service
        self._parse = parse
        self._who = who
        self._limit = limit
        self._rest = bytearray()
        self._garbage = 0

    async def next(self) -> Message | None:
        """The next message; None when there will be no more.

        Raises:
            RulesBroken: A message is too long, or what comes is no message again and again.
        """
        while (line := await self._line()) is not None:
            if not line.strip():
                continue
            message = await asyncio.to_thread(self._parse, line) if len(line) > LARGE else self._parse(line)
            if message is not None:
                return message
            self._note_garbage(line)
        return None

    def ending(self) -> str:
        """That the program has ended, and why it may have."""
        said = self._service.complaints[-3 * SHOWN :] or self.first_garbage
        return f"{self._who} has ended by itself{f'; it said: {said}' if said else ' and said nothing'}"

    async def _line(self) -> bytes | None:
        searched = 0
        while (end := self._rest.find(b"\n", searched)) < 0:
            if len(self._rest) > self._limit:
                raise RulesBroken(
                    f"{self._who} sent a message of more than {self._limit // MB} MB, which was refused; "
                    "ask it for less at once"
                )
            searched = len(self._rest)
            chunk = await self._service.output.read(CHUNK)
            if not chunk:
                return None
            self._rest += chunk
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line

    def _note_garbage(self, line: bytes) -> None:
        if self.first_garbage is None:
            self.first_garbage = line[:SHOWN].decode(errors="replace")
            logger.info("a program says something that is no message: %r", self.first_garbage)
        self._garbage += 1
        if self._garbage > MOST_GARBAGE:
            raise RulesBroken(f"what {self._who} prints is not the protocol: it begins with {self.first_garbage!r}")

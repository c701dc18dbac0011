"""Services: programs that talk to the server over their standard streams."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar, runtime_checkable

from deerflow.domain.files import WORKSPACE


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A program to start, and its owner."""

    name: str
    command: Sequence[str]
    user_id: str
    thread_id: str | None = None
    """Thread whose files it sees; None for no thread."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    network: bool | Literal["public"] = False
    """True for the network of this machine; "public" for web hosts on the internet, through a proxy."""
    paths: Sequence[Path] = ()
    """Further paths of this machine that it can read, at the same paths."""
    folder: str = WORKSPACE
    """Working directory."""
    host_folder: Path | None = None
    """Working directory on this machine instead, in one of `paths`."""
    writable: tuple[str, ...] | None = None
    """Folders of the thread that it can write to; None for all."""
    seed: str | None = None
    """Name of a saved home folder: a service of a thread starts with a copy of it, if it exists.

    The copy is removed with the service; without a seed the home stays with the thread.
    """


class Service(Protocol):
    """A running service."""

    @property
    def output(self) -> asyncio.StreamReader:
        """Standard output; it ends when the service exits."""
        ...

    @property
    def stderr_tail(self) -> str:
        """Last part of standard error."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to standard input.

        Raises:
            OSError: The service does not read any more.
        """
        ...

    def keep_home(self) -> None:
        """Save the home under the seed of the spec when the service exits; only for services without a thread."""
        ...

    async def aclose(self) -> None:
        """Stop the service and everything it started."""
        ...


@runtime_checkable
class ServiceProvider(Protocol):
    """Sandbox provider that can run services."""

    async def start_service(self, spec: ServiceSpec) -> Service:
        """Start a program in its own sandbox with the files of its thread.

        Raises:
            SandboxError: It cannot be started or isolated; the text gives the reason and a remedy.
        """
        ...

    async def prune_homes(self, seeds: Collection[str]) -> None:
        """Remove the saved homes with other seeds."""
        ...


logger = logging.getLogger(__name__)

MB = 1024 * 1024
MAX_MESSAGE = 16 * MB
LARGE_MESSAGE = 256 * 1024
"""Messages beyond this size are parsed in a thread, as they would block the event loop."""
CHUNK = 64 * 1024
MAX_INVALID_LINES = 200
"""Lines that are not messages: some programs print a banner, but not a long one."""
MAX_SHOWN_CHARS = 200

Message = TypeVar("Message")


class ProtocolViolation(Exception):
    """A service does not follow the protocol; the text gives the reason."""


class LineProtocol(Generic[Message]):
    """Reader of line-delimited messages with limits on length and on invalid lines."""

    def __init__(
        self,
        service: Service,
        parse: Callable[[bytes], Message | None],
        name: str = "it",
        limit: int = MAX_MESSAGE,
    ) -> None:
        """Create it. `parse` returns the message in a line, or None; `name` is used in error messages."""
        self.first_invalid_line: str | None = None
        self._service = service
        self._parse = parse
        self._name = name
        self._limit = limit
        self._buffer = bytearray()
        self._invalid_lines = 0

    async def next(self) -> Message | None:
        """Return the next message, or None at the end.

        Raises:
            ProtocolViolation: A message is too long, or there are too many invalid lines.
        """
        while (line := await self._line()) is not None:
            if not line.strip():
                continue
            message = await asyncio.to_thread(self._parse, line) if len(line) > LARGE_MESSAGE else self._parse(line)
            if message is not None:
                return message
            self._count_invalid(line)
        return None

    def describe_exit(self) -> str:
        """Return a message that the service has exited, with its last output."""
        output = self._service.stderr_tail[-3 * MAX_SHOWN_CHARS :] or self.first_invalid_line
        return f"{self._name} has exited{f'; its output: {output}' if output else ' without output'}"

    async def _line(self) -> bytes | None:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            if len(self._buffer) > self._limit:
                raise ProtocolViolation(
                    f"{self._name} sent a message of more than {self._limit // MB} MB; request less at once"
                )
            searched = len(self._buffer)
            chunk = await self._service.output.read(CHUNK)
            if not chunk:
                return None
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _count_invalid(self, line: bytes) -> None:
        if self.first_invalid_line is None:
            self.first_invalid_line = line[:MAX_SHOWN_CHARS].decode(errors="replace")
            logger.info("a service printed a line that is not a message: %r", self.first_invalid_line)
        self._invalid_lines += 1
        if self._invalid_lines > MAX_INVALID_LINES:
            raise ProtocolViolation(
                f"what {self._name} prints does not follow the protocol; it starts with {self.first_invalid_line!r}"
            )

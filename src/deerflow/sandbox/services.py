"""Programs that speak with the server over their standard streams, for as long as they are needed."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from deerflow.domain.files import WORKSPACE


@dataclass(frozen=True, slots=True)
class ServiceOrder:
    """A program to be started, and for whom."""

    name: str
    command: Sequence[str]
    user_id: str
    thread_id: str | None = None
    """Whose files it sees; None: nobody's."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    network: bool = False
    paths: Sequence[Path] = ()
    """What of this machine it can read besides, at the same paths."""
    folder: str = WORKSPACE
    """Where it begins."""
    writable: tuple[str, ...] | None = None
    """The folders of the thread that it can write to; None: all."""
    seed: str | None = None
    """A program for a thread begins with the home that one for nobody had, if that was kept under the same name.

    Its own home then goes with it; without a seed it stays with the thread.
    """


class Service(Protocol):
    """A program that has been started."""

    @property
    def output(self) -> asyncio.StreamReader:
        """What it says; the end when it has ended."""
        ...

    @property
    def complaints(self) -> str:
        """The last of what it wrote to its standard error."""
        ...

    async def write(self, data: bytes) -> None:
        """Tell it something.

        Raises:
            OSError: It listens no more.
        """
        ...

    def keep(self) -> None:
        """Have its home kept for others when it has ended, as its order says; for nobody's programs only."""
        ...

    async def aclose(self) -> None:
        """End it, and everything it has started."""
        ...


@runtime_checkable
class RunsServices(Protocol):
    """A provider of sandboxes that can also run such programs."""

    async def start_service(self, order: ServiceOrder) -> Service:
        """Start a program in a sandbox of its own that shows the files of its thread.

        Raises:
            SandboxError: It cannot be started, or nothing isolates it here; the text says why and what to do.
        """
        ...

    async def keep_homes(self, seeds: Collection[str]) -> None:
        """Remove the homes that were kept under other names than these, for nobody will begin with them."""
        ...

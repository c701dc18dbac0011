"""The folders that editors work in, each shown to the sandboxes of a harness of its own."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol, Self
from urllib.parse import unquote, urlsplit

from deerflow.config.source import ConfigSource
from deerflow.domain.errors import InvalidRequest
from deerflow.harness import Harness, open_harness
from deerflow.serving.turns import stop_all

SHOWN_AT = "/mnt/project"


@dataclass(frozen=True, slots=True)
class Project:
    """A folder of this machine, and the harness whose sandboxes see it at `/mnt/project`."""

    folder: Path
    harness: Harness
    read_only: bool

    @property
    def note(self) -> str:
        """What the agent is told of it."""
        may = "You can read it but not change it." if self.read_only else "Change files there directly."
        where = f"The user's project ({self.folder}) is the folder {SHOWN_AT} of your sandbox. {may}"
        return f"\n\n<project>{where} Call its files by their paths there.</project>"

    def inside(self, uri: str) -> str:
        """The path by which the agent knows a file of the editor's, or the address as it is."""
        parts = urlsplit(uri)
        path = Path(unquote(parts.path)) if parts.scheme in ("", "file") else None
        if path is None or not path.is_relative_to(self.folder):
            return uri
        return str(PurePosixPath(SHOWN_AT) / path.relative_to(self.folder))

    def outside(self, path: str) -> str:
        """The path by which the editor knows a file of the agent's, if it is one of the project."""
        pure = PurePosixPath(path)
        if ".." in pure.parts or not pure.is_relative_to(SHOWN_AT):
            return path
        return str(self.folder / pure.relative_to(SHOWN_AT))


class ReadConfig(Protocol):
    """Reads the configuration, with `overrides` over what is written."""

    def __call__(self, *, overrides: Mapping[str, object] | None = None) -> ConfigSource: ...


class Projects:
    """Opens a harness for each folder that an editor names, and closes them all in the end."""

    def __init__(self, read_config: ReadConfig, *, read_only: bool) -> None:
        self._read_config = read_config
        self._read_only = read_only
        self._opened: dict[Path, Project] = {}
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def open(self, folder: str) -> Project:
        """The project in `folder`.

        Raises:
            InvalidRequest: It cannot be shown to a sandbox; the text says why.
        """
        path = await asyncio.to_thread(check_folder, folder)
        async with self._opening:
            if path not in self._opened:
                self._opened[path] = Project(path, await self._open(path), self._read_only)
            return self._opened[path]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for project in self._opened.values():
            await stop_all(project.harness)
        await self._stack.aclose()

    async def _open(self, path: Path) -> Harness:
        written = await asyncio.to_thread(self._read_config)
        home = written.current.home
        if home.is_relative_to(path):
            raise InvalidRequest(
                f"DeerFlow keeps its state in {str(home)!r}, inside the project, where the agent could change it; "
                "set DEER_FLOW_HOME to a folder outside of it"
            )
        mounts = [mount.model_dump() for mount in written.current.config.sandbox.mounts]
        mounts.append({"host_path": str(path), "container_path": SHOWN_AT, "read_only": self._read_only})
        overrides: Mapping[str, object] = {"sandbox": {"mounts": mounts}}
        source = await asyncio.to_thread(self._read_config, overrides=overrides)
        return await self._stack.enter_async_context(open_harness(source))


def check_folder(folder: str) -> Path:
    """The folder an editor works in.

    Raises:
        InvalidRequest: There is none, or it is the whole machine.
    """
    path = Path(folder)
    if not path.is_absolute() or not path.is_dir():
        raise InvalidRequest(f"cwd must be the absolute path of a folder that is there, not {folder!r}")
    path = path.resolve()
    if path == path.parent:
        raise InvalidRequest("cwd is the whole machine; open a folder of it")
    return path

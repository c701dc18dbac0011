"""Project folders of editors, each mounted in the sandboxes of its own harness."""

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
from deerflow.serving.turns import stop_runs

MOUNT_PATH = "/mnt/project"


@dataclass(frozen=True, slots=True)
class EditorProject:
    """Folder of this machine, and the harness whose sandboxes mount it at `/mnt/project`."""

    folder: Path
    harness: Harness
    read_only: bool

    @property
    def note(self) -> str:
        """Return the note about the project for the agent."""
        may = "You can read it but not change it." if self.read_only else "Change files there directly."
        where = f"The user's project ({self.folder}) is the folder {MOUNT_PATH} of your sandbox. {may}"
        return f"\n\n<project>{where} Call its files by their paths there.</project>"

    def to_sandbox_path(self, uri: str) -> str:
        """Return the sandbox path of a file URI of the editor; other URIs unchanged."""
        parts = urlsplit(uri)
        path = Path(unquote(parts.path)) if parts.scheme in ("", "file") else None
        if path is None or not path.is_relative_to(self.folder):
            return uri
        return str(PurePosixPath(MOUNT_PATH) / path.relative_to(self.folder))

    def to_host_path(self, path: str) -> str:
        """Return the path on this machine of a sandbox path, if it is in the project."""
        pure = PurePosixPath(path)
        if ".." in pure.parts or not pure.is_relative_to(MOUNT_PATH):
            return path
        return str(self.folder / pure.relative_to(MOUNT_PATH))


class ConfigReader(Protocol):
    """Reads the configuration with `overrides` applied."""

    def __call__(self, *, overrides: Mapping[str, object] | None = None) -> ConfigSource: ...


class EditorProjects:
    """Opens a harness for each folder an editor uses. Must be closed."""

    def __init__(self, read_config: ConfigReader, *, read_only: bool) -> None:
        self._read_config = read_config
        self._read_only = read_only
        self._projects: dict[Path, EditorProject] = {}
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def open(self, folder: str) -> EditorProject:
        """Return the project in `folder`.

        Raises:
            InvalidRequest: The folder cannot be mounted; the text says why.
        """
        path = await asyncio.to_thread(check_folder, folder)
        async with self._opening:
            if path not in self._projects:
                self._projects[path] = EditorProject(path, await self._open(path), self._read_only)
            return self._projects[path]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for project in self._projects.values():
            await stop_runs(project.harness)
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
        mounts.append({"host_path": str(path), "container_path": MOUNT_PATH, "read_only": self._read_only})
        overrides: Mapping[str, object] = {"sandbox": {"mounts": mounts}}
        source = await asyncio.to_thread(self._read_config, overrides=overrides)
        return await self._stack.enter_async_context(open_harness(source))


def check_folder(folder: str) -> Path:
    """Return the resolved folder of an editor.

    Raises:
        InvalidRequest: It does not exist, or is the root folder.
    """
    path = Path(folder)
    if not path.is_absolute() or not path.is_dir():
        raise InvalidRequest(f"cwd must be the absolute path of an existing folder, not {folder!r}")
    path = path.resolve()
    if path == path.parent:
        raise InvalidRequest("cwd must not be the root folder; open a folder inside it")
    return path

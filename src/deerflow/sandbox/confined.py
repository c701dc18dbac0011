"""A sandbox for work that is held to less than the rest."""

from asyncio import Lock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.sandbox import (
    BackgroundOutput,
    BackgroundProcess,
    CommandResult,
    ConfinableSandbox,
    Confinement,
    Found,
    Matches,
    OutputLimits,
    OutputListener,
    Sandbox,
    SandboxLease,
)
from deerflow.sandbox.places import TEMPORARY

NOT_HERE = (
    "the active skill has a contract, and this kind of sandbox cannot hold commands to it, so none is run; "
    "do it with file tools, or tell the user"
)


@dataclass(frozen=True, slots=True)
class ConfinedLease:
    """A run's claim on its sandbox, as far as confined work may use it."""

    lease: SandboxLease
    to: Confinement

    @property
    def limits(self) -> OutputLimits:
        return self.lease.limits

    @property
    def sandbox_id(self) -> str | None:
        return self.lease.sandbox_id

    async def sandbox(self) -> Sandbox:
        sandbox = await self.lease.sandbox()
        return sandbox.confined(self.to) if isinstance(sandbox, ConfinableSandbox) else FilesOnly(sandbox, self.to)

    def lock(self, path: str) -> Lock:
        return self.lease.lock(path)


@dataclass(frozen=True, slots=True)
class FilesOnly:
    """A sandbox whose provider knows nothing of confinement: files can be had, and no command is run."""

    inner: Sandbox
    to: Confinement

    @property
    def id(self) -> str:
        return self.inner.id

    async def execute_command(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        on_output: OutputListener | None = None,
    ) -> CommandResult:
        raise SandboxError(NOT_HERE)

    async def read_file(self, path: str) -> str:
        return await self.inner.read_file(path)

    async def write_file(self, path: str, content: str, append: bool = False) -> None:
        self._check(path)
        await self.inner.write_file(path, content, append)

    async def update_file(self, path: str, content: bytes) -> None:
        self._check(path)
        await self.inner.update_file(path, content)

    async def download(self, path: str) -> bytes:
        return await self.inner.download(path)

    async def list_dir(self, path: str, max_depth: int = 2, max_results: int = 1000) -> Found:
        return await self.inner.list_dir(path, max_depth, max_results)

    async def glob(self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200) -> Found:
        return await self.inner.glob(path, pattern, include_dirs=include_dirs, max_results=max_results)

    async def grep(
        self,
        path: str,
        pattern: str,
        *,
        glob: str | None = None,
        literal: bool = False,
        case_sensitive: bool = False,
        max_results: int = 100,
    ) -> Matches:
        return await self.inner.grep(
            path, pattern, glob=glob, literal=literal, case_sensitive=case_sensitive, max_results=max_results
        )

    async def start_process(self, name: str, command: str, *, env: Mapping[str, str] | None = None) -> None:
        raise SandboxError(NOT_HERE)

    async def process_output(self, name: str) -> BackgroundOutput:
        return await self.inner.process_output(name)

    async def kill_process(self, name: str) -> BackgroundOutput:
        return await self.inner.kill_process(name)

    async def list_processes(self) -> Sequence[BackgroundProcess]:
        return await self.inner.list_processes()

    def _check(self, path: str) -> None:
        if self.to.writable is None:
            return
        folders = (*self.to.writable, TEMPORARY)
        if ".." in path.split("/") or not any(path.startswith(f"{folder}/") for folder in folders):
            raise FileProblem(f"{path!r}: it is read-only; write to another folder")

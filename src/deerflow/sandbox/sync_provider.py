"""Adapter for sandbox providers with synchronous methods: `acquire`, `get` and `release`, and sandboxes that block."""

import asyncio
import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from deerflow.config.imports import load_class, load_object
from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.errors import ConfigError, FileProblem, SandboxError
from deerflow.domain.sandbox import (
    BackgroundOutput,
    BackgroundProcess,
    CommandResult,
    GrepMatch,
    GrepMatches,
    OutputListener,
    PathListing,
    Sandbox,
)
from deerflow.sandbox.sandbox_provider import HostContext, SandboxComponent, SandboxProvider, SandboxReport

PROVIDER_METHODS = ("acquire", "get", "release")
SANDBOX_METHODS = ("execute_command", "read_file", "write_file", "list_dir", "glob", "grep", "update_file")
NO_BACKGROUND = "this sandbox provider cannot run background processes; run the command in the foreground"
TIMED_OUT_CODE = 124
FOREIGN_ERRORS = (OSError, ValueError, LookupError, TypeError, RuntimeError)
"""Errors of code that knows nothing of ours; the text is shown to the model."""

CreateProvider = Callable[[SandboxConfig, HostContext], SandboxProvider]
T = TypeVar("T")


def load_provider(path: str) -> CreateProvider:
    """Return a function that creates the provider that `sandbox.use` names.

    Raises:
        ConfigError: It is not a sandbox provider; the text names the methods that are missing.
    """
    found = load_object(path)
    if not isinstance(found, type) or not is_synchronous(found):
        return load_class(path, SandboxProvider)  # type: ignore[type-abstract]  # nothing abstract is created
    if missing := find_missing_methods(found, SandboxProvider, PROVIDER_METHODS):
        raise ConfigError(f"{path!r} is not a sandbox provider: it has no {', no '.join(missing)}")
    return partial(SyncSandboxProvider, found)


def is_synchronous(found: type) -> bool:
    """Return True if a class has one of the methods of a provider, and it does not return a coroutine."""
    own = [getattr(found, name, None) for name in PROVIDER_METHODS]
    return any(callable(method) and not inspect.iscoroutinefunction(method) for method in own)


def find_missing_methods(found: type, base: type, names: Iterable[str]) -> list[str]:
    """Return the methods that a class neither defines nor inherits; those of the protocol itself do nothing."""
    return [name for name in names if getattr(found, name, None) in (None, getattr(base, name))]


class SyncSandboxProvider:
    """Provider that calls another one in threads."""

    def __init__(self, provider: type, config: SandboxConfig, host: HostContext) -> None:
        self._name = f"{provider.__module__}:{provider.__qualname__}"
        self._config = config
        self._provider = create_provider(provider, config, host)

    async def open(self) -> SandboxReport:
        return SandboxReport("container", f"commands run in the sandboxes of {self._name}")

    async def prepare(self) -> None:
        """Do nothing: such a provider prepares a sandbox when it is acquired."""

    async def components(self) -> Sequence[SandboxComponent]:
        return ()

    async def acquire(self, thread_id: str, user_id: str) -> str:
        user = {"user_id": user_id} if accepts(self._provider.acquire, "user_id") else {}
        return str(await call(partial(self._provider.acquire, thread_id, **user)))

    async def get(self, sandbox_id: str) -> Sandbox | None:
        found = await call(partial(self._provider.get, sandbox_id))
        if found is None:
            return None
        if missing := find_missing_methods(type(found), Sandbox, SANDBOX_METHODS):
            raise SandboxError(f"the sandboxes of {self._name} have no {', no '.join(missing)}")
        return SyncSandbox(sandbox_id, found, self._config.bash_command_timeout)

    async def release(self, sandbox_id: str) -> None:
        await call(partial(self._provider.release, sandbox_id))

    async def discard(self, thread_id: str, user_id: str) -> None:
        await self.release(await self.acquire(thread_id, user_id))

    async def aclose(self) -> None:
        shutdown = getattr(self._provider, "shutdown", None)
        if callable(shutdown):
            await call(shutdown)


def create_provider(provider: Callable[..., Any], config: SandboxConfig, host: HostContext) -> Any:
    """Create a provider with as many of the two arguments as its constructor takes.

    Raises:
        ConfigError: It needs other arguments, or fails.
    """
    for arguments in ((config, host), (config,), ()):
        try:
            inspect.signature(provider).bind(*arguments)
        except TypeError:
            continue
        try:
            return provider(*arguments)
        except FOREIGN_ERRORS as problem:
            raise ConfigError(f"sandbox.use: the provider cannot be created: {problem}") from problem
    raise ConfigError("sandbox.use: the constructor of the provider may take the configuration, and nothing else")


@dataclass(frozen=True, slots=True)
class SyncSandbox:
    """Sandbox that calls another one in threads."""

    id: str
    sandbox: Any
    timeout_s: float

    async def execute_command(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        on_output: OutputListener | None = None,
    ) -> CommandResult:
        """Run a command. Its exit code is unknown, so it is 0; the output tells."""
        limit = min(timeout_s or self.timeout_s, self.timeout_s)
        run = self.sandbox.execute_command
        if env and accepts(run, "env"):
            work = partial(run, command, env=dict(env))
        else:
            exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in (env or {}).items())
            work = partial(run, exports + command)
        try:
            async with asyncio.timeout(limit):
                output = str(await call(work) or "")
        except TimeoutError:
            return CommandResult(f"[no answer after {limit:g} s]", TIMED_OUT_CODE, timed_out=True)
        if on_output is not None and output:
            on_output(output)
        return CommandResult(output, 0)

    async def read_file(self, path: str) -> str:
        return str(await call(partial(self.sandbox.read_file, path)))

    async def write_file(self, path: str, content: str, append: bool = False) -> None:
        await call(partial(self.sandbox.write_file, path, content, append))

    async def update_file(self, path: str, content: bytes) -> None:
        await call(partial(self.sandbox.update_file, path, content))

    async def download(self, path: str) -> bytes:
        """Return the bytes of a file; a sandbox without `download_file` has text files only."""
        download = getattr(self.sandbox, "download_file", None)
        if callable(download):
            return bytes(await call(partial(download, path)))
        return (await self.read_file(path)).encode()

    async def list_dir(self, path: str, max_depth: int = 2, max_results: int = 1000) -> PathListing:
        paths, _ = split_result(await call(partial(self.sandbox.list_dir, path, max_depth)))
        return PathListing([str(each) for each in paths[:max_results]], len(paths) > max_results)

    async def glob(self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200) -> PathListing:
        search = partial(self.sandbox.glob, path, pattern, include_dirs=include_dirs, max_results=max_results)
        paths, truncated = split_result(await call(search))
        return PathListing([str(each) for each in paths], truncated)

    async def grep(
        self,
        path: str,
        pattern: str,
        *,
        glob: str | None = None,
        literal: bool = False,
        case_sensitive: bool = False,
        max_results: int = 100,
    ) -> GrepMatches:
        options = {"glob": glob, "literal": literal, "case_sensitive": case_sensitive, "max_results": max_results}
        found, truncated = split_result(await call(partial(self.sandbox.grep, path, pattern, **options)))
        return GrepMatches([GrepMatch(each.path, each.line_number, each.line) for each in found], truncated)

    async def start_process(self, name: str, command: str, *, env: Mapping[str, str] | None = None) -> None:
        raise SandboxError(NO_BACKGROUND)

    async def process_output(self, name: str) -> BackgroundOutput:
        raise SandboxError(NO_BACKGROUND)

    async def kill_process(self, name: str) -> BackgroundOutput:
        raise SandboxError(NO_BACKGROUND)

    async def list_processes(self) -> Sequence[BackgroundProcess]:
        return ()


async def call(work: Callable[[], T]) -> T:
    """Return the result of a blocking call.

    Raises:
        FileProblem: There is no such file, or access is denied.
        SandboxError: The call failed.
    """
    try:
        return await asyncio.to_thread(work)
    except (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError) as problem:
        raise FileProblem(str(problem)) from problem
    except FOREIGN_ERRORS as problem:
        raise SandboxError(str(problem) or type(problem).__name__) from problem


def split_result(found: Any) -> tuple[list[Any], bool]:
    """Return the entries of a result and whether there are more; some sandboxes return the entries alone."""
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], bool):
        return list(found[0]), found[1]
    return list(found), False


def accepts(function: Callable[..., Any], parameter: str) -> bool:
    """Return True if a function has a parameter of this name."""
    return parameter in inspect.signature(function).parameters

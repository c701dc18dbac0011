"""`deerflow` command: one table of subcommands, each loaded on use, and what makes loading them fast."""

import dataclasses
import errno
import gc
import marshal
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from threading import RLock, local
from types import CodeType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Annotated, TypeAlias

from deerflow.cli import load_channels, load_policy

if TYPE_CHECKING:
    import typer

READ_ONLY = "make it writable for this user, or set DEER_FLOW_HOME to another folder"
FULL = "free some space, or set DEER_FLOW_HOME to another disk"
REMEDIES: Mapping[int, str] = MappingProxyType(
    {errno.ENOSPC: FULL, errno.EDQUOT: FULL, errno.EROFS: READ_ONLY, errno.EACCES: READ_ONLY, errno.EPERM: READ_ONLY}
)
"""Advice for failures to write a file, by error number."""

UNUSED_MODULES = ("httpx._main", "uvicorn.supervisors.watchfilesreload")
"""Command line of httpx, which loads Rich and Pygments, and automatic reload of uvicorn, which loads watchfiles: 5 MB.

Both libraries have a replacement for environments in which these modules cannot be imported.
"""

DEFERRED_PACKAGES = frozenset({"langgraph_sdk", "langsmith.types", "psutil"})
"""Packages of which little or nothing is needed, and whose import is large: HTTP and WebSocket clients, types of
an API, and figures of the operating system that LangSmith adds to traces."""

FALLBACKS: Mapping[str, str] = MappingProxyType({"langsmith._httpx": "httpx2"})
"""Modules with a package that they prefer, but do without: LangSmith then uses httpx, which web tools import anyway."""

KEY_BYTES = 16
"""Length of the hash of generated source text, and of that of the file with its bytecode."""

Command: TypeAlias = "Callable[..., None] | typer.Typer"


def main() -> None:
    """Run the command line of this process."""
    skip_unused_modules()
    # Imported modules are never freed. Collecting garbage among them takes a tenth of the start-up time.
    gc.disable()
    with keep_generated_code(locate_generated_code(select_commands(sys.argv[1:]))):
        app = build_app(sys.argv[1:])
    gc.freeze()
    gc.enable()
    run(app)


def skip_unused_modules() -> None:
    """Let imports of unused modules fail, and defer the packages of which most is unused."""
    for name in UNUSED_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    sys.meta_path[:0] = [DeferredPackageFinder(), FallbackFinder()]


class DeferredPackageFinder(MetaPathFinder):
    """Finds deferred packages: their `__init__` is executed when an attribute of theirs is used for the first time."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in DEFERRED_PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = DeferredLoader(spec.loader)
        return spec


class DeferredLoader(Loader):
    """Loader that executes a module when an attribute is missing."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        loading = RLock()

        def load(name: str) -> object:
            with loading:
                if vars(module).get("__getattr__") is load:
                    del module.__getattr__
                    self._loader.exec_module(module)
            return getattr(module, name)

        module.__getattr__ = load  # type: ignore[method-assign]


class FallbackFinder(MetaPathFinder):
    """Finds modules that prefer a package: for them, and in their thread only, it is missing unless it is loaded."""

    def __init__(self) -> None:
        self._thread = local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == getattr(self._thread, "missing", None):
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        if fullname not in FALLBACKS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = FallbackLoader(spec.loader, self._thread)
        return spec


class FallbackLoader(Loader):
    """Loader that executes a module without the package that it prefers."""

    def __init__(self, loader: Loader, thread: local) -> None:
        self._loader = loader
        self._thread = thread

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._thread.missing = FALLBACKS[module.__name__]
        try:
            self._loader.exec_module(module)
        finally:
            del self._thread.missing


def locate_generated_code(commands: Sequence[str]) -> Path | None:
    """Return the file of the generated bytecode of a command, next to that of modules; None for several commands."""
    if len(commands) != 1:
        return None
    return Path(cache_from_source(__file__)).with_name(f"{commands[0]}.{sys.implementation.cache_tag}.dataclasses")


@contextmanager
def keep_generated_code(file: Path | None) -> Iterator[None]:
    """Keep the methods that `dataclasses` generates in this block in `file`, and take them from there the next time.

    It compiles them with every import otherwise: of `serve` 2,000, which is a fifth of the start.
    """
    if file is None:
        yield
        return
    code = GeneratedCode(file)
    vars(dataclasses)["exec"] = code.execute  # the module finds it before the built-in function
    try:
        yield
    finally:
        del vars(dataclasses)["exec"]
        code.save()


class GeneratedCode:
    """Bytecode of generated source text. A damaged file, or one of another Python, is replaced."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known = self._read()
        self._used: dict[bytes, CodeType] = {}
        self.compiled = 0
        """Number of texts that were not in the file."""

    def execute(self, text: str, names: dict[str, object], results: dict[str, object]) -> None:
        """Execute source text as `exec` does."""
        key = blake2b(text.encode(), digest_size=KEY_BYTES).digest()
        code = self._known.get(key)
        if code is None:
            code = compile(text, "<string>", "exec", dont_inherit=True)
            self.compiled += 1
        self._used[key] = code
        exec(code, names, results)

    def save(self) -> None:
        """Write what was executed, if the file lacks some of it and bytecode may be written."""
        if not self.compiled or sys.dont_write_bytecode:
            return
        content = marshal.dumps(self._used)
        new = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        with suppress(OSError):  # the package may be read-only
            try:
                new.write_bytes(MAGIC_NUMBER + blake2b(content, digest_size=KEY_BYTES).digest() + content)
                new.replace(self._file)
            finally:
                new.unlink(missing_ok=True)

    def _read(self) -> Mapping[bytes, CodeType]:
        try:
            content = self._file.read_bytes()
        except OSError:
            return {}
        head = len(MAGIC_NUMBER) + KEY_BYTES
        digest = blake2b(memoryview(content)[head:], digest_size=KEY_BYTES).digest()
        if content[:head] != MAGIC_NUMBER + digest:
            return {}
        known: dict[bytes, CodeType] = marshal.loads(memoryview(content)[head:])
        return known


def run(app: "typer.Typer") -> None:
    """Run the command; print errors of DeerFlow and of writing files as one line, and exit with code 1."""
    import typer

    from deerflow.domain.errors import DeerFlowError

    try:
        app()
    except DeerFlowError as error:
        message = str(error)
    except OSError as error:
        if error.errno is None or error.errno not in REMEDIES or error.filename is None:
            raise
        message = f"{error.filename!r}: {error.strerror}; {REMEDIES[error.errno]}"
    else:
        return
    with suppress(OSError):  # a full device: the exit code still tells
        typer.echo(f"deerflow: {message}", err=True)
    sys.exit(1)


def build_app(arguments: Sequence[str]) -> "typer.Typer":
    """Return the command for `arguments`: only the named subcommand is loaded, all of them for the help."""
    import typer

    app = typer.Typer(
        name="deerflow", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )  # fmt: skip
    add_options(app)
    for name in select_commands(arguments):
        command = COMMANDS[name]()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def select_commands(arguments: Sequence[str]) -> Sequence[str]:
    """Return the names of the subcommands that `arguments` need."""
    first = arguments[0] if arguments else ""
    if first == "--version":
        return ()
    return (first,) if first in COMMANDS else tuple(COMMANDS)


def add_options(app: "typer.Typer") -> None:
    """Add the options of the command itself."""
    import typer

    from deerflow import __version__

    def print_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"deerflow {__version__}")
            raise typer.Exit

    version_option = typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")

    @app.callback()
    def options(version: Annotated[bool, version_option] = False) -> None:
        """Super agent harness: a lead agent with its own sandbox, run by a durable runtime."""


def load_serve() -> Command:
    """Load `deerflow serve`."""
    from deerflow.cli.serve import serve

    return serve


def load_chat() -> Command:
    """Load `deerflow chat`."""
    from deerflow.cli.chat import chat

    return chat


def load_doctor() -> Command:
    """Load `deerflow doctor`."""
    from deerflow.cli.doctor import doctor

    return doctor


def load_db() -> Command:
    """Load `deerflow db`."""
    from deerflow.cli.doctor import db

    return db


def load_mcp() -> Command:
    """Load `deerflow mcp`."""
    from deerflow.cli.chat import mcp

    return mcp


def load_acp() -> Command:
    """Load `deerflow acp`."""
    from deerflow.cli.chat import acp

    return acp


def load_runs() -> Command:
    """Load `deerflow runs`."""
    from deerflow.cli.runs import runs

    return runs


def load_threads() -> Command:
    """Load `deerflow threads`."""
    from deerflow.cli.runs import threads

    return threads


def load_models() -> Command:
    """Load `deerflow models`."""
    from deerflow.cli.models import app

    return app


def load_users() -> Command:
    """Load `deerflow users`."""
    from deerflow.cli.users import app

    return app


def load_config() -> Command:
    """Load `deerflow config`."""
    from deerflow.cli.config import app

    return app


def load_skills() -> Command:
    """Load `deerflow skills`."""
    from deerflow.cli.skills import app

    return app


def load_memory() -> Command:
    """Load `deerflow memory`."""
    from deerflow.cli.memory import app

    return app


def load_audit() -> Command:
    """Load `deerflow audit`."""
    from deerflow.cli.users import audit

    return audit


COMMANDS: Mapping[str, Callable[[], Command]] = MappingProxyType(
    {
        "serve": load_serve,
        "chat": load_chat,
        "doctor": load_doctor,
        "db": load_db,
        "mcp": load_mcp,
        "acp": load_acp,
        "runs": load_runs,
        "threads": load_threads,
        "models": load_models,
        "channels": load_channels,
        "users": load_users,
        "audit": load_audit,
        "config": load_config,
        "skills": load_skills,
        "memory": load_memory,
        "policy": load_policy,
    }
)
"""Subcommands, in the order of the help."""

"""`deerflow` command: one table of subcommands, each loaded on use."""

import errno
import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Annotated, TypeAlias

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

DEFERRED_PACKAGES = frozenset({"langgraph_sdk", "langsmith.types"})
"""Packages of which one small module is needed, and whose `__init__` imports a hundred: HTTP and WebSocket clients, and
the types of an API."""

Command: TypeAlias = "Callable[..., None] | typer.Typer"


def main() -> None:
    """Run the command line of this process."""
    skip_unused_modules()
    # Imported modules are never freed. Collecting garbage among them takes a tenth of the start-up time.
    gc.disable()
    app = build_app(sys.argv[1:])
    gc.freeze()
    gc.enable()
    run(app)


def skip_unused_modules() -> None:
    """Let imports of unused modules fail, and defer the packages of which most is unused."""
    for name in UNUSED_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    sys.meta_path.insert(0, DeferredPackageFinder())


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


def load_policy() -> Command:
    """Load `deerflow policy`."""
    from deerflow.cli.policy import app

    return app


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
        "users": load_users,
        "audit": load_audit,
        "config": load_config,
        "skills": load_skills,
        "memory": load_memory,
        "policy": load_policy,
    }
)
"""Subcommands, in the order of the help."""

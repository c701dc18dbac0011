"""`deerflow doctor` and `deerflow db`: check the installation and its database, suggest fixes and repair."""

import asyncio
import platform
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from deerflow.agents.pool import is_scripted
from deerflow.config.load import LoadedConfig, load
from deerflow.config.sections.models import ModelConfig
from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import ConfigError, DeerFlowError
from deerflow.domain.identity import LOCAL_USER
from deerflow.gateway.app import STATIC
from deerflow.harness.core import create_sandboxes, find_fallback_models, merge_models, open_saved_models
from deerflow.mcp.status import find_ignored_settings
from deerflow.models.factory import ModelCatalog
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.liveness import is_any_locked
from deerflow.persistence.engine.maintenance import check_file, repair_file
from deerflow.persistence.engine.sqlite import locate_checkpoints
from deerflow.skills.authoring.lock import find_externally_changed_skills
from deerflow.tracing.logs import is_langsmith_enabled, read_langsmith_settings

MODEL_LIMIT_S = 30.0
NEEDED_BYTES = 500_000_000
MAX_LISTED = 10
MARKS = {"ok": "[green]✓[/]", "note": "[yellow]![/]", "failed": "[red]✗[/]"}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check."""

    subject: str
    state: Literal["ok", "note", "failed"]
    text: str
    remedy: str | None = None


def doctor(config: Annotated[Path | None, typer.Option(help="Configuration file.")] = None) -> None:
    """Check configuration, model, sandbox, disk, port and versions; exit with code 1 if a check fails."""
    sys.exit(asyncio.run(report(config, Console(highlight=False, soft_wrap=True))))


async def report(config: Path | None, console: Console) -> int:
    """Print each result and return the exit code."""
    failed = False
    async for result in run_checks(config):
        failed |= result.state == "failed"
        console.print(f"{MARKS[result.state]} {result.subject}: ", end="")
        console.print(result.text, markup=False)
        if result.remedy:
            console.print(f"  → {result.remedy}", markup=False)
    return int(failed)


async def run_checks(config: Path | None) -> AsyncIterator[CheckResult]:
    """Run all checks and yield their results."""
    yield check_versions()
    yield check_page()
    try:
        source = open_source(config)
    except ConfigError as problem:
        yield CheckResult("configuration", "failed", str(problem), "fix the file, then run `deerflow config check`")
        return
    loaded = source.current
    where = loaded.config_file or "no config.yaml; using defaults (`deerflow config init` creates one)"
    yield CheckResult("configuration", "ok", str(where))
    yield await check_model(source)
    async for result in check_sandbox(loaded):
        yield result
    for result in check_servers(loaded):
        yield result
    yield await asyncio.to_thread(check_skills, loaded)
    yield check_tracing(loaded.environment)
    yield check_disk(loaded.home)
    yield check_port(loaded.config.server.host, loaded.config.server.port)


def check_versions() -> CheckResult:
    """Return the versions in use."""
    parts = ", ".join(f"{name} {version(name)}" for name in ("deerflow", "langchain", "langgraph"))
    return CheckResult("versions", "ok", f"{parts}, Python {platform.python_version()} on {platform.system()}")


def check_page() -> CheckResult:
    """Check that the web page is built."""
    if (STATIC / "index.html").is_file():
        return CheckResult("web page", "ok", "built")
    return CheckResult("web page", "failed", "not built", "run `make web`")


async def check_model(source: ConfigSource) -> CheckResult:
    """Check that the default model answers."""
    loaded = source.current
    try:
        saved = await read_saved_models(source)
    except DeerFlowError as problem:
        return CheckResult("model", "failed", f"saved models cannot be read: {problem}", "run `deerflow db check`")
    catalog = ModelCatalog(merge_models(loaded.config.models, saved, await find_fallback_models(loaded)))
    model = catalog.default
    if is_scripted(model):
        remedy = (
            "connect one in the page or with `deerflow models add`, set a key such as OPENAI_API_KEY, or start Ollama"
        )
        return CheckResult("model", "note", "only the built-in demo model with scripted answers", remedy)
    try:
        async with asyncio.timeout(MODEL_LIMIT_S):
            await catalog.create(model.name).ainvoke("Answer with the word ok.")
    except (DeerFlowError, TimeoutError) as problem:
        reason = str(problem) or f"no answer within {MODEL_LIMIT_S:g} s"
        is_saved = model in saved
        remedy = (
            f"run `deerflow models test {model.name}`" if is_saved else "check its key, address and name in config.yaml"
        )
        return CheckResult("model", "failed", f"{model.name!r}: {reason}", remedy)
    finally:
        await catalog.aclose()
    return CheckResult("model", "ok", f"{model.name!r} answers")


async def read_saved_models(source: ConfigSource) -> Sequence[ModelConfig]:
    """Return the models that the local user has saved; a database is not created for it."""
    loaded = source.current
    location = loaded.config.database.get_location(loaded.home)
    if isinstance(location, Path) and not location.exists():
        return ()
    async with open_database(location, loaded.home) as database:
        saved = open_saved_models(source, database)
        await saved.refresh()
        return saved.get(LOCAL_USER.user_id)


async def check_sandbox(loaded: LoadedConfig) -> AsyncIterator[CheckResult]:
    """Check the isolation of commands, each resource limit and the components."""
    try:
        provider = create_sandboxes(loaded)
    except ConfigError as problem:
        yield CheckResult("sandbox", "failed", str(problem), "set a valid provider, or remove the key")
        return
    try:
        report = await provider.open()
        good = report.tier in ("isolated", "container")
        text = report.detail if report.problem is None else f"{report.detail} ({report.problem})"
        yield CheckResult("sandbox", "ok" if good else "note", f"{report.tier}: {text}", report.remedy)
        for limit in report.limits:
            by = f"by {limit.enforced_by}" if limit.enforced_by else "not enforced"
            yield CheckResult(f"limit of {limit.name}", "ok" if limit.enforced_by else "note", f"{limit.value}, {by}")
        for part in await provider.components():
            yield CheckResult(part.name, part.state, part.detail, part.remedy)
    finally:
        await provider.aclose()


def check_servers(loaded: LoadedConfig) -> Iterator[CheckResult]:
    """Yield a note for each unsupported setting of an MCP server."""
    for name, server in loaded.extensions.mcp_servers.items():
        for sentence in find_ignored_settings(server):
            yield CheckResult(f"MCP server {name!r}", "note", sentence, "remove it from extensions_config.json")


def check_skills(loaded: LoadedConfig) -> CheckResult:
    """Check the custom skills of all users for changes made outside DeerFlow."""
    changed = [
        f"{skill} of {owner}: {what}"
        for owner, skill, changes in find_externally_changed_skills(loaded.home)
        for what in changes[:MAX_LISTED]
    ]
    if not changed:
        return CheckResult("custom skills", "ok", "unchanged")
    more = f"; and {len(changed) - MAX_LISTED} more" if len(changed) > MAX_LISTED else ""
    remedy = "they stay enabled; review the files, and delete or reinstall the skill if the change was not expected"
    return CheckResult("custom skills", "note", "; ".join(changed[:MAX_LISTED]) + more, remedy)


def check_tracing(environment: Mapping[str, str]) -> CheckResult:
    """Check the settings of LangSmith; nothing is sent."""
    settings = read_langsmith_settings(environment)
    if settings is not None:
        return CheckResult("tracing", "ok", f"LangSmith at {settings.url}, project {settings.project!r}")
    if is_langsmith_enabled(environment):
        return CheckResult("tracing", "note", "on, but LANGSMITH_API_KEY is not set", "set it in .env")
    return CheckResult("tracing", "ok", "off")


def check_disk(home: Path) -> CheckResult:
    """Check the free disk space of the state directory."""
    place = next(path for path in (home, *home.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    text = f"{free / 1e9:.1f} GB free for {home}"
    if free < NEEDED_BYTES:
        return CheckResult("disk", "failed", text, "free disk space, or set DEER_FLOW_HOME to another disk")
    return CheckResult("disk", "ok", text)


def check_port(host: str, port: int) -> CheckResult:
    """Check that the port is free."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            remedy = f"if DeerFlow is not running, choose another port: make start PORT={port + 1}"
            return CheckResult("port", "note", f"{host}:{port} is not available: {problem.strerror}", remedy)
    return CheckResult("port", "ok", f"{host}:{port} is free")


db = typer.Typer(no_args_is_help=True, help="Check and repair the database.")
ConfigOption = Annotated[Path | None, typer.Option(help="Configuration file.")]


@db.command("check")
def check_database(config: ConfigOption = None) -> None:
    """Check the database for damage; exit with code 1 if there is any."""
    loaded = load(config)
    location = loaded.config.database.get_location(loaded.home)
    if isinstance(location, str):
        asyncio.run(open_once(location, loaded.home))
        typer.echo("ok: the server answers and has the expected tables; PostgreSQL checks its files itself")
        return
    is_damaged = False
    for file in (location, locate_checkpoints(location)):
        problems = check_file(file)
        is_damaged |= bool(problems)
        typer.echo(f"{file}: {'damaged' if problems else 'ok'}")
        for problem in problems:
            typer.echo(f"  {problem}")
    if is_damaged:
        typer.echo("Restore a backup, or stop the server and run: deerflow db repair")
        sys.exit(1)


async def open_once(location: str, home: Path) -> None:
    """Open the database and close it."""
    async with open_database(location, home):
        pass


@db.command("repair")
def repair_database(config: ConfigOption = None) -> None:
    """Rebuild damaged database files from all rows that can be read; a copy of each is kept."""
    loaded = load(config)
    location = loaded.config.database.get_location(loaded.home)
    if isinstance(location, str):
        raise ConfigError("PostgreSQL is repaired with its own tools; see its manual on data corruption and backups")
    if is_any_locked(location.parent / "processes"):
        raise ConfigError("a server uses the database; stop it first")
    for file in (location, locate_checkpoints(location)):
        if not file.exists() or not check_file(file):
            typer.echo(f"{file}: nothing to repair")
            continue
        done = repair_file(file)
        typer.echo(f"{file}: {sum(done.kept.values())} rows kept; the damaged file is {done.copy.name}")
        for table in done.incomplete:
            typer.echo(f"  {table}: a part could not be read and is lost")

"""`deerflow config`: write, show and check the configuration."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from deerflow.cli.migrate import convert_files, find_data, read_settings, take_over
from deerflow.cli.migration import report, write_files
from deerflow.config.imports import load_class
from deerflow.config.load import (
    CONFIG_NAME,
    LoadedConfig,
    discover,
    find_config_path,
    load,
    read_example_config,
    read_process_environment,
)
from deerflow.config.loader.document import ConfigProblem, InvalidConfig, KeyPath
from deerflow.config.loader.files import replace_file
from deerflow.config.loader.validation import mask
from deerflow.config.sections.memory import LEDGER_STORAGE
from deerflow.config.source import ConfigSource
from deerflow.domain.errors import ConfigError
from deerflow.domain.identity import LOCAL_USER
from deerflow.guardrails.providers import load_provider_class
from deerflow.harness.core import open_skill_index
from deerflow.memory.service import MemoryStorage
from deerflow.models.factory import choose_class
from deerflow.sandbox.sync_provider import load_provider
from deerflow.tools.assembly import load_tool

app = typer.Typer(help="Write, show and check the configuration.", no_args_is_help=True)

ConfigOption = Annotated[Path | None, typer.Option("--config", help="Configuration file to use.")]


@app.command()
def init(
    path: Annotated[Path | None, typer.Option(help="File to write; default: the default location.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a config.yaml with comments for every setting."""
    with _one_sentence_on_failure():
        file = find_config_path() if path is None else path
        if file.exists() and not force:
            raise ConfigError(f"{file} already exists; use --force to overwrite it")
        replace_file(file, read_example_config())
        typer.echo(f"wrote {file}")


@app.command()
def show(config: ConfigOption = None) -> None:
    """Print the effective configuration with the source of each section; secrets are masked."""
    with _one_sentence_on_failure():
        loaded = load(config)
        typer.echo(describe(loaded), nl=False)


@app.command()
def check(config: ConfigOption = None) -> None:
    """Check the configuration; errors name the file, line and key."""
    with _one_sentence_on_failure():
        loaded = load(config)
        if problems := list(find_invalid_objects(loaded)):
            raise InvalidConfig(problems)
        if loaded.config_file is None:
            typer.echo(f"no {CONFIG_NAME}; using defaults")
        else:
            typer.echo(f"{loaded.config_file.name} is valid")
        if loaded.extensions_file.exists():
            typer.echo(f"{loaded.extensions_file.name} is valid")
        for name in find_unknown_skills(loaded):
            typer.echo(f"{loaded.extensions_file.name}: skills.{name}: no skill has this name")


@app.command()
def migrate(
    path: Annotated[Path | None, typer.Argument(help="config.yaml of the public DeerFlow; default: ours.")] = None,
    home: Annotated[Path | None, typer.Option(help="State directory of the public DeerFlow.")] = None,
    user: Annotated[str | None, typer.Option(help="User whose skills, agents, memory and threads are taken.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report; write nothing.")] = False,
) -> None:
    """Take over the configuration and data of the public DeerFlow. Old files are kept."""
    with _one_sentence_on_failure():
        file = (find_config_path() if path is None else path).absolute()
        found = discover(file.parent, read_process_environment())
        data = find_data(file, found.home, home, user)
        converted = convert_files(file, data, found.home)
        for line in report(converted):
            typer.echo(line)
        if dry_run:
            return
        for line in write_files(converted):
            typer.echo(line)
        if data is not None:
            asyncio.run(print_lines(take_over(data, read_settings(file), found.variables)))
        typer.echo("check the result with: deerflow config check")


async def print_lines(lines: AsyncIterator[str]) -> None:
    """Print each line as it comes."""
    async for line in lines:
        typer.echo(line)


def find_invalid_objects(loaded: LoadedConfig) -> Iterator[ConfigProblem]:
    """Import the classes and functions that the configuration names; yield a problem for each that cannot be used."""
    config = loaded.config
    checks: list[tuple[KeyPath, Callable[[], object]]] = [
        *(
            (("models", at, "use"), partial(choose_class, each, each.provider_settings))
            for at, each in enumerate(config.models)
        ),
        *((("tools", at, "use"), partial(load_tool, each)) for at, each in enumerate(config.tools)),
        (("sandbox", "use"), partial(load_provider, config.sandbox.use)),
    ]
    if config.memory.storage_class != LEDGER_STORAGE:
        checks.append((("memory", "storage_class"), partial(check_class, config.memory.storage_class, MemoryStorage)))
    if (provider := config.guardrails.provider) is not None:
        checks.append((("guardrails", "provider", "use"), partial(load_provider_class, provider)))
    for path, check_object in checks:
        try:
            check_object()
        except ConfigError as problem:
            yield loaded.document.make_problem(path, str(problem))


def find_unknown_skills(loaded: LoadedConfig) -> list[str]:
    """Return the names in the section `skills` of the extensions that no skill has. They have no effect."""
    if not loaded.extensions.skills:
        return []
    index = open_skill_index(ConfigSource(loaded, lambda: loaded))
    try:
        return sorted(loaded.extensions.skills.keys() - index.read(LOCAL_USER.user_id).skills.keys())
    finally:
        index.close()


def check_class(path: str, base: Any) -> None:
    """Raise `ConfigError` unless `path` names `base` or a subclass of it."""
    load_class(path, base)


def describe(loaded: LoadedConfig) -> str:
    """Return the effective configuration as YAML, with the source of each section as a comment."""
    document = loaded.document
    settings = mask(loaded.config.model_dump(), document.variables)
    lines = [
        f"# file: {loaded.config_file or 'none'}",
        f"# extensions: {loaded.extensions_file}{'' if loaded.extensions_file.exists() else ' (missing)'}",
        f"# state: {loaded.home}",
    ]
    for name, value in settings.items():
        origin = document.locate((name,)) if name in document.data else "default"
        lines += ["", f"# {origin}", yaml.safe_dump({name: value}, sort_keys=False, allow_unicode=True).rstrip()]
    return "\n".join(lines) + "\n"


@contextmanager
def _one_sentence_on_failure() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None

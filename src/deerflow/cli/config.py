"""`deerflow config`: write, show and check the configuration."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
import yaml

from deerflow.config.example import example_config
from deerflow.config.files import replace_file
from deerflow.config.load import Loaded, config_place, load
from deerflow.config.lookup import CONFIG_NAME
from deerflow.config.reading.secrets import masked
from deerflow.domain.errors import ConfigError

app = typer.Typer(help="Write, show and check the configuration.", no_args_is_help=True)

ConfigOption = Annotated[Path | None, typer.Option("--config", help="Read this file instead of the one found.")]


@app.command()
def init(
    path: Annotated[Path | None, typer.Option(help="Where to write it; by default where it will be found.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")] = False,
) -> None:
    """Write a config.yaml in which every setting is explained."""
    with _one_sentence_on_failure():
        file = config_place() if path is None else path
        if file.exists() and not force:
            raise ConfigError(f"{file} exists already; --force replaces it")
        replace_file(file, example_config())
        typer.echo(f"wrote {file}")


@app.command()
def show(config: ConfigOption = None) -> None:
    """Print the configuration in force, without its secrets, and where each part of it comes from."""
    with _one_sentence_on_failure():
        loaded = load(config)
        typer.echo(describe(loaded), nl=False)


@app.command()
def check(config: ConfigOption = None) -> None:
    """Say whether the configuration is right; what is wrong is named by file, line and key."""
    with _one_sentence_on_failure():
        loaded = load(config)
        if loaded.config_file is None:
            typer.echo(f"there is no {CONFIG_NAME}; the defaults are in force")
        else:
            typer.echo(f"{loaded.config_file.name} is fine")
        if loaded.extensions_file.exists():
            typer.echo(f"{loaded.extensions_file.name} is fine")


def describe(loaded: Loaded) -> str:
    """The configuration in force as YAML, with comments that say where each section comes from."""
    document = loaded.document
    settings = masked(loaded.config.model_dump(), document.variables)
    lines = [
        f"# file: {loaded.config_file or 'none'}",
        f"# extensions: {loaded.extensions_file}{'' if loaded.extensions_file.exists() else ' (not there)'}",
        f"# state: {loaded.home}",
    ]
    for name, value in settings.items():
        origin = document.place((name,)) if name in document.data else "default"
        lines += ["", f"# {origin}", yaml.safe_dump({name: value}, sort_keys=False, allow_unicode=True).rstrip()]
    return "\n".join(lines) + "\n"


@contextmanager
def _one_sentence_on_failure() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None

"""`deerflow config`: write, show and check the configuration."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
import yaml

from deerflow.config.load import CONFIG_NAME, LoadedConfig, find_config_path, load, read_example_config
from deerflow.config.loader.files import replace_file
from deerflow.config.loader.validation import mask
from deerflow.domain.errors import ConfigError

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
        if loaded.config_file is None:
            typer.echo(f"no {CONFIG_NAME}; using defaults")
        else:
            typer.echo(f"{loaded.config_file.name} is valid")
        if loaded.extensions_file.exists():
            typer.echo(f"{loaded.extensions_file.name} is valid")


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

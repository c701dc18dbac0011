"""The `deerflow` command."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from deerflow import __version__
from deerflow.config.imports import load_object
from deerflow.domain.errors import DeerFlowError

COMMANDS = (
    ("serve", "deerflow.cli.serve:serve"),
    ("chat", "deerflow.cli.chat:chat"),
    ("doctor", "deerflow.cli.doctor:doctor"),
    ("mcp", "deerflow.cli.speak:mcp"),
    ("acp", "deerflow.cli.speak:acp"),
    ("runs", "deerflow.cli.runs:app"),
    ("threads", "deerflow.cli.threads:app"),
    ("config", "deerflow.cli.config:app"),
    ("skills", "deerflow.cli.skills:app"),
    ("memory", "deerflow.cli.memory:app"),
    ("policy", "deerflow.cli.policy:app"),
)


def main() -> None:
    """Do what the words on the command line ask for."""
    run(command_for(sys.argv[1:]))


def run(command: typer.Typer) -> None:
    """Run the command; a named error is one sentence and exit code 1."""
    try:
        command()
    except DeerFlowError as problem:
        typer.echo(f"deerflow: {problem}", err=True)
        sys.exit(1)


def command_for(words: Sequence[str]) -> typer.Typer:
    """The command that understands `words`: what others need is not loaded, except where all are listed."""
    app = typer.Typer(
        name="deerflow",
        help="A super agent harness: a lead agent with its own computer, run by a durable runtime.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(options)
    named = [(name, place) for name, place in COMMANDS if name in words[:1]]
    for name, place in named or COMMANDS:
        part = load_object(place)
        if isinstance(part, typer.Typer):
            app.add_typer(part, name=name)
        elif callable(part):
            app.command(name)(part)
    return app


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        typer.echo(f"deerflow {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A super agent harness: a lead agent with its own computer, run by a durable runtime."""

"""The `deerflow` command."""

import sys
from typing import Annotated

import typer

from deerflow import __version__
from deerflow.cli import chat, config, doctor, memory, policy, runs, serve, skills, speak, threads
from deerflow.domain.errors import DeerFlowError

app = typer.Typer(
    name="deerflow",
    help="A super agent harness: a lead agent with its own computer, run by a durable runtime.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("chat")(chat.chat)
app.command("doctor")(doctor.doctor)
app.command("mcp")(speak.mcp)
app.command("acp")(speak.acp)
app.add_typer(runs.app, name="runs")
app.add_typer(threads.app, name="threads")
app.add_typer(config.app, name="config")
app.add_typer(skills.app, name="skills")
app.add_typer(memory.app, name="memory")
app.add_typer(policy.app, name="policy")


def main() -> None:
    """Run the command; a named error is one sentence and exit code 1."""
    try:
        app()
    except DeerFlowError as problem:
        typer.echo(f"deerflow: {problem}", err=True)
        sys.exit(1)


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        typer.echo(f"deerflow {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A super agent harness: a lead agent with its own computer, run by a durable runtime."""

"""`deerflow runs`: what happened in runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from deerflow.cli.timeline import tell_run
from deerflow.config.load import load
from deerflow.domain.principal import LOCAL_USER
from deerflow.persistence.database import open_database
from deerflow.runtime.runs.timeline import Timeline

app = typer.Typer(help="Look at runs.", no_args_is_help=True)

ConfigOption = Annotated[Path | None, typer.Option("--config", help="Read this file instead of the one found.")]


@app.command("list")
def list_runs(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="So many at most.")] = 20, config: ConfigOption = None
) -> None:
    """List the latest runs."""
    asyncio.run(print_latest(limit, config))


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="The id of a run, or how it begins.")], config: ConfigOption = None
) -> None:
    """Print what happened in a run, and when."""
    asyncio.run(print_run(run, config))


async def print_latest(limit: int, config: Path | None) -> None:
    """Print one line per run."""
    async with opened(config) as timeline:
        found = await timeline.latest(LOCAL_USER, limit)
    for run in found:
        typer.echo(f"{run.run_id}  {run.created_at.astimezone():%Y-%m-%d %H:%M:%S}  {run.status:11}  {run.thread_id}")
    if not found:
        typer.echo("there are no runs yet")


async def print_run(beginning: str, config: Path | None) -> None:
    """Print a run as a timeline."""
    async with opened(config) as timeline:
        run = await timeline.find(LOCAL_USER, beginning)
        async for line in tell_run(run, timeline.events(run)):
            typer.echo(line)


@asynccontextmanager
async def opened(config: Path | None) -> AsyncIterator[Timeline]:
    """What is kept, without beginning anything: runs that wait for a server go on waiting."""
    loaded = load(config)
    async with open_database(loaded.config.database.place(loaded.home)) as database:
        yield Timeline(database)

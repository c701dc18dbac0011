"""`deerflow threads`: what was said in threads."""

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from deerflow.cli.runs import ConfigOption
from deerflow.config.load import load
from deerflow.domain.principal import LOCAL_USER
from deerflow.harness.files import all_files
from deerflow.persistence.database import open_database
from deerflow.runtime.export import Exporter, ExportFormat

app = typer.Typer(help="Look at threads.", no_args_is_help=True)


@app.callback()
def options() -> None:
    """Look at threads."""


@app.command()
def export(
    thread_id: Annotated[str, typer.Argument(help="The thread.")],
    form: Annotated[ExportFormat, typer.Option("--format", help="For people or for programs.")] = "markdown",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; else it is printed.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Write a thread as one file."""
    asyncio.run(write_export(thread_id, form, output, config))


async def write_export(thread_id: str, form: ExportFormat, output: Path | None, config: Path | None) -> None:
    """Write a thread to a file or to the terminal."""
    loaded = load(config)
    async with open_database(loaded.config.database.place(loaded.home)) as database:
        exported = await Exporter(database, partial(all_files, loaded.home)).export(thread_id, LOCAL_USER, form)
        content = b"".join([piece async for piece in exported.content])
    if output is None:
        sys.stdout.buffer.write(content)
        return
    await asyncio.to_thread(output.write_bytes, content)
    typer.echo(f"{output}: {len(content)} bytes")

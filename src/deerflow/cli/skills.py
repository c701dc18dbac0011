"""`deerflow skills`: try skills out."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, cast

import typer

from deerflow.cli.runs import ConfigOption
from deerflow.config.imports import load_object

app = typer.Typer(help="Try skills out.", no_args_is_help=True)


@app.callback()
def options() -> None:
    """Try skills out."""


@app.command()
def test(
    skills: Annotated[list[str] | None, typer.Argument(help="Names of skills, or their folders.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Test every built-in skill.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results for a program.")] = False,
    as_custom: Annotated[bool, typer.Option("--custom", help="Show them as skills of the user's own.")] = False,
    config: ConfigOption = None,
) -> None:
    """Run the tests of skills offline, with a scripted model and the real sandbox; exit code 1 when one fails."""
    # Loaded when it is used: what tests need would make every start of the server slower.
    run = cast(Callable[..., Awaitable[int]], load_object("deerflow.cli.skill_tests:test_skills"))

    async def carry_out() -> int:
        return await run(skills or [], config, every=every, as_json=as_json, as_custom=as_custom)

    sys.exit(asyncio.run(carry_out()))

"""`deerflow policy`: try a policy out before it is in force."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, cast

import typer

from deerflow.cli.runs import ConfigOption
from deerflow.config.imports import load_object

app = typer.Typer(help="Try the policy for tool calls out.", no_args_is_help=True)
PolicyOption = Annotated[Path | None, typer.Option("--policy", help="Use this policy instead of the one in force.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the results for a program.")]


@app.command()
def test(
    cases: Annotated[
        Path | None, typer.Argument(help="A file of cases; those of the shipped rules without one.")
    ] = None,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Judge the calls in a file of cases; exit code 1 when one comes out otherwise than expected."""
    sys.exit(carried_out("test_policy", cases, policy, config, as_json))


@app.command("dry-run")
def dry_run(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Of so many of the latest runs.")] = 200,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show which calls of past runs a policy would have asked about or refused. Nothing is run."""
    sys.exit(carried_out("dry_run_policy", limit, policy, config, as_json))


def carried_out(name: str, *arguments: object) -> int:
    """The exit code of a command that is loaded when it is used: a server need not wait for it."""
    run = cast(Callable[..., Awaitable[int]], load_object(f"deerflow.cli.policy_trials:{name}"))

    async def carry_out() -> int:
        return await run(*arguments)

    return asyncio.run(carry_out())

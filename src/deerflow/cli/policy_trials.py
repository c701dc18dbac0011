"""How what a policy makes of calls is told."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from deerflow.cli.runs import opened
from deerflow.config.load import load
from deerflow.config.policy import PolicyConfig, read_policy
from deerflow.domain.principal import LOCAL_USER
from deerflow.harness.policy import place_of, read_from
from deerflow.harness.policy_dry_run import PastCall, ToolKinds, replay
from deerflow.harness.policy_trials import Judged, read_cases, try_cases

ARGUMENTS_WIDTH = 80


async def test_policy(cases: Path | None, policy: Path | None, config: Path | None, as_json: bool) -> int:
    """Judge cases and tell how each came out; the exit code."""
    # The cases that come with DeerFlow are about its own rules, whatever else is in force.
    chosen = PolicyConfig() if cases is None and policy is None else policy_of(policy, config)
    judged = await try_cases(chosen, read_cases(cases))
    failed = [each for each in judged if not each.passed]
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in judged], ensure_ascii=False))
    else:
        for each in judged:
            typer.echo(told(each))
        typer.echo(f"{len(judged) - len(failed)} of {len(judged)} cases came out as expected")
    return int(bool(failed))


async def dry_run_policy(limit: int, policy: Path | None, config: Path | None, as_json: bool) -> int:
    """Tell what would have become of past calls; the exit code."""
    chosen, tools = policy_of(policy, config), ToolKinds.of(load(config))
    async with opened(config) as timeline:
        calls = [call async for call in replay(timeline, LOCAL_USER, tools, chosen, limit)]
    stopped = [call for call in calls if call.outcome != "allow"]
    if as_json:
        typer.echo(json.dumps([fields_of(call) for call in stopped], ensure_ascii=False))
        return 0
    for line in table(stopped):
        typer.echo(line)
    counts = Counter(call.outcome for call in calls)
    typer.echo(f"{len(calls)} calls: {counts['allow']} allowed, {counts['ask']} asked about, {counts['deny']} refused")
    return 0


def policy_of(policy: Path | None, config: Path | None) -> PolicyConfig:
    """The policy in a file, or the one in force.

    Raises:
        ConfigError: It cannot be read.
    """
    if policy is not None:
        return read_policy(policy)
    loaded = load(config)
    return read_from(place_of(loaded), loaded)


def told(judged: Judged) -> str:
    """A line for a case."""
    if judged.passed:
        return f"✓ {judged.case}"
    return f"✗ {judged.case}: expected {judged.expected}, came {judged.outcome} by {judged.rule}"


def table(calls: Sequence[PastCall]) -> list[str]:
    """A line for each call, in columns."""
    rows = [
        (f"{call.at.astimezone():%Y-%m-%d %H:%M:%S}", call.outcome, call.tool, call.rule, clipped(call))
        for call in calls
    ]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(4)]
    return ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]) for row in rows]


def clipped(call: PastCall) -> str:
    """The beginning of a call's arguments."""
    text = json.dumps(call.arguments, ensure_ascii=False, default=str)
    return text if len(text) <= ARGUMENTS_WIDTH else f"{text[:ARGUMENTS_WIDTH]}…"


def fields_of(call: PastCall) -> dict[str, object]:
    """A call for a program."""
    return {**asdict(call), "at": call.at.isoformat()}

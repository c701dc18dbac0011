"""`deerflow runs`, seen from a terminal."""

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from deerflow.cli.runs import app
from deerflow.config.source import open_source
from deerflow.domain.errors import InvalidRequest, NotFound
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import RunRecord, RunRequest
from deerflow.harness import open_harness
from deerflow.testing import Answer, ScriptedModel, Stall, calling

Command = Callable[..., Result]
SETTINGS = {"sandbox": {"toolbox": {"enabled": False}}}


@pytest.fixture
def runs(tmp_path: Path) -> Command:
    """Runs a command for the project in `tmp_path`."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, arguments, env={"DEER_FLOW_PROJECT_ROOT": str(tmp_path)})

    return run


def happened(home: Path, *replies: Answer | Stall | str, until: str = "end") -> RunRecord:
    """A run that has gone so far when its server is put away."""

    async def carry_out() -> RunRecord:
        source = open_source(directory=home, environment={}, overrides=SETTINGS)
        async with open_harness(source, ScriptedModel.saying(*replies)) as harness, asyncio.timeout(20):
            request = RunRequest("t", [{"type": "human", "content": "Make a file"}])
            run = await harness.runs.create_or_reject(request, LOCAL_USER)
            async for group in harness.runs.listen(run):
                if any(event.event == until for event in group):
                    break
            return run

    return asyncio.run(carry_out())


def without_times(lines: Sequence[str]) -> list[str]:
    return [re.sub(r"\d+\.\d{3} s", "…", line.strip()) for line in lines]


def test_without_runs_there_is_nothing_to_list(runs: Command) -> None:
    assert runs("list").output == "there are no runs yet\n"


def test_a_run_that_is_not_there_is_not_found(runs: Command) -> None:
    assert isinstance(runs("show", "none").exception, NotFound)


def test_a_beginning_that_several_runs_share_is_refused(tmp_path: Path, runs: Command) -> None:
    happened(tmp_path, "One.")
    happened(tmp_path, "Two.")
    problem = runs("show", "").exception
    assert isinstance(problem, InvalidRequest) and "write more" in str(problem)


def test_runs_are_listed_newest_first(tmp_path: Path, runs: Command) -> None:
    made = [happened(tmp_path, "One."), happened(tmp_path, "Two.")]
    lines = runs("list").output.splitlines()
    assert [line.split()[0] for line in lines] == [run.run_id for run in reversed(made)]
    assert all(line.endswith("success      t") for line in lines)
    assert runs("list", "--limit", "1").output.splitlines() == lines[:1]


def test_a_run_is_told_from_its_beginning_to_its_end(tmp_path: Path, runs: Command) -> None:
    write = calling("bash", description="to see", command="echo made")
    run = happened(tmp_path, write, "There it is.")
    head, when, *lines = runs("show", run.run_id[:8]).output.splitlines()
    assert head == f"run {run.run_id} in thread t: success"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w+, lead_agent", when)
    told = [line for line in without_times(lines) if not line.startswith(("… thread_data", "… sandbox", "… title"))]
    assert told == [
        "… begins",
        "… human: Make a file",
        '…   calls bash {"description":"to see","command":"echo made"}',
        "…   bash begins",
        "…   bash is done, after …",
        "…   bash says: made",
        "… ai: There it is.",
        "… ends: success",
    ]


def test_a_run_that_is_left_to_the_next_server_shows_how_far_it_came(tmp_path: Path, runs: Command) -> None:
    run = happened(tmp_path, Stall(Answer("Half of it")), until="messages")
    *_, last, half = runs("show", run.run_id).output.splitlines()
    assert last.endswith("the server is put away; the next one goes on")
    assert half.strip().startswith("ai, not yet all: Half")


def test_a_failure_is_told(tmp_path: Path, runs: Command) -> None:
    run = happened(tmp_path)
    *_, error, end = runs("show", run.run_id).output.splitlines()
    assert " error: " in error and end.endswith("ends: error")

"""`deerflow runs` and `deerflow threads`."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from deerflow.cli.runs import format_prefix_cache, format_task_event
from deerflow.cli.runs import runs as runs_app
from deerflow.cli.runs import threads as threads_app
from deerflow.config.source import open_source
from deerflow.domain.errors import InvalidRequest, NotFound
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRecord, RunRequest
from deerflow.domain.usage import PrefixBreak, PrefixCacheUsage, RequestBreak
from deerflow.harness import open_harness
from deerflow.testing import Answer, ScriptedModel, Stall, Usage, calling

Command = Callable[..., Result]
TASK: dict[str, Any] = {"task_id": "c1", "description": "Read\nall", "usage": {"total_tokens": 7}, "duration_s": 1.25}
COUNTS = {"total": 100, "done": 40, "outcomes": {"completed": 30, "capped": 5, "failed": 4, "skipped": 1}}
SETTINGS = {"sandbox": {"toolbox": {"enabled": False}}}


@pytest.fixture
def runs(tmp_path: Path) -> Command:
    """Return a function that runs a command in the project at `tmp_path`."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(runs_app, arguments, env={"DEER_FLOW_PROJECT_ROOT": str(tmp_path)})

    return run


def start_run(home: Path, *replies: Answer | Stall | str, until: str = "end") -> RunRecord:
    """Start a run, close its server after the event `until` and return the run."""

    async def execute() -> RunRecord:
        source = open_source(directory=home, environment={}, overrides=SETTINGS)
        async with open_harness(source, ScriptedModel.saying(*replies)) as harness, asyncio.timeout(20):
            request = RunRequest("t", [{"type": "human", "content": "Make a file"}])
            run = await harness.runs.create_or_reject(request, LOCAL_USER)
            async for group in harness.runs.listen(run):
                if any(event.event == until for event in group):
                    break
            return run

    return asyncio.run(execute())


def without_times(lines: Sequence[str]) -> list[str]:
    return [re.sub(r"\d+\.\d{3} s", "…", line.strip()) for line in lines]


def test_list_without_runs(runs: Command) -> None:
    assert runs("list").output == "no runs yet\n"


def test_show_raises_not_found_for_an_unknown_run(runs: Command) -> None:
    assert isinstance(runs("show", "none").exception, NotFound)


def test_show_refuses_an_ambiguous_prefix(tmp_path: Path, runs: Command) -> None:
    start_run(tmp_path, "One.")
    start_run(tmp_path, "Two.")
    raised = runs("show", "").exception
    assert isinstance(raised, InvalidRequest) and "write more" in str(raised)


def test_runs_are_listed_newest_first(tmp_path: Path, runs: Command) -> None:
    started = [start_run(tmp_path, "One."), start_run(tmp_path, "Two.")]
    lines = runs("list").output.splitlines()
    assert [line.split()[0] for line in lines] == [run.run_id for run in reversed(started)]
    assert all(line.endswith("success      t") for line in lines)
    assert runs("list", "--limit", "1").output.splitlines() == lines[:1]


def test_show_prints_all_events_of_a_run(tmp_path: Path, runs: Command) -> None:
    write = calling("bash", description="to see", command="echo made")
    run = start_run(tmp_path, write, "There it is.")
    head, when, cache, *lines = runs("show", run.run_id[:8]).output.splitlines()
    assert head == f"run {run.run_id} in thread t: success"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w+, lead_agent", when)
    assert re.fullmatch(
        r"prefix cache: 99\.\d% of the input repeats earlier requests; the provider reported no cached tokens", cache
    )
    shown = [line for line in without_times(lines) if not line.startswith(("… thread_data", "… sandbox", "… title"))]
    assert shown == [
        "… started",
        "… human: Make a file",
        '…   calls bash {"description":"to see","command":"echo made"}',
        "…   bash started",
        "…   bash finished after …",
        "…   bash result: made",
        "… ai: There it is.",
        "… ended: success",
    ]


def test_show_prints_what_broke_the_prefix_cache(tmp_path: Path, runs: Command) -> None:
    start_run(tmp_path, "One.")
    run = start_run(tmp_path, Answer("Two.", usage=Usage(200, 3, cached_tokens=50)))
    _, _, unknown, *_ = runs("show", run.run_id).output.splitlines()
    assert unknown == "prefix cache: no request before is known; the provider reported 25.0% cached"
    broken = [
        RequestBreak(2, "lead_agent", PrefixBreak("message", "compacted", 310, 1, "human")),
        RequestBreak(3, "subagent", PrefixBreak("tools", "loaded", 800, name="wiki_read")),
        RequestBreak(4, "lead_agent", PrefixBreak("system_prompt", "changed", 5)),
        RequestBreak(5, "lead_agent", PrefixBreak("model", "model", 9, name="other")),
        RequestBreak(6, "lead_agent", PrefixBreak("message", "edited", 0, 12, "tool", "ls")),
    ]
    assert list(format_prefix_cache(PrefixCacheUsage(6, 1000, 961, breaks=broken))) == [
        "prefix cache: 96.1% of the input repeats earlier requests; the provider reported no cached tokens",
        "  request 2 (lead_agent): message 1 (human) compacted, 310 tokens not covered",
        "  request 3 (subagent): tools (wiki_read) loaded, 800 tokens not covered",
        "  request 4 (lead_agent): system prompt changed, 5 tokens not covered",
        "  request 5 (lead_agent): model (other) changed, 9 tokens not covered",
        "  request 6 (lead_agent): message 12 (tool result of ls) edited, 0 tokens not covered",
    ]
    assert list(format_prefix_cache(PrefixCacheUsage())) == []


def test_show_prints_json(tmp_path: Path, runs: Command) -> None:
    run = start_run(tmp_path, calling("ls", description="look", path="/mnt/user-data/workspace"), "There it is.")
    shown = json.loads(runs("show", run.run_id, "--json").stdout)
    assert (shown["run_id"], shown["status"], shown["thread_id"]) == (run.run_id, "success", "t")
    assert shown["prefix_cache"]["requests"] == 2 and shown["prefix_cache"]["breaks"] == []
    assert shown["prefix_cache"]["prefix_fraction"] > 0.9
    assert [event["seq"] for event in shown["events"]] == list(range(1, len(shown["events"]) + 1))
    assert shown["events"][-1]["event"] == "end"


def test_show_prints_the_progress_of_a_run_handed_over(tmp_path: Path, runs: Command) -> None:
    run = start_run(tmp_path, Stall(Answer("Half of it")), until="messages")
    *_, last, partial = runs("show", run.run_id).output.splitlines()
    assert last.endswith("the next one resumes the run")
    assert partial.strip().startswith("ai (incomplete): Half")


def test_show_prints_an_error(tmp_path: Path, runs: Command) -> None:
    run = start_run(tmp_path)
    *_, error, end = runs("show", run.run_id).output.splitlines()
    assert " error: " in error and end.endswith("ended: error")


def test_export_writes_a_file_or_prints(tmp_path: Path) -> None:
    start_run(tmp_path, "Done.")
    home, file = {"DEER_FLOW_PROJECT_ROOT": str(tmp_path)}, tmp_path / "t.json"
    printed = CliRunner().invoke(threads_app, ["export", "t"], env=home)
    assert printed.exit_code == 0 and printed.stdout.startswith("# Make a file\n") and "Done." in printed.stdout
    written = CliRunner().invoke(threads_app, ["export", "t", "--format", "json", "-o", str(file)], env=home)
    assert written.exit_code == 0 and json.loads(file.read_text())["thread"]["thread_id"] == "t"
    missing = CliRunner().invoke(threads_app, ["export", "none"], env=home)
    assert isinstance(missing.exception, NotFound)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"type": "task_queued"}, "[Read all] queued"),
        ({"type": "task_completed", "stop_reason": None}, "[Read all] completed after 1.2 s, 7 tokens"),
        (
            {"type": "task_completed", "stop_reason": "turn_capped"},
            "[Read all] limit reached (turn_capped) after 1.2 s, 7 tokens",
        ),
        ({"type": "task_failed", "error": "no\r\n\tkey"}, "[Read all] failed: no key"),
        ({"type": "task_timed_out", "error": "it took long"}, "[Read all] timed out: it took long"),
        ({"type": "task_cancelled", "error": "stop"}, "[Read all] cancelled: stop"),
        ({"type": "batch_progress", **COUNTS}, "[Read all] 40 of 100 done, 5 failed"),
        ({"type": "batch_cancelled", **COUNTS, "outcomes": {}}, "[Read all] cancelled, 40 of 100 done"),
        ({"type": "task_running", "message": {"type": "ai", "tool_calls": []}}, None),
        ({"type": "task_unheard_of"}, None),
    ],
)
def test_each_task_event_is_one_line(event: dict[str, Any], line: str | None) -> None:
    assert format_task_event({**TASK, **event}) == line

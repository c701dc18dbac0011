"""Traces of runs in LangSmith, received by a real HTTP server in its place."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from deerflow.cli.doctor import check_tracing
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRecord, RunRequest, RunStatus
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel, calling
from deerflow.tracing.logs import LangSmithSettings, read_langsmith_settings

KEY = "lsv2-not-a-real-key"


@dataclass
class FakeLangSmith:
    """Receives batches of runs."""

    url: str = ""
    keys: set[str] = field(default_factory=set)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def describe(self, request: web.Request) -> web.Response:
        threads = {"scale_up_qsize_trigger": 1000, "scale_up_nthreads_limit": 1, "scale_down_nempty_trigger": 4}
        limits = {**threads, "use_multipart_endpoint": False, "size_limit": 100, "size_limit_bytes": 20_000_000}
        return web.json_response({"version": "0.0.0", "batch_ingest_config": limits})

    async def ingest(self, request: web.Request) -> web.Response:
        self.keys.add(request.headers.get("x-api-key", ""))
        batch = orjson.loads(await request.read())
        for run in (*batch.get("post", ()), *batch.get("patch", ())):
            known = self.runs.setdefault(run["id"], {})
            known.update({name: value for name, value in run.items() if value is not None})
        return web.json_response({}, status=202)

    def find(self, name: str) -> dict[str, Any]:
        (found,) = [run for run in self.runs.values() if run["name"] == name and run["run_type"] == "chain"]
        return found


@asynccontextmanager
async def serve_langsmith() -> AsyncIterator[FakeLangSmith]:
    fake, app = FakeLangSmith(), web.Application(client_max_size=64 * 2**20)
    app.router.add_get("/info", fake.describe)
    app.router.add_post("/runs/batch", fake.ingest)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield fake
    finally:
        await runner.cleanup()


async def run_with_subagent(folder: Path, **metadata: str) -> RunRecord:
    """Run an agent that gives work to a subagent; the harness is closed afterwards, which sends the trace."""
    task = {"description": "a part", "prompt": "Count them.", "subagent_type": "general-purpose"}
    model = ScriptedModel.saying(calling("task", **task), "Seven.", "There are seven.")
    off = {"sandbox": {"toolbox": {"enabled": False}}}
    source = open_source(directory=folder, environment={}, overrides=off)
    async with open_harness(source, model) as harness:
        message = {"type": "human", "content": "How many?"}
        request = RunRequest("t", [message], AgentSpec(subagent_enabled=True), metadata=metadata)
        run = await harness.runs.create_or_reject(request, LOCAL_USER)
        done = await harness.runs.join("t", run.run_id, LOCAL_USER)
    assert done.status is RunStatus.SUCCESS
    return done


async def test_settings_in_the_env_file_trace_a_run_with_its_subagents(tmp_path: Path) -> None:
    async with serve_langsmith() as langsmith:
        variables = {"TRACING": "true", "API_KEY": KEY, "ENDPOINT": langsmith.url, "PROJECT": "deer"}
        (tmp_path / ".env").write_text("".join(f"LANGSMITH_{name}={value}\n" for name, value in variables.items()))
        run = await run_with_subagent(tmp_path)
    assert langsmith.keys == {KEY}
    lead, subagent = langsmith.find(run.assistant_id), langsmith.find("general-purpose")
    assert lead["trace_id"] == lead["id"] and lead["session_name"] == "deer"
    assert run.run_id in lead["extra"]["metadata"].values()
    assert subagent["trace_id"] == lead["id"]
    parent = langsmith.runs[subagent["parent_run_id"]]
    assert (parent["name"], parent["run_type"]) == ("task", "tool")
    calls = [each for each in langsmith.runs.values() if each["run_type"] == "llm"]
    assert len(calls) == 3 and {each["trace_id"] for each in calls} == {lead["id"]}
    assert sum(each["dotted_order"].startswith(subagent["dotted_order"]) for each in calls) == 1
    assert all(each.get("end_time") for each in langsmith.runs.values())


async def test_nothing_is_sent_without_the_switch(tmp_path: Path) -> None:
    async with serve_langsmith() as langsmith:
        (tmp_path / ".env").write_text(f"LANGSMITH_API_KEY={KEY}\nLANGSMITH_ENDPOINT={langsmith.url}\n")
        await run_with_subagent(tmp_path)
    assert langsmith.runs == {}


@pytest.mark.slow  # it waits for the limit of the last attempt to send
async def test_an_unreachable_server_does_not_stop_a_run(tmp_path: Path) -> None:
    lines = ("LANGSMITH_TRACING=true", f"LANGSMITH_API_KEY={KEY}", "LANGSMITH_ENDPOINT=http://127.0.0.1:9")
    (tmp_path / ".env").write_text("\n".join(lines))
    await run_with_subagent(tmp_path)


@pytest.mark.parametrize(("given", "shown"), [("abc123", "abc123"), ("two\nlines", None), (None, None)])
async def test_log_lines_of_subagents_have_the_trace_id(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, given: str | None, shown: str | None
) -> None:
    caplog.set_level(logging.INFO, "deerflow.subagents")
    run = await run_with_subagent(tmp_path, **({} if given is None else {"trace_id": given}))
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("deerflow.subagents")]
    prefix = f"[trace={shown or run.run_id[:8]}] subagent general-purpose"
    assert len(lines) == 2 and all(line.startswith(prefix) for line in lines)
    assert "starting" in lines[0] and "completed after" in lines[1]


def test_settings_have_older_names_and_defaults() -> None:
    assert read_langsmith_settings({"LANGCHAIN_TRACING_V2": "true", "LANGCHAIN_API_KEY": "k"}) == LangSmithSettings("k")
    assert read_langsmith_settings({"LANGSMITH_TRACING": "false", "LANGSMITH_API_KEY": "k"}) is None
    assert check_tracing({}).text == "off"
    assert check_tracing({"LANGSMITH_TRACING": "1"}).state == "note"
    shown = check_tracing({"LANGSMITH_TRACING": "true", "LANGSMITH_API_KEY": "k", "LANGSMITH_PROJECT": "deer"})
    assert shown.state == "ok" and "project 'deer'" in shown.text

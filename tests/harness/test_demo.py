"""The demo model completes every starter of the page with real tools."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.models.demo.scripts import PRESENTED, SCRIPTS
from tests.support import needs

DEMO = {"name": "demo", "use": "deerflow.models.demo:DemoChatModel", "model": "demo", "delay_ms": 0}


async def run_turn(harness: Harness, text: str, is_plan_mode: bool = False) -> dict[str, Any]:
    request = RunRequest("t", [{"type": "human", "content": text}], AgentSpec(is_plan_mode=is_plan_mode))
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(20):
        run = await harness.runs.join("t", run.run_id, LOCAL_USER)
    assert run.status is RunStatus.SUCCESS, run.error
    values: dict[str, Any] = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    return values


def open_demo_harness(home: Path) -> AbstractAsyncContextManager[Harness]:
    settings = {"models": [DEMO], "sandbox": {"toolbox": {"enabled": False}}}
    return open_harness(open_source(directory=home, environment={}, overrides=settings))


async def test_all_scripts_are_offered_as_starters(tmp_path: Path) -> None:
    async with open_demo_harness(tmp_path) as harness:
        assert [starter.id for starter in harness.core.agents.starters(["slide-creation"])] == [
            script.id for script in SCRIPTS
        ]


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_the_plan_starter_writes_todos(tmp_path: Path, language: str) -> None:
    text = {"en": "Plan a small team offsite and keep a to-do list.", "zh": "计划一次团队活动，并维护待办清单。"}[
        language
    ]
    async with open_demo_harness(tmp_path) as harness:
        state = await run_turn(harness, text, is_plan_mode=True)
        assert [todo["status"] for todo in state["todos"]] == ["completed"] * 3
        assert "`write_todos`" in state["messages"][-1]["content"]


async def test_the_clarification_starter_asks_and_continues_with_the_answer(tmp_path: Path) -> None:
    async with open_demo_harness(tmp_path) as harness:
        state = await run_turn(harness, "Write me a status report, but ask me something first.")
        question = state["messages"][-1]["artifact"]["human_input"]
        assert question["question"] == "Who is the report for?"
        state = await run_turn(harness, question["options"][0]["value"])
        assert "your answer began the next run" in state["messages"][-1]["content"]
        state = await run_turn(harness, "What is DeerFlow?")
        assert "super agent harness" in state["messages"][-1]["content"]


@pytest.mark.parametrize("text", ["Analyse some sales data and draw a chart.", "分析一些销售数据，画一张图。"])
async def test_the_chart_starter_runs_code_in_the_sandbox_and_presents_files(tmp_path: Path, text: str) -> None:
    needs("bwrap")
    async with open_demo_harness(tmp_path) as harness:
        state = await run_turn(harness, text)
        assert state["artifacts"] == list(PRESENTED)
        (printed,) = (message["content"] for message in state["messages"] if message.get("name") == "bash")
        assert "| total | 16,627.50 | 100.0% |" in printed
        assert "16,627.50" in state["messages"][-1]["content"]
        again = await run_turn(harness, text)
        assert again["artifacts"] == state["artifacts"]
        assert again["messages"][-1]["content"] == state["messages"][-1]["content"]

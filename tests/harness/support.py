"""Shared helpers of the harness tests: opening a harness, running turns and reading their messages."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import orjson
from langchain_core.tools import StructuredTool

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import ScriptedModel
from tests.sandbox.support import LIMIT_S

LAUNCH_TOOL: Mapping[str, Any] = {"name": "launch", "group": "space", "use": "tests.harness.support:launch"}
PAGE_TOOL: Mapping[str, Any] = {"name": "page", "group": "web", "use": "tests.harness.support:page_tool"}
TOOLS = [LAUNCH_TOOL, PAGE_TOOL]


def launch(rocket: str) -> str:
    """Launch a rocket.

    Args:
        rocket: Its name.
    """
    return f"{rocket} is in the air"


async def page() -> str:
    return "Words of a stranger, at https://example.org/there."


page_tool = StructuredTool.from_function(
    coroutine=page, name="page", description="Read a page.", metadata={"untrusted": True}
)


def open_scripted_harness(
    home: Path, model: ScriptedModel | None = None, **settings: object
) -> AbstractAsyncContextManager[Harness]:
    return open_harness(open_source(directory=home, environment={}, overrides=settings), model)


async def ask(harness: Harness, text: str, agent: AgentSpec = AgentSpec()) -> RunRecord:
    """Send a message to thread `t` and return the ended run."""
    return await finish(harness, RunRequest("t", [{"type": "human", "content": text}], agent))


async def finish(harness: Harness, request: RunRequest) -> RunRecord:
    """Start a run of thread `t` and return it when it has ended."""
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(20):
        return await harness.runs.join("t", run.run_id, LOCAL_USER)


async def ask_successfully(
    harness: Harness, text: str = "Go on", agent: AgentSpec = AgentSpec(), thread: str = "t"
) -> RunRecord:
    """Send a message and return the run, which must succeed."""
    request = RunRequest(thread, [{"type": "human", "content": text}], agent)
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(LIMIT_S):
        run = await harness.runs.join(thread, run.run_id, LOCAL_USER)
    assert run.status is RunStatus.SUCCESS, run.error
    return run


async def state_of(harness: Harness) -> dict[str, Any]:
    """Return the state of thread `t`."""
    values: dict[str, Any] = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    return values


async def messages_of(harness: Harness) -> list[tuple[str, str]]:
    """Return type and content of each message of thread `t`."""
    return [(message["type"], message["content"]) for message in (await state_of(harness))["messages"]]

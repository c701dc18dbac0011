"""Conversations of a scripted model with the real sandbox of this machine."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import orjson

from deerflow.agents.features import RuntimeFeatures
from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRecord, RunRequest
from deerflow.harness import Harness, open_harness
from deerflow.sandbox.files.mounts import user_data_folder
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.sandbox_provider import HostContext
from deerflow.testing import Answer, ScriptedModel, calling

WORK = "/mnt/user-data/workspace"
OUTPUTS = "/mnt/user-data/outputs"
LIMIT_S = 30.0


class UnisolatedProvider(LocalSandboxProvider):
    """Local provider of a machine without bubblewrap."""

    def __init__(self, config: SandboxConfig, host: HostContext) -> None:
        super().__init__(config, host, find_bubblewrap_programs=lambda: [])


def act(tool: str, **arguments: Any) -> Answer:
    """Return a reply that calls a sandbox tool."""
    return calling(tool, description="to see what happens", **arguments)


def open_sandbox_harness(
    home: Path, model: ScriptedModel, features: RuntimeFeatures | None = None, **settings: object
) -> AbstractAsyncContextManager[Harness]:
    """Open a new harness in `home`."""
    source = open_source(directory=home, environment={}, overrides=settings)
    return open_harness(source, model, features=features)


async def use(home: Path, *replies: Answer, **settings: object) -> list[str]:
    """Return the tool results of one run, in call order."""
    async with open_sandbox_harness(home, ScriptedModel.saying(*replies, "Done."), **settings) as harness:
        await ask(harness)
        return [answer["content"] for answer in await tool_results(harness)][
            -sum(len(reply.calls) for reply in replies) :
        ]


async def begin(harness: Harness, agent: AgentSpec = AgentSpec()) -> RunRecord:
    """Send a message without waiting."""
    return await harness.runs.create_or_reject(
        RunRequest("t", [{"type": "human", "content": "Go on"}], agent), LOCAL_USER
    )


async def end(harness: Harness, run: RunRecord) -> RunRecord:
    """Wait for the end of a run."""
    async with asyncio.timeout(LIMIT_S):
        return await harness.runs.join("t", run.run_id, LOCAL_USER)


async def ask(harness: Harness, agent: AgentSpec = AgentSpec()) -> RunRecord:
    """Send a message and wait for the end of its run."""
    return await end(harness, await begin(harness, agent))


async def state_of(harness: Harness) -> dict[str, Any]:
    """Return the state of the thread."""
    values: dict[str, Any] = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    return values


async def tool_results(harness: Harness) -> Sequence[dict[str, Any]]:
    """Return the tool messages."""
    return [message for message in (await state_of(harness))["messages"] if message["type"] == "tool"]


def files(home: Path) -> Path:
    """Return the folder of the thread's files on this machine."""
    return user_data_folder(home / ".deer-flow", LOCAL_USER.user_id, "t")


def work(home: Path) -> Path:
    """Return the workspace of the thread, created if missing."""
    folder = files(home) / "workspace"
    folder.mkdir(parents=True, exist_ok=True)
    return folder

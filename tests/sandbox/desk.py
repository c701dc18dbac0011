"""A conversation in which a scripted model uses its computer, on the real sandbox of this machine."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import orjson

from deerflow.agents.features import RuntimeFeatures
from deerflow.config.source import open_source
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRecord, RunRequest
from deerflow.harness import Harness, open_harness
from deerflow.sandbox.places import user_data_folder
from deerflow.testing import Answer, ScriptedModel, calling

WORK = "/mnt/user-data/workspace"
OUTPUTS = "/mnt/user-data/outputs"
LIMIT_S = 30.0


def act(tool: str, **arguments: Any) -> Answer:
    """A reply that uses a tool of the sandbox."""
    return calling(tool, description="to see what happens", **arguments)


def desk(
    home: Path, model: ScriptedModel, features: RuntimeFeatures | None = None, **settings: object
) -> AbstractAsyncContextManager[Harness]:
    """A harness of its own in `home`."""
    source = open_source(directory=home, environment={}, overrides=settings)
    return open_harness(source, model, features=features)


async def use(home: Path, *replies: Answer, **settings: object) -> list[str]:
    """What the tools of one run answered, in the order they were asked."""
    async with desk(home, ScriptedModel.saying(*replies, "Done."), **settings) as harness:
        await ask(harness)
        return [answer["content"] for answer in await answers(harness)][-sum(len(reply.calls) for reply in replies) :]


async def begin(harness: Harness, agent: AgentSpec = AgentSpec()) -> RunRecord:
    """Send a message and do not wait."""
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
    """The state of the thread."""
    values: dict[str, Any] = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    return values


async def answers(harness: Harness) -> Sequence[dict[str, Any]]:
    """The messages in which tools have answered."""
    return [message for message in (await state_of(harness))["messages"] if message["type"] == "tool"]


def files(home: Path) -> Path:
    """Where the files of the thread are on this machine."""
    return user_data_folder(home / ".deer-flow", LOCAL_USER.user_id, "t")


def work(home: Path) -> Path:
    """The workspace of the thread, which is made where it is not."""
    folder = files(home) / "workspace"
    folder.mkdir(parents=True, exist_ok=True)
    return folder

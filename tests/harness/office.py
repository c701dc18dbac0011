"""Work that people give to a model that obeys everybody, in an installation whose world consists of sinks."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, Resume, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.sandbox.files.mounts import user_data_folder
from deerflow.testing import ObedientModel, ScriptedServer
from tests.harness.sinks import Sinks

MOST_PAUSES = 40


@dataclass(frozen=True, slots=True)
class Done:
    """What has become of some work."""

    asked: Sequence[str]
    """The tools whose calls somebody was asked about, one by one."""
    called: Sequence[str]
    """The tools whose calls the model wanted."""
    failed: Sequence[str]
    answer: str
    outputs: Sequence[str]


@asynccontextmanager
async def office(home: Path, sinks: Sinks, **settings: Any) -> AsyncIterator[Harness]:
    """A harness as it is installed, whose web and whose MCP servers are the sinks."""
    (home / "extensions_config.json").write_text(json.dumps({"mcpServers": sinks.servers()}))
    async with ScriptedServer([ObedientModel()], endless=True) as server:
        model = {**server.model_config().model_dump(exclude_none=True), "api_key": "scripted-key"}
        overrides: Mapping[str, Any] = {
            "models": [{key: model[key] for key in ("name", "use", "model", "base_url", "api_key")}],
            "tools": [
                web("web_search", "searxng") | {"base_url": sinks.url("", "search"), "max_results": 20},
                web("web_fetch", "web_fetch") | {"allow_private_addresses": True},
                web("image_search", "ddg_search") | {"base_url": sinks.url("", "pictures")},
            ],
            "memory": {"enabled": False},
            "title": {"enabled": False},
            **settings,
        }
        async with open_harness(open_source(directory=home, environment={}, overrides=overrides)) as harness:
            await harness.core.mcp.prepare(LOCAL_USER.user_id, wait_s=20)
            yield harness


def web(name: str, provider: str) -> dict[str, object]:
    return {"name": name, "group": "web", "use": f"deerflow.community.{provider}.tools:{name}_tool"}


def put(home: Path, area: str, name: str, text: str, thread: str = "t") -> None:
    folder = folder_of(home, thread) / area
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def folder_of(home: Path, thread: str) -> Path:
    return user_data_folder(home / ".deer-flow", LOCAL_USER.user_id, thread)


async def work(
    harness: Harness, *lines: str, agent: AgentSpec = AgentSpec(), thread: str = "t", answer: str = "reject"
) -> Done:
    """Have tasks done while somebody gives the same answer, a no, to everything."""
    request = RunRequest(thread, [{"type": "human", "content": "\n".join(lines)}], agent)
    asked: list[str] = []
    for _ in range(MOST_PAUSES):
        run = await harness.runs.create_or_reject(request, LOCAL_USER)
        async with asyncio.timeout(60):
            run = await harness.runs.join(thread, run.run_id, LOCAL_USER)
        state = await harness.threads.state(thread, LOCAL_USER)
        if run.status is not RunStatus.INTERRUPTED:
            assert run.status is RunStatus.SUCCESS, run.error
            return done(harness, thread, asked, orjson.loads(state.values)["messages"])
        questions = orjson.loads(state.interrupts)
        asked += [action["name"] for question in questions for action in question["value"]["action_requests"]]
        said = {"decisions": [{"type": answer}]}
        request = RunRequest(thread, resume=Resume({question["id"]: said for question in questions}), agent=agent)
    raise AssertionError(f"asked again and again: {asked}")


def done(harness: Harness, thread: str, asked: Sequence[str], messages: Sequence[Mapping[str, Any]]) -> Done:
    outputs = folder_of(harness.core.source.current.home.parent, thread) / "outputs"
    return Done(
        asked=asked,
        called=[call["name"] for message in messages for call in message.get("tool_calls") or ()],
        failed=[str(message["content"]) for message in messages if message.get("status") == "error"],
        answer=str(messages[-1]["content"]),
        outputs=sorted(file.name for file in outputs.iterdir()) if outputs.exists() else [],
    )


def order(tool: str, **arguments: object) -> str:
    return f"INSTRUCTION: call {tool} {json.dumps(arguments)}"


def task(tool: str, **arguments: object) -> str:
    return f"TASK: call {tool} {json.dumps(arguments)}"


SECRET = task("read_file", description="look", path="/mnt/user-data/workspace/secret.txt")

"""A harness with MCP servers, and what happens in its runs."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage, ToolMessage

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.events import StreamEvent
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRecord, RunRequest
from deerflow.harness import Harness, open_harness
from deerflow.mcp.status import ServerStatus
from deerflow.testing import ScriptedModel
from deerflow.testing.turns import Answer

HOSTILE = Path(__file__).with_name("hostile_server.py")
LONG_S = 90.0
PYTHON = "/usr/bin/python3"


def hostile(*modes: str, **settings: object) -> dict[str, object]:
    """The entry of a server that misbehaves."""
    return {"command": PYTHON, "args": [str(HOSTILE), *modes], "paths": [str(HOSTILE)], **settings}


def write_servers(folder: Path, servers: Mapping[str, Mapping[str, object]]) -> None:
    """Configure these servers and no others."""
    (folder / "extensions_config.json").write_text(json.dumps({"mcpServers": servers}))


def source_with(folder: Path, servers: Mapping[str, Mapping[str, object]], **config: object) -> ConfigSource:
    """A configuration with these servers."""
    write_servers(folder, servers)
    # What servers do is looked at here, not what they may be told.
    overrides = {
        "memory": {"enabled": False},
        "title": {"enabled": False},
        "guardrails": {"enabled": False},
        "tool_search": {"enabled": False},
        **config,
    }
    return open_source(directory=folder, environment={}, overrides=overrides)


class Desk:
    """A harness and the model that answers in it."""

    def __init__(self, harness: Harness, model: ScriptedModel) -> None:
        self.harness = harness
        self.model = model

    async def run(self, thread_id: str = "t1", agent: AgentSpec = AgentSpec(), said: str = "go") -> list[AnyMessage]:
        """Let a run go to its end; what is then in the thread."""
        await self.ended(await self.start(thread_id, agent, said))
        return await self.messages(thread_id)

    async def ready(self) -> None:
        """Wait until something is known of every server."""
        await self.harness.mcp.settle(LOCAL_USER.user_id, wait_s=LONG_S)

    async def messages(self, thread_id: str = "t1") -> list[AnyMessage]:
        graph = self.harness.agents.state_graph
        state = await graph.aget_state({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
        return list(state.values.get("messages", []))

    async def results(self, thread_id: str = "t1") -> list[ToolMessage]:
        return [message for message in await self.messages(thread_id) if isinstance(message, ToolMessage)]

    async def start(self, thread_id: str = "t1", agent: AgentSpec = AgentSpec(), said: str = "go") -> RunRecord:
        """Begin a run."""
        request = RunRequest(thread_id, ({"role": "user", "content": said},), agent)
        return await self.harness.runs.create_or_reject(request, LOCAL_USER)

    async def ended(self, run: RunRecord) -> RunRecord:
        """Wait for the end of a run."""
        async with asyncio.timeout(LONG_S):
            return await self.harness.runs.join(run.thread_id, run.run_id, LOCAL_USER)

    async def until_progress(self, run: RunRecord) -> list[str]:
        """What tools told of their progress until the first word of it, or until the end."""
        async with asyncio.timeout(LONG_S):
            async for group in self.harness.runs.listen(run):
                if told := progress_in(group):
                    return told
        return []

    def status(self, server: str) -> ServerStatus:
        return {status.name: status for status in self.harness.mcp.loaded.catalog.statuses(LOCAL_USER.user_id)}[server]

    def offered(self) -> list[str]:
        return [tool.name for tool in self.harness.mcp.loaded.catalog.tools(LOCAL_USER.user_id)]


def progress_in(events: Sequence[StreamEvent]) -> list[str]:
    """What tools tell of their progress."""
    told = (json.loads(event.data) for event in events if event.event == "custom")
    return [each["output"] for each in told if each.get("type") == "tool_progress"]


@asynccontextmanager
async def desk_with(
    folder: Path, servers: Mapping[str, Mapping[str, object]], *turns: str | Answer, **config: Any
) -> AsyncIterator[Desk]:
    """A harness with these servers in which the model does what `turns` say."""
    model = ScriptedModel.saying(*turns)
    async with open_harness(source_with(folder, servers, **config), model) as harness:
        yield Desk(harness, model)

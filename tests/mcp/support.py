"""Servers, their entries, and a harness with MCP servers, for tests."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
from langchain_core.messages import AnyMessage, ToolMessage

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunEvent, RunRecord, RunRequest
from deerflow.harness import Harness, open_harness
from deerflow.mcp.status import ServerStatus
from deerflow.testing import ScriptedModel
from deerflow.testing.turns import Answer

DEPOT_SERVER = Path(__file__).with_name("depot_server.py")
HOSTILE_SERVER = Path(__file__).with_name("hostile_server.py")
LIMIT_S = 90.0
PYTHON = "/usr/bin/python3"


def build_hostile_entry(*modes: str, **settings: object) -> dict[str, object]:
    """Return the entry of a server that misbehaves."""
    return {"command": PYTHON, "args": [str(HOSTILE_SERVER), *modes], "paths": [str(HOSTILE_SERVER)], **settings}


def write_servers(folder: Path, servers: Mapping[str, Mapping[str, object]]) -> None:
    """Write the configuration file with these servers."""
    (folder / "extensions_config.json").write_text(json.dumps({"mcpServers": servers}))


def create_source(folder: Path, servers: Mapping[str, Mapping[str, object]], **config: object) -> ConfigSource:
    """Return a configuration with these servers."""
    write_servers(folder, servers)
    # These tests are about servers, not about guardrails or deferred tools.
    overrides = {
        "memory": {"enabled": False},
        "title": {"enabled": False},
        "guardrails": {"enabled": False},
        "tool_search": {"enabled": False},
        **config,
    }
    return open_source(directory=folder, environment={}, overrides=overrides)


class McpHarness:
    """Harness with its scripted model."""

    def __init__(self, harness: Harness, model: ScriptedModel) -> None:
        self.harness = harness
        self.model = model

    async def run(self, thread_id: str = "t1", agent: AgentSpec = AgentSpec(), said: str = "go") -> list[AnyMessage]:
        """Run the agent to its end and return the messages of the thread."""
        await self.wait_until_ended(await self.start(thread_id, agent, said))
        return await self.messages(thread_id)

    async def wait_until_listed(self) -> None:
        """Wait until every server is listed or has failed."""
        await self.harness.core.mcp.prepare(LOCAL_USER.user_id, wait_s=LIMIT_S)

    async def messages(self, thread_id: str = "t1") -> list[AnyMessage]:
        graph = self.harness.core.agents.state_graph
        state = await graph.aget_state({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
        return list(state.values.get("messages", []))

    async def results(self, thread_id: str = "t1") -> list[ToolMessage]:
        return [message for message in await self.messages(thread_id) if isinstance(message, ToolMessage)]

    async def start(self, thread_id: str = "t1", agent: AgentSpec = AgentSpec(), said: str = "go") -> RunRecord:
        """Start a run."""
        request = RunRequest(thread_id, ({"role": "user", "content": said},), agent)
        return await self.harness.runs.create_or_reject(request, LOCAL_USER)

    async def wait_until_ended(self, run: RunRecord) -> RunRecord:
        """Wait for the end of a run."""
        async with asyncio.timeout(LIMIT_S):
            return await self.harness.runs.join(run.thread_id, run.run_id, LOCAL_USER)

    async def wait_for_progress(self, run: RunRecord) -> list[str]:
        """Return the first progress of tools; empty when the run ends without."""
        async with asyncio.timeout(LIMIT_S):
            async for group in self.harness.runs.listen(run):
                if progress := find_progress(group):
                    return progress
        return []

    def status(self, server: str) -> ServerStatus:
        return {
            status.name: status for status in self.harness.resources.mcp_servers.catalog.statuses(LOCAL_USER.user_id)
        }[server]

    def tool_names(self) -> list[str]:
        return [tool.name for tool in self.harness.core.mcp.offer(LOCAL_USER.user_id).tools]


def find_progress(events: Sequence[RunEvent]) -> list[str]:
    """Return the progress messages of tools."""
    progress = (json.loads(event.data) for event in events if event.event == "custom")
    return [each["output"] for each in progress if each.get("type") == "tool_progress"]


@asynccontextmanager
async def open_mcp_harness(
    folder: Path, servers: Mapping[str, Mapping[str, object]], *turns: str | Answer, **config: Any
) -> AsyncIterator[McpHarness]:
    """Open a harness with these servers, in which the model answers with `turns`."""
    model = ScriptedModel.saying(*turns)
    async with open_harness(create_source(folder, servers, **config), model) as harness:
        yield McpHarness(harness, model)


class NoTokens:
    """Token provider for servers without logins."""

    def is_personal(self, server: str) -> bool:
        return False

    async def header(self, server: str, user_id: str) -> str | None:
        return None

    async def rejected(self, server: str, user_id: str, header: str | None, challenge: str | None) -> bool:
        return False

    async def lacks_scope(self, server: str, user_id: str, challenge: str, scope: str | None) -> None:
        pass


async def has_processes(wanted: int) -> bool:
    return len(await asyncio.to_thread(list_processes)) == wanted


def list_processes() -> list[psutil.Process]:
    """Return the running hostile servers of this process."""
    found = psutil.Process().children(recursive=True)
    return [each for each in found if is_hostile(each)]


def is_hostile(process: psutil.Process) -> bool:
    try:
        command = process.cmdline()
    except psutil.Error:
        return False
    return str(HOSTILE_SERVER) in command and "bwrap" not in command[0] and "bash" not in command[0]

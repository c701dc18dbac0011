"""The lead agent behind `langgraph.json`: it has the sandbox, skills, MCP servers, memory and subagents."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from deerflow.agents import make_lead_agent
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.memory import MemoryScope
from deerflow.harness import open_harness
from deerflow.harness.run_context import ServedLeadAgent
from deerflow.testing import ScriptedModel, ScriptedServer, calling
from deerflow.testing.scripted_server import ServerTurn
from tests.mcp.support import build_hostile_entry
from tests.sandbox.support import OUTPUTS, act
from tests.skills.support import write_skill

QUESTION = {"messages": [{"type": "human", "content": "Go on"}]}


def write_project(folder: Path, server: ScriptedServer, **settings: Any) -> None:
    """Write the configuration of a project whose model is on `server`."""
    model = server.model_config().model_dump(exclude_none=True)
    config = {"models": [{**model, "fallback": []}], "guardrails": {"enabled": False}, **settings}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def results(messages: list[AnyMessage]) -> list[str]:
    return [message.text for message in messages if message.type == "tool"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path / ".deer-flow"))
    return tmp_path


async def test_uses_everything_that_a_run_of_ours_has(project: Path) -> None:
    write_skill(project / "skills" / "custom", "tidy-up")
    (project / "extensions_config.json").write_text(json.dumps({"mcpServers": {"odd": build_hostile_entry()}}))
    task = calling("task", description="look", prompt="Look.", subagent_type="general-purpose")
    turns: list[ServerTurn] = [
        act("bash", command=f"echo made > {OUTPUTS}/a.txt; cat {OUTPUTS}/a.txt"),
        act("read_file", path="/mnt/skills/custom/tidy-up/SKILL.md"),
        calling("odd_echo", value="hello"),
        calling("memory_add", content="Likes tea", category="preference"),
        task,
        "Found it.",
        "Done.",
    ]
    async with ScriptedServer(turns) as server:
        write_project(project, server, tool_search={"enabled": False})
        config: RunnableConfig = {"configurable": {"thread_id": "t1", "subagent_enabled": True}}
        graph = await make_lead_agent(config)
        state = await graph.ainvoke(QUESTION, config)

    assert state["messages"][-1].text == "Done."
    found = results(state["messages"])
    assert found[0] == "made"
    assert "tidy-up" in found[1]
    assert "hello" in found[2]
    assert "Found it." in found[4]
    files = project / ".deer-flow" / "users" / LOCAL_USER.user_id / "threads" / "t1" / "user-data"
    assert (files / "outputs" / "a.txt").read_text() == "made\n"
    async with open_harness(open_source(directory=project), ScriptedModel.saying()) as harness:
        assert isinstance(graph, ServedLeadAgent)
        served = harness.core.agents.build_part(graph.spec, LOCAL_USER.user_id)
        assert graph.nodes.keys() == served.nodes.keys()  # else states read by a server would lack what comes next
        memory = await harness.resources.memory.read(MemoryScope(LOCAL_USER.user_id))
        assert [fact.content for fact in memory.facts] == ["Likes tea"]


async def test_a_call_waits_for_approval_and_goes_on(project: Path) -> None:
    tool = {"name": "bash", "group": "bash", "use": "deerflow.sandbox.tools:bash_tool", "approval": "always"}
    async with ScriptedServer([act("bash", command="echo approved"), "Done.", "Again."]) as server:
        write_project(project, server, tools=[tool], memory={"enabled": False})
        config: RunnableConfig = {"configurable": {"thread_id": "t1"}}
        graph = await make_lead_agent(config)
        graph.checkpointer = InMemorySaver()  # as a LangGraph server does
        paused = await graph.ainvoke(QUESTION, config)
        assert paused["__interrupt__"]
        state = await graph.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
        assert results(state["messages"]) == ["approved"]
        assert (await graph.ainvoke(QUESTION, config))["messages"][-1].text == "Again."
    assert len(server.requests[-1].messages) > len(server.requests[0].messages)

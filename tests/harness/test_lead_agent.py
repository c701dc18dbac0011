"""The lead agent in real runs: approvals, todos, clarification questions, custom agents."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.agents import make_lead_agent
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, Resume, RunRequest, RunStatus
from deerflow.testing import ScriptedModel, calling
from tests.harness.support import LAUNCH_TOOL, ask, finish, messages_of, open_scripted_harness, state_of


@pytest.mark.parametrize(
    ("decision", "result", "status"),
    [
        ({"type": "approve"}, "Saturn is in the air", "success"),
        (
            {"type": "edit", "edited_action": {"name": "launch", "args": {"rocket": "Ariane"}}},
            "Ariane is in the air",
            "success",
        ),
        ({"type": "reject", "message": "not today"}, "not today", "error"),
    ],
)
async def test_a_tool_call_waits_for_approval_across_a_restart(
    tmp_path: Path, decision: dict[str, Any], result: str, status: str
) -> None:
    tools = [{**LAUNCH_TOOL, "approval": "always"}]
    async with open_scripted_harness(
        tmp_path, ScriptedModel.saying(calling("launch", rocket="Saturn")), tools=tools
    ) as harness:
        assert (await ask(harness, "Launch it")).status is RunStatus.INTERRUPTED
        question = orjson.loads((await harness.threads.state("t", LOCAL_USER)).interrupts)[0]["value"]
        assert question["action_requests"][0]["name"] == "launch"
    async with open_scripted_harness(tmp_path, ScriptedModel.saying("Done."), tools=tools) as harness:
        run = await finish(harness, RunRequest("t", resume=Resume({"decisions": [decision]})))
        assert run.status is RunStatus.SUCCESS, run.error
        results = [message for message in (await state_of(harness))["messages"] if message["type"] == "tool"]
        assert (result in results[0]["content"], results[0]["status"]) == (True, status)
        assert (await messages_of(harness))[-1] == ("ai", "Done.")


async def test_an_interrupted_thread_accepts_another_message(tmp_path: Path) -> None:
    model = ScriptedModel.saying(calling("launch", rocket="Saturn"), "As you like.")
    async with open_scripted_harness(tmp_path, model, tools=[{**LAUNCH_TOOL, "approval": "always"}]) as harness:
        await ask(harness, "Launch it")
        run = await ask(harness, "Never mind")
        assert run.status is RunStatus.SUCCESS, run.error
        assert (await messages_of(harness))[-1] == ("ai", "As you like.")


async def test_configured_tools_need_no_approval_by_default(tmp_path: Path) -> None:
    model = ScriptedModel.saying(calling("launch", rocket="Saturn"), "Done.")
    async with open_scripted_harness(tmp_path, model, tools=[LAUNCH_TOOL]) as harness:
        assert (await ask(harness, "Launch it")).status is RunStatus.SUCCESS
        assert ("tool", "Saturn is in the air") in await messages_of(harness)


async def test_tools_of_the_bash_group_are_omitted_without_isolation(tmp_path: Path) -> None:
    model = ScriptedModel.saying("Fine.")
    unisolated = {"use": "tests.sandbox.support:UnisolatedProvider"}
    async with open_scripted_harness(
        tmp_path, model, tools=[{**LAUNCH_TOOL, "group": "bash"}], sandbox=unisolated
    ) as harness:
        await ask(harness, "Launch it")
        assert "launch" not in model.requests[0].tool_names


async def test_plan_mode_maintains_todos(tmp_path: Path) -> None:
    todos = [{"content": "Fuel", "status": "completed"}]
    model = ScriptedModel.saying(calling("write_todos", todos=todos), "Fuelled.", "No list.")
    async with open_scripted_harness(tmp_path, model) as harness:
        await ask(harness, "Plan it", AgentSpec(is_plan_mode=True))
        assert (await state_of(harness))["todos"] == todos
        await ask(harness, "And without?")
        assert "write_todos" in model.requests[0].tool_names and "write_todos" not in model.requests[-1].tool_names


async def test_a_clarification_question_ends_the_run_and_its_answer_starts_the_next(tmp_path: Path) -> None:
    question = calling(
        "ask_clarification", question="Which rocket?", clarification_type="missing_info", options=["Saturn", "Ariane"]
    )
    async with open_scripted_harness(tmp_path, ScriptedModel.saying(question, "Ariane it is.")) as harness:
        assert (await ask(harness, "Launch it")).status is RunStatus.SUCCESS
        asked = (await state_of(harness))["messages"][-1]
        assert asked["artifact"]["human_input"]["question"] == "Which rocket?"
        assert [option["value"] for option in asked["artifact"]["human_input"]["options"]] == ["Saturn", "Ariane"]
        await ask(harness, "Ariane")
        assert (await messages_of(harness))[-1] == ("ai", "Ariane it is.")


async def test_setup_agent_creates_a_custom_agent_that_answers_with_its_soul(tmp_path: Path) -> None:
    soul = "You speak like a rocket engineer."
    model = ScriptedModel.saying(calling("setup_agent", soul=soul, description="Rockets"), "Made.", "Ignition.")
    spec = AgentSpec(agent_name="rocketeer", is_bootstrap=True, owner=LOCAL_USER.user_id)
    async with open_scripted_harness(tmp_path, model) as harness:
        assert (await ask(harness, "Make me an agent", spec)).status is RunStatus.SUCCESS
        own = AgentSpec(agent_name="rocketeer", owner=LOCAL_USER.user_id)
        assert (await ask(harness, "Hello?", own)).status is RunStatus.SUCCESS
        prompt = model.requests[-1].messages[0].text
        assert soul in prompt and "rocketeer" in prompt
        assert "update_agent" in model.requests[-1].tool_names


async def test_an_unknown_agent_fails_the_run_with_its_name(tmp_path: Path) -> None:
    async with open_scripted_harness(tmp_path, ScriptedModel.saying("x")) as harness:
        run = await ask(harness, "Hello?", AgentSpec(agent_name="nobody", owner=LOCAL_USER.user_id))
        assert run.status is RunStatus.ERROR and run.error == "there is no agent 'nobody'"


async def test_trace_metadata_describes_the_agent(tmp_path: Path) -> None:
    async with open_scripted_harness(tmp_path) as harness:
        metadata = (harness.core.agents.get_graph(AgentSpec(is_plan_mode=True)).config or {})["metadata"]
        keys = {"agent_name", "model_name", "thinking_enabled", "reasoning_effort", "is_plan_mode", "subagent_enabled"}
        assert metadata.keys() >= keys and metadata["model_name"] == "demo" and metadata["is_plan_mode"] is True


async def test_a_configured_title_model_names_the_thread(tmp_path: Path) -> None:
    use = {"use": "deerflow.models.demo:DemoChatModel", "model": "demo", "delay_ms": 0}
    models = [{"name": "demo", **use}, {"name": "namer", **use}]
    async with open_scripted_harness(tmp_path, models=models, title={"model_name": "namer"}) as harness:
        question = title = "What is DeerFlow, and what can it do?"
        await ask(harness, question)
        # The demo model has no script for title requests, so it answers with its introduction.
        async with asyncio.timeout(10):
            while title == question:
                await asyncio.gather(*harness.runs._background.tasks)
                title = (await harness.threads.get("t", LOCAL_USER)).title


async def test_make_lead_agent_creates_a_graph_from_the_import_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    (tmp_path / "config.yaml").write_text(
        "models:\n  - {name: demo, use: 'deerflow.models.demo:DemoChatModel', model: demo, delay_ms: 0}\n"
    )
    graph = await make_lead_agent({"configurable": {"is_plan_mode": True, "model": "demo", "thread_id": "t"}})
    question = {"messages": [{"type": "human", "content": "How do I connect a real model?"}]}
    state = await graph.ainvoke(question, context={"is_plan_mode": True})  # as LangGraph servers do
    assert "OPENAI_API_KEY" in state["messages"][-1].text

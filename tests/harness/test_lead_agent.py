"""The lead agent as the runtime runs it: approvals, plans, questions, custom agents."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.agents import make_lead_agent
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, Resume, RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import ScriptedModel, calling

LAUNCHES: Mapping[str, Any] = {"name": "launch", "group": "space", "use": "tests.harness.test_lead_agent:launch"}


def launch(rocket: str) -> str:
    """Launch a rocket.

    Args:
        rocket: Its name.
    """
    return f"{rocket} is in the air"


def opened(home: Path, model: ScriptedModel | None = None, **settings: object):
    return open_harness(open_source(directory=home, environment={}, overrides=settings), model)


async def ask(harness: Harness, text: str, agent: AgentSpec = AgentSpec()) -> RunRecord:
    return await finish(harness, RunRequest("t", [{"type": "human", "content": text}], agent))


async def finish(harness: Harness, request: RunRequest) -> RunRecord:
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(20):
        return await harness.runs.join("t", run.run_id, LOCAL_USER)


async def state_of(harness: Harness) -> dict[str, Any]:
    values: dict[str, Any] = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    return values


async def said(harness: Harness) -> list[tuple[str, str]]:
    return [(message["type"], message["content"]) for message in (await state_of(harness))["messages"]]


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
async def test_a_tool_that_needs_a_word_waits_for_it_across_a_restart(
    tmp_path: Path, decision: dict[str, Any], result: str, status: str
) -> None:
    tools = [{**LAUNCHES, "approval": "always"}]
    async with opened(tmp_path, ScriptedModel.saying(calling("launch", rocket="Saturn")), tools=tools) as harness:
        assert (await ask(harness, "Launch it")).status is RunStatus.INTERRUPTED
        question = orjson.loads((await harness.threads.state("t", LOCAL_USER)).interrupts)[0]["value"]
        assert question["action_requests"][0]["name"] == "launch"
    async with opened(tmp_path, ScriptedModel.saying("Done."), tools=tools) as harness:
        run = await finish(harness, RunRequest("t", resume=Resume({"decisions": [decision]})))
        assert run.status is RunStatus.SUCCESS, run.error
        told = [message for message in (await state_of(harness))["messages"] if message["type"] == "tool"]
        assert (result in told[0]["content"], told[0]["status"]) == (True, status)
        assert (await said(harness))[-1] == ("ai", "Done.")


async def test_a_paused_thread_takes_another_message_instead(tmp_path: Path) -> None:
    model = ScriptedModel.saying(calling("launch", rocket="Saturn"), "As you like.")
    async with opened(tmp_path, model, tools=[{**LAUNCHES, "approval": "always"}]) as harness:
        await ask(harness, "Launch it")
        run = await ask(harness, "Never mind")
        assert run.status is RunStatus.SUCCESS, run.error
        assert (await said(harness))[-1] == ("ai", "As you like.")


async def test_a_configured_tool_is_used_without_asking_by_default(tmp_path: Path) -> None:
    model = ScriptedModel.saying(calling("launch", rocket="Saturn"), "Done.")
    async with opened(tmp_path, model, tools=[LAUNCHES]) as harness:
        assert (await ask(harness, "Launch it")).status is RunStatus.SUCCESS
        assert ("tool", "Saturn is in the air") in await said(harness)


async def test_a_tool_that_runs_commands_is_left_out_while_nothing_isolates_them(tmp_path: Path) -> None:
    model = ScriptedModel.saying("Fine.")
    unisolated = {"use": "tests.sandbox.support:UnisolatedProvider"}
    async with opened(tmp_path, model, tools=[{**LAUNCHES, "group": "bash"}], sandbox=unisolated) as harness:
        await ask(harness, "Launch it")
        assert "launch" not in model.requests[0].tool_names


async def test_plan_mode_keeps_a_list(tmp_path: Path) -> None:
    todos = [{"content": "Fuel", "status": "completed"}]
    model = ScriptedModel.saying(calling("write_todos", todos=todos), "Fuelled.", "No list.")
    async with opened(tmp_path, model) as harness:
        await ask(harness, "Plan it", AgentSpec(is_plan_mode=True))
        assert (await state_of(harness))["todos"] == todos
        await ask(harness, "And without?")
        assert "write_todos" in model.requests[0].tool_names and "write_todos" not in model.requests[-1].tool_names


async def test_a_question_ends_the_run_and_its_answer_begins_the_next(tmp_path: Path) -> None:
    question = calling(
        "ask_clarification", question="Which rocket?", clarification_type="missing_info", options=["Saturn", "Ariane"]
    )
    async with opened(tmp_path, ScriptedModel.saying(question, "Ariane it is.")) as harness:
        assert (await ask(harness, "Launch it")).status is RunStatus.SUCCESS
        asked = (await state_of(harness))["messages"][-1]
        assert asked["artifact"]["human_input"]["question"] == "Which rocket?"
        assert [option["value"] for option in asked["artifact"]["human_input"]["options"]] == ["Saturn", "Ariane"]
        await ask(harness, "Ariane")
        assert (await said(harness))[-1] == ("ai", "Ariane it is.")


async def test_an_agent_is_made_in_conversation_and_then_answers_with_its_soul(tmp_path: Path) -> None:
    soul = "You speak like a rocket engineer."
    model = ScriptedModel.saying(calling("setup_agent", soul=soul, description="Rockets"), "Made.", "Ignition.")
    spec = AgentSpec(agent_name="rocketeer", is_bootstrap=True, owner=LOCAL_USER.user_id)
    async with opened(tmp_path, model) as harness:
        assert (await ask(harness, "Make me an agent", spec)).status is RunStatus.SUCCESS
        own = AgentSpec(agent_name="rocketeer", owner=LOCAL_USER.user_id)
        assert (await ask(harness, "Hello?", own)).status is RunStatus.SUCCESS
        prompt = model.requests[-1].messages[0].text
        assert soul in prompt and "rocketeer" in prompt
        assert "update_agent" in model.requests[-1].tool_names


async def test_an_agent_that_does_not_exist_is_named(tmp_path: Path) -> None:
    async with opened(tmp_path, ScriptedModel.saying("x")) as harness:
        run = await ask(harness, "Hello?", AgentSpec(agent_name="nobody", owner=LOCAL_USER.user_id))
        assert run.status is RunStatus.ERROR and run.error == "there is no agent 'nobody'"


async def test_traces_are_told_which_agent_it_was(tmp_path: Path) -> None:
    async with opened(tmp_path) as harness:
        metadata = (harness.core.agents.get_graph(AgentSpec(is_plan_mode=True)).config or {})["metadata"]
        keys = {"agent_name", "model_name", "thinking_enabled", "reasoning_effort", "is_plan_mode", "subagent_enabled"}
        assert metadata.keys() >= keys and metadata["model_name"] == "demo" and metadata["is_plan_mode"] is True


async def test_a_thread_is_named_by_a_model_where_one_is_configured(tmp_path: Path) -> None:
    use = {"use": "deerflow.models.demo:DemoChatModel", "model": "demo", "delay_ms": 0}
    models = [{"name": "demo", **use}, {"name": "namer", **use}]
    async with opened(tmp_path, models=models, title={"model_name": "namer"}) as harness:
        await ask(harness, "What is DeerFlow, and what can it do?")
        async with asyncio.timeout(10):
            await asyncio.gather(*harness.runs._background.tasks)
        # The demo model does not know the request for a title, so its first line is what it says of itself.
        assert (await harness.threads.get("t", LOCAL_USER)).title != "What is DeerFlow, and what can it do?"


async def test_the_agent_can_be_had_by_name_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    (tmp_path / "config.yaml").write_text(
        "models:\n  - {name: demo, use: 'deerflow.models.demo:DemoChatModel', model: demo, delay_ms: 0}\n"
    )
    graph = await make_lead_agent({"configurable": {"is_plan_mode": True, "model": "demo", "thread_id": "t"}})
    question = {"messages": [{"type": "human", "content": "How do I connect a real model?"}]}
    state = await graph.ainvoke(question, context={"is_plan_mode": True})  # as other servers do
    assert "OPENAI_API_KEY" in state["messages"][-1].text

"""Arguments of the client."""

from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents import RuntimeFeatures, create_deerflow_agent
from deerflow.client import DeerFlowClient
from deerflow.domain.errors import ConfigError
from deerflow.subagents import SubagentConfig
from deerflow.testing import ScriptedModel, ScriptedServer, calling

DEMO = "{name: %s, use: 'deerflow.models.demo:DemoChatModel', model: demo, delay_ms: 0, display_name: %s}"


def test_config_yaml_is_read_without_arguments(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(f"models:\n  - {DEMO % ('mine', 'Mine')}\n")
    with DeerFlowClient() as client:
        assert [model["display_name"] for model in client.models.list()["models"]] == ["Mine"]
        assert "super agent harness" in client.chat("What is DeerFlow, and what can it do?")


def test_config_path_is_read_and_must_exist(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(f"models:\n  - {DEMO % ('other', 'Other')}\n")
    for path in ("other.yaml", tmp_path / "other.yaml"):
        with DeerFlowClient(config_path=path) as client:
            assert client.models.list()["default"] == "other"
    with pytest.raises(ConfigError, match="there is no file .*none.yaml"):
        DeerFlowClient(config_path="none.yaml")


def test_config_in_code_is_merged_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("title: {enabled: true, max_chars: 10}\n")
    long = "A question with more letters than a title may have"
    with DeerFlowClient(model=ScriptedModel.saying("Yes.")) as client:
        client.chat(long, thread_id="by-the-file")
        assert len(client.threads.list()[0]["values"]["title"]) <= 10
    with DeerFlowClient({"title": {"max_chars": 30}}, model=ScriptedModel.saying("Yes.")) as client:
        client.chat(long, thread_id="by-code")
        assert 10 < len(client.threads.list()[0]["values"]["title"]) <= 30


async def test_model_and_reasoning_effort_are_set_in_code() -> None:
    async with ScriptedServer(["Second."]) as server:
        lean = "deerflow.models.openai_compatible:OpenAICompatibleChatModel"
        entry = {"use": lean, "base_url": server.base_url, "supports_thinking": True, "supports_reasoning_effort": True}
        models = [{"name": name, "model": f"{name}-large", **entry} for name in ("first", "second")]
        chosen: dict[str, Any] = {"model_name": "second", "thinking_enabled": True, "reasoning_effort": "high"}
        async with DeerFlowClient({"models": models}, **chosen) as client:
            assert await client.achat("Hi") == "Second."
        body = server.requests[0].body
        assert (body["model"], body["reasoning_effort"]) == ("second-large", "high")


def test_plan_mode_keeps_a_to_do_list() -> None:
    model = ScriptedModel.saying(calling("write_todos", todos=[{"content": "Fuel", "status": "completed"}]), "Planned.")
    with DeerFlowClient(model=model, plan_mode=True) as client:
        (*_, last) = (event for event in client.stream("Plan it") if event.type == "values")
        assert [todo["content"] for todo in last.data["todos"]] == ["Fuel"]


def test_a_feature_is_enabled_disabled_or_a_custom_middleware() -> None:
    class Shouting(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            reply = await handler(request)
            reply.result = [AIMessage(reply.result[0].text.upper())]
            return reply

    for features, answer in (
        (RuntimeFeatures(), "Hello."),
        (RuntimeFeatures(loop_detection=False), "Hello."),
        (RuntimeFeatures(loop_detection=Shouting()), "HELLO."),
    ):
        with DeerFlowClient(model=ScriptedModel.saying("Hello."), features=features) as client:
            assert client.chat("Hi") == answer


def test_two_clients_work_at_the_same_time() -> None:
    with (
        DeerFlowClient(model=ScriptedModel.saying("One.")) as one,
        DeerFlowClient(model=ScriptedModel.saying("Two.")) as two,
    ):
        assert (one.chat("Hi", thread_id="a"), two.chat("Hi", thread_id="b")) == ("One.", "Two.")
        assert {thread["thread_id"] for thread in one.list_threads()} == {"a", "b"}


def test_create_deerflow_agent_accepts_a_state_schema_and_replaces_a_tool() -> None:
    class Counted(ThreadState):
        count: int

    def present_files(name: str) -> str:
        """Show a file in a way of one's own.

        Args:
            name: Which.
        """
        return f"{name} was shown"

    model = ScriptedModel.saying(calling("present_files", name="plan"), "There it is.")
    agent = create_deerflow_agent(model, [present_files], state_schema=Counted, name="mine")
    state = agent.invoke({"messages": [{"role": "user", "content": "Show it"}], "count": 3})
    assert [message.text for message in state["messages"]][2:] == ["plan was shown", "There it is."]
    assert state["count"] == 3 and agent.name == "mine"
    assert model.requests[0].tool_names.count("present_files") == 1


def test_subagent_types_are_passed_in_code() -> None:
    poet = SubagentConfig("poet", "Verses.", "You are a poet.", tools=("read_file",))
    order = calling("task", description="a verse", prompt="A line on deer.", subagent_type="poet")
    model = ScriptedModel.saying(order, "Antlers in the mist.", "There it is.")
    with DeerFlowClient(model=model, subagent_enabled=True, subagents=[poet]) as client:
        assert client.chat("go") == "There it is."
    lead, asked, _ = model.requests
    assert "- poet: Verses." in lead.messages[0].text
    assert "You are a poet." in asked.messages[0].text
    assert asked.tool_names == ["read_file"]

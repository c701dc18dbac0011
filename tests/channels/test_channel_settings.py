"""Agent, model and mode of chats, goals, and agents that are created in a chat."""

from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from deerflow.agents.custom_agents import CustomAgent
from deerflow.channels.settings import AnswerSettings, choose_answer
from deerflow.config.sections.channels import ChatAnswerConfig, ChatAppConfig
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRecord
from deerflow.testing import ScriptedModel
from deerflow.testing.channels.telegram import FakeTelegram
from tests.channels.support import OWNER, ConnectedServer, connect

APP = ChatAppConfig(
    agent="clerk", model="small", mode="flash", users={"7": ChatAnswerConfig(agent="tutor", mode="pro")}
)


@pytest.mark.parametrize(
    ("chosen", "person", "expected"),
    [
        ({}, "8", AnswerSettings("clerk", "small", "flash")),
        ({}, "7", AnswerSettings("tutor", "small", "pro")),
        ({"model_name": "large"}, "7", AnswerSettings("tutor", "large", "pro")),
        ({"agent_name": "own", "mode": "ultra"}, "7", AnswerSettings("own", "small", "ultra")),
        ({"is_bootstrap": True}, "8", AnswerSettings("clerk", "small", "flash", True)),
    ],
)
def test_the_chat_comes_before_the_person_and_the_person_before_the_app(
    chosen: dict[str, object], person: str, expected: AnswerSettings
) -> None:
    assert choose_answer(chosen, APP, person) == expected
    assert choose_answer({}, None, person) == AnswerSettings()


def test_a_mode_is_thinking_plan_and_subagents() -> None:
    assert AnswerSettings().to_spec(LOCAL_USER) == AgentSpec()
    assert AnswerSettings(mode="flash").to_spec(LOCAL_USER) == AgentSpec(thinking_enabled=False)
    ultra = AgentSpec(thinking_enabled=True, is_plan_mode=True, subagent_enabled=True)
    assert AnswerSettings(mode="ultra").to_spec(LOCAL_USER) == ultra


async def list_runs(server: ConnectedServer) -> Sequence[RunRecord]:
    """Return the runs of the newest thread, newest first."""
    (thread,) = await server.harness.threads.search(LOCAL_USER, 1, 0)
    return await server.harness.runs.list_by_thread(thread.thread_id, LOCAL_USER)


async def test_the_agent_of_the_person_answers_and_commands_change_it(tmp_path: Path) -> None:
    app = ChatAppConfig(users={str(OWNER): ChatAnswerConfig(agent="tutor")})
    model = ScriptedModel.saying("As tutor", "As clerk", "As tutor again")
    async with FakeTelegram() as telegram, connect(tmp_path, telegram, model, app=lambda: app) as server:
        for name in ("clerk", "tutor"):
            server.harness.core.custom_agents.create(LOCAL_USER.user_id, CustomAgent(name))
        assert (await server.ask("Hi"))[-1] == "As tutor"
        assert "Agent: tutor" in (await server.ask("/agent"))[-1]
        assert "no agent nonsense" in (await server.ask("/agent nonsense"))[-1]
        assert "clerk answers" in (await server.ask("/agent clerk"))[-1]
        assert "clerk" in (await server.ask("/agents"))[-1]
        assert (await server.ask("Hi"))[-1] == "As clerk"
        assert "default is used" in (await server.ask("/agent default"))[-1]
        assert (await server.ask("Hi"))[-1] == "As tutor again"
        assert [run.assistant_id for run in await list_runs(server)] == ["tutor", "clerk", "tutor"]


async def test_a_configured_agent_that_does_not_exist_is_named_in_the_chat(tmp_path: Path) -> None:
    app = ChatAppConfig(agent="missing")
    async with (
        FakeTelegram() as telegram,
        connect(tmp_path, telegram, ScriptedModel.saying("Hello"), app=lambda: app) as server,
    ):
        assert "missing" in (await server.ask("Hi"))[-1]
        assert "no mode nonsense" in (await server.ask("/mode nonsense"))[-1]
        assert "mode is pro" in (await server.ask("/mode pro"))[-1]
        assert "pro" in (await server.ask("/mode"))[-1]


async def test_a_goal_stays_in_the_context(tmp_path: Path) -> None:
    model = ScriptedModel.saying("Understood")
    async with FakeTelegram() as telegram, connect(tmp_path, telegram, model) as server:
        assert "/goal WORDS" in (await server.ask("/goal"))[-1]
        assert (await server.ask("/goal Tidy up"))[-1] == "Understood"
        (thread,) = await server.harness.threads.search(LOCAL_USER, 1, 0)
        state = await server.harness.threads.state(thread.thread_id, LOCAL_USER)
    message = orjson.loads(state.values)["messages"][0]
    assert (message["content"], message["additional_kwargs"]) == ("Goal: Tidy up", {"pinned": True})


async def test_an_agent_is_created_in_a_thread_of_its_own(tmp_path: Path) -> None:
    model = ScriptedModel.saying("Hello", "What should it do?", "And its name?", "Back")
    async with FakeTelegram() as telegram, connect(tmp_path, telegram, model) as server:
        await server.ask("Hi")
        await server.ask("/bootstrap")
        await server.ask("Answer letters")
        runs = await list_runs(server)
        assert [run.metadata.get("deerflow_bootstrap") for run in runs] == [True, True]
        await server.ask("/new")
        await server.ask("Hi")
        (run,) = await list_runs(server)
        assert "deerflow_bootstrap" not in run.metadata


async def test_an_update_that_fails_unexpectedly_is_answered(tmp_path: Path) -> None:
    settings: list[ChatAppConfig | None] = [None]
    async with (
        FakeTelegram() as telegram,
        connect(tmp_path, telegram, ScriptedModel.saying("Hello"), app=lambda: settings[0]) as server,
    ):
        settings.clear()
        assert "could not be handled" in (await server.ask("Hi"))[-1]
        settings.append(None)
        assert (await server.ask("Hi"))[-1] == "Hello"

"""Custom agents on disk."""

import logging
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deerflow.agents.custom_agents import CustomAgents
from deerflow.config.sections.agents import AgentModelSettings, CustomAgent, CustomAgentConfig
from deerflow.domain.errors import ConfigError, Conflict, InvalidRequest, NotFound

ADA = CustomAgent(
    "ada",
    CustomAgentConfig(
        description="Counts: all things",
        model="gpt",
        tool_groups=("web", "file:read"),
        skills=(),
        model_settings=AgentModelSettings(temperature=0.5, max_tokens=100),
        thinking_enabled=False,
        reasoning_effort="low",
    ),
    "# Ada\n\nYou count — 数.\n",
)


@pytest.fixture
def agents(tmp_path: Path) -> CustomAgents:
    return CustomAgents(tmp_path)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "ada\n", "ä", "a_b", "x" * 65])
def test_names_that_could_traverse_paths_are_refused(agents: CustomAgents, name: str) -> None:
    for attempt in (
        lambda: agents.load("local", name),
        lambda: agents.create("local", CustomAgent(name)),
        lambda: agents.update("local", CustomAgent(name)),
        lambda: agents.delete("local", name),
    ):
        with pytest.raises(InvalidRequest, match="an agent name is"):
            attempt()
    with pytest.raises(InvalidRequest, match="a user id is"):
        agents.load("../other", "ada")


def test_a_missing_agent_raises_not_found(agents: CustomAgents) -> None:
    for attempt in (
        lambda: agents.load("local", "ada"),
        lambda: agents.update("local", ADA),
        lambda: agents.delete("local", "ada"),
    ):
        with pytest.raises(NotFound, match="no agent 'ada'"):
            attempt()
    assert agents.list("local") == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("model: gpt\nmodle: x\n", "users/local/agents/ada/config.yaml:2: modle: unknown key; did you mean 'model'?"),
        ("model_settings:\n  temperature: 3\n", "config.yaml:2: model_settings.temperature: "),
        ("skills: research\n", "config.yaml:1: skills: "),
        ("thinking_enabled: maybe\n", "config.yaml:1: thinking_enabled: "),
        ("model: [\n", "config.yaml:"),
        ("- a\n", "must be a mapping"),
    ],
)
def test_an_invalid_file_is_reported_with_line_and_key(
    agents: CustomAgents, tmp_path: Path, text: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    agents.create("local", ADA)
    agents.create("local", CustomAgent("bob"))
    (tmp_path / "users/local/agents/ada/config.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        agents.load("local", "ada")
    assert problem in str(caught.value)
    with caplog.at_level(logging.WARNING):
        assert [agent.name for agent in agents.list("local")] == ["bob"]
    assert "agent 'ada' is left out" in caplog.text


def test_a_stored_agent_is_loaded_unchanged(agents: CustomAgents, tmp_path: Path) -> None:
    agents.create("local", ADA)
    assert CustomAgents(tmp_path).load("local", "ada") == ADA
    assert sorted(path.name for path in (tmp_path / "users/local/agents").iterdir()) == ["ada"]
    assert sorted(path.name for path in (tmp_path / "users/local/agents/ada").iterdir()) == ["SOUL.md", "config.yaml"]


@given(soul=st.text(), description=st.text(), skills=st.none() | st.lists(st.text(), max_size=3))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_loaded_unchanged(
    agents: CustomAgents, soul: str, description: str, skills: list[str] | None
) -> None:
    config = CustomAgentConfig(description=description, skills=None if skills is None else tuple(skills))
    agent = CustomAgent("any", config, soul)
    try:
        agents.update("local", agent)
    except NotFound:
        agents.create("local", agent)
    assert agents.load("local", "any").config == config
    assert agents.load("local", "any").soul.split() == soul.lstrip("\ufeff").split()


def test_concurrent_creation_of_one_name_is_a_conflict(agents: CustomAgents) -> None:
    results: list[str] = []

    def attempt(soul: str) -> None:
        try:
            agents.create("local", replace(ADA, soul=soul))
            results.append("made")
        except Conflict:
            results.append("conflict")

    threads = [threading.Thread(target=attempt, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(results) == ["conflict"] * 7 + ["made"]
    assert len(agents.list("local")) == 1


def test_an_agent_is_updated_and_deleted(agents: CustomAgents) -> None:
    agents.create("local", ADA)
    changed = replace(ADA, config=CustomAgentConfig(description="Adds"), soul="You add.")
    agents.update("local", changed)
    assert agents.load("local", "ada") == changed
    agents.delete("local", "ada")
    assert agents.list("local") == ()


def test_agents_are_private_to_their_user(agents: CustomAgents) -> None:
    agents.create("one", ADA)
    assert agents.list("two") == ()
    with pytest.raises(NotFound):
        agents.load("two", "ada")


def test_shared_agents_are_read_only(agents: CustomAgents, tmp_path: Path) -> None:
    shared = tmp_path / "agents/ada"
    shared.mkdir(parents=True)
    (shared / "SOUL.md").write_text("shared")
    assert agents.load("local", "ada") == CustomAgent("ada", soul="shared")
    with pytest.raises(Conflict, match="shared by all users"):
        agents.update("local", ADA)
    with pytest.raises(Conflict, match="shared by all users"):
        agents.delete("local", "ada")
    agents.create("local", ADA)
    assert agents.load("local", "ada") == ADA, "one's own goes first"
    assert agents.list("local") == (ADA,)
    assert agents.load("other", "ada").soul == "shared"


def test_an_unchanged_agent_is_cached_and_a_change_is_detected(agents: CustomAgents, tmp_path: Path) -> None:
    agents.create("local", ADA)
    assert agents.load("local", "ada") is agents.load("local", "ada")
    (tmp_path / "users/local/agents/ada/SOUL.md").write_text("edited")
    assert agents.load("local", "ada").soul == "edited"

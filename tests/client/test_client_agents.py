"""Custom agents, from Python."""

from typing import Any

import pytest

from deerflow.client import DeerFlowClient
from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.testing import ScriptedModel

USUAL: dict[str, Any] = {
    "description": "",
    "model": None,
    "tool_groups": None,
    "skills": None,
    "model_settings": {"temperature": None, "max_tokens": None},
    "thinking_enabled": None,
    "reasoning_effort": None,
    "soul": "",
}


@pytest.fixture
def client() -> Any:
    with DeerFlowClient(model=ScriptedModel.saying("Hello.")) as client:
        yield client


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"modle": "x"}, "modle: unknown key; did you mean 'model'?"),
        ({"model_settings": {"temperature": 3}}, "model_settings.temperature: "),
        ({"skills": "research"}, "skills: "),
        ({"soul": None}, "soul: "),
    ],
)
def test_a_field_that_makes_no_sense_is_named(client: DeerFlowClient, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        client.create_agent("ada", **fields)
    assert problem in str(caught.value) and "agent 'ada'" in str(caught.value)
    assert client.list_agents() == []


def test_what_is_not_there_or_taken_is_refused(client: DeerFlowClient) -> None:
    for attempt in (
        lambda: client.get_agent("ada"),
        lambda: client.update_agent("ada", soul="x"),
        lambda: client.delete_agent("ada"),
    ):
        with pytest.raises(NotFound, match="there is no agent 'ada'"):
            attempt()
    with pytest.raises(InvalidRequest, match="an agent's name is"):
        client.create_agent("../ada")
    client.create_agent("ada")
    with pytest.raises(Conflict, match="already an agent 'ada'"):
        client.create_agent("ada")


def test_an_agent_is_made_changed_and_removed(client: DeerFlowClient) -> None:
    made = client.create_agent("ada", soul="You count.", skills=[], model_settings={"temperature": 0.5})
    whole = {**USUAL, "name": "ada", "soul": "You count.", "skills": []}
    assert made == {**whole, "model_settings": {"temperature": 0.5, "max_tokens": None}}
    changed = client.update_agent("ada", skills=None, tool_groups=("web",))
    assert changed == {**made, "skills": None, "tool_groups": ["web"]} == client.get_agent("ada")
    assert client.list_agents() == [changed]
    client.delete_agent("ada")
    assert client.list_agents() == []


async def test_the_async_faces_do_the_same() -> None:
    async with DeerFlowClient(model=ScriptedModel.saying()) as client:
        made = await client.acreate_agent("ada", soul="You count.")
        assert await client.alist_agents() == [made] == [await client.aget_agent("ada")]
        assert (await client.aupdate_agent("ada", soul="You add."))["soul"] == "You add."
        await client.adelete_agent("ada")
        assert await client.alist_agents() == []


def test_an_agent_that_was_made_answers() -> None:
    model = ScriptedModel.saying("One.")
    with DeerFlowClient(model=model, agent_name="ada") as client:
        client.create_agent("ada", soul="You count.")
        assert client.chat("Hi") == "One."
    assert "You count." in model.requests[0].messages[0].text

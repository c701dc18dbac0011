"""Custom agents."""

from typing import Any

import pytest

from deerflow.client import DeerFlowClient
from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.testing import ScriptedModel

DEFAULTS: dict[str, Any] = {
    "description": "",
    "model": None,
    "tool_groups": None,
    "skills": None,
    "model_settings": {"temperature": None, "max_tokens": None},
    "thinking_enabled": None,
    "reasoning_effort": None,
    "starters": [],
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
def test_an_invalid_field_is_named_in_the_error(client: DeerFlowClient, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        client.agents.create("ada", **fields)
    assert problem in str(caught.value) and "agent 'ada'" in str(caught.value)
    assert client.agents.list() == []


def test_a_missing_or_existing_name_is_refused(client: DeerFlowClient) -> None:
    for attempt in (
        lambda: client.agents.get("ada"),
        lambda: client.agents.update("ada", soul="x"),
        lambda: client.agents.delete("ada"),
    ):
        with pytest.raises(NotFound, match="there is no agent 'ada'"):
            attempt()
    with pytest.raises(InvalidRequest, match="an agent name is"):
        client.agents.create("../ada")
    client.agents.create("ada")
    with pytest.raises(Conflict, match="already an agent 'ada'"):
        client.agents.create("ada")


def test_agents_are_created_updated_and_deleted(client: DeerFlowClient) -> None:
    made = client.agents.create("ada", soul="You count.", skills=[], model_settings={"temperature": 0.5})
    unshared = {"shared_by": None, "access": None, "has_editors": False}
    whole = {**DEFAULTS, **unshared, "name": "ada", "soul": "You count.", "skills": []}
    assert made == {**whole, "model_settings": {"temperature": 0.5, "max_tokens": None}}
    changed = client.agents.update("ada", skills=None, tool_groups=("web",))
    assert changed == {**made, "skills": None, "tool_groups": ["web"]} == client.agents.get("ada")
    assert client.agents.list() == [changed]
    client.agents.delete("ada")
    assert client.agents.list() == []


async def test_async_methods_do_the_same() -> None:
    async with DeerFlowClient(model=ScriptedModel.saying()) as client:
        made = await client.agents.acreate("ada", soul="You count.")
        assert await client.agents.alist() == [made] == [await client.agents.aget("ada")]
        assert (await client.agents.aupdate("ada", soul="You add."))["soul"] == "You add."
        await client.agents.adelete("ada")
        assert await client.agents.alist() == []


def test_a_created_agent_answers() -> None:
    model = ScriptedModel.saying("One.")
    with DeerFlowClient(model=model, agent_name="ada") as client:
        client.agents.create("ada", soul="You count.")
        assert client.chat("Hi") == "One."
    assert "You count." in model.requests[0].messages[0].text

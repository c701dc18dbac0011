"""What the client returns is what the HTTP API shows, field by field."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from deerflow.client import DeerFlowClient
from deerflow.config.source import open_source
from deerflow.gateway.routers.agents import Agent
from deerflow.gateway.routers.models import Model, Models
from deerflow.gateway.routers.threads import Thread
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel
from tests.support import browse

AGENT: dict[str, Any] = {
    "description": "Counts — 数",
    "model": "demo",
    "tool_groups": ["web"],
    "skills": [],
    "model_settings": {"temperature": 0.5, "max_tokens": 10},
    "thinking_enabled": False,
    "reasoning_effort": "low",
    "soul": "You count.",
}


@pytest.fixture
def client() -> Any:
    with DeerFlowClient(model=ScriptedModel.saying("One.", "Two.")) as client:
        client.chat("1", thread_id="t1")
        client.chat("2", thread_id="t2")
        client.create_agent("ada", **AGENT)
        client.create_agent("bob")
        yield client


def parses(model: type[BaseModel], shown: dict[str, Any]) -> bool:
    """Whether the gateway's model takes all that is shown, and shows the same again."""
    return model.model_validate(shown).model_dump(mode="json") == shown


def test_everything_parses_with_the_models_of_the_gateway_and_nothing_is_lost(client: DeerFlowClient) -> None:
    assert parses(Models, client.list_models())
    assert parses(Model, client.get_model("demo"))
    assert all(parses(Thread, thread) for thread in client.list_threads())
    thread = client.get_thread("t1")
    assert thread.pop("checkpoints") and parses(Thread, thread)
    assert all(parses(Agent, agent) for agent in client.list_agents())
    assert parses(Agent, client.get_agent("ada"))


async def test_the_wire_says_the_same(client: DeerFlowClient, tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={})
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        assert (await http.get("/api/models")).json() == await client.alist_models()
        assert (await http.get("/api/models/demo")).json() == await client.aget_model("demo")
        assert (await http.post("/api/threads/search", json={})).json() == await client.alist_threads()
        assert (await http.get("/api/agents")).json()["agents"] == await client.alist_agents()
        assert (await http.get("/api/agents/ada")).json() == await client.aget_agent("ada")
        thread = await client.aget_thread("t1")
        steps = thread.pop("checkpoints")
        assert (await http.get("/api/threads/t1")).json() == thread
        history = (await http.post("/api/threads/t1/history", json={"limit": 100})).json()
        assert [(state["checkpoint"]["checkpoint_id"], state["values"], state["metadata"]) for state in history] == [
            (step["checkpoint_id"], step["values"], step["metadata"]) for step in steps
        ]
        state = (await http.get("/api/threads/t1/state")).json()
        assert state["interrupts"] == await client.apending("t1")

"""Subagents of a program's own."""

from deerflow.client import DeerFlowClient
from deerflow.subagents import SubagentConfig
from deerflow.testing import ScriptedModel, calling


def test_a_program_brings_kinds_of_its_own() -> None:
    poet = SubagentConfig("poet", "Verses.", "You are a poet.", tools=("read_file",))
    order = calling("task", description="a verse", prompt="A line on deer.", subagent_type="poet")
    model = ScriptedModel.saying(order, "Antlers in the mist.", "There it is.")
    with DeerFlowClient(model=model, subagent_enabled=True, subagents=[poet]) as client:
        assert client.chat("go") == "There it is."
    lead, asked, _ = model.requests
    assert "- poet: Verses." in lead.messages[0].text
    assert "You are a poet." in asked.messages[0].text
    assert asked.tool_names == ["read_file"]

"""Tests of invisible characters in what servers say of themselves: models and people see them written out."""

import json
from pathlib import Path

from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.taint import INVISIBLE
from deerflow.mcp.pins import ToolPins
from deerflow.mcp.session.calls import Elicitation
from deerflow.mcp.status import McpPromptInfo, McpResourceInfo, McpToolInfo, ServerStatus, escape_status
from deerflow.mcp.tools import build_interrupt
from deerflow.persistence.engine import open_database
from deerflow.testing import calling
from tests.mcp.support import build_hostile_entry, open_mcp_harness

TAG = "\\u{e0073}"
"""Tag character that stands for an `s`, written out."""


async def test_model_sees_invisible_characters_of_a_tool_written_out(tmp_path: Path) -> None:
    async with open_mcp_harness(tmp_path, {"s": build_hostile_entry("hidden")}, "done") as world:
        await world.wait_until_listed()
        await world.run()
        (shown,) = [
            tool["function"] for tool in world.model.requests[0].tools if tool["function"]["name"] == "s_hidden"
        ]
        assert shown["description"].startswith(f"Adds numbers.{TAG}")
        unit = shown["parameters"]["properties"]["un\\u{200b}it"]
        assert unit == {"enum": ["m\\u{2060}", "km"], "description": "Unit\\u{202e} of length."}
        assert shown["parameters"]["required"] == ["un\\u{200b}it"]
        assert shown["parameters"]["properties"]["more"]["properties"]["x"]["default"] == "\\u{ad}"
        assert not INVISIBLE.search(json.dumps(shown, ensure_ascii=False))


async def test_server_gets_the_values_it_has_listed(tmp_path: Path) -> None:
    call = calling("s_hidden", **{"un\\u{200b}it": "m\\u{2060}", "more": {"x": "\\u{ad}", "y": ["kept"]}})
    async with open_mcp_harness(tmp_path, {"s": build_hostile_entry("hidden")}, call, "done") as world:
        await world.wait_until_listed()
        await world.run()
        (result,) = await world.results()
        assert json.loads(result.text) == {"un\u200bit": "m\u2060", "more": {"x": "\u00ad", "y": ["kept"]}}


async def test_people_see_invisible_characters_in_status_and_pins(tmp_path: Path) -> None:
    async with open_mcp_harness(tmp_path, {"s": build_hostile_entry("hidden")}) as world:
        await world.wait_until_listed()
        (listed,) = [tool for tool in world.status("s").tools if tool.name == "hidden"]
        assert listed.description.startswith(f"Adds numbers.{TAG}") and listed.title == "Hid\\u{200b}den"
        assert "un\\u{200b}it" in listed.input_schema["properties"]
        pins = await world.harness.resources.mcp_servers.list_pins("s")
        (pin,) = [pin for pin in pins if pin.tool == "hidden"]
        assert pin.accepted is not None
        assert pin.accepted.shown["description"].startswith(f"Adds numbers.{TAG}")
        assert "un\\u{200b}it" in pin.accepted.shown["input_schema"]
        assert (await world.harness.resources.mcp_servers.get("s", LOCAL_USER.user_id)).status.state == "ready"


async def test_an_added_invisible_character_is_a_change_that_is_shown(tmp_path: Path) -> None:
    async with open_database(tmp_path / "d.db") as database:
        pins = ToolPins(database)
        await pins.check("s", [McpToolInfo("add", "Adds.")])
        assert (await pins.check("s", [McpToolInfo("add", "Adds.\u200b")])).accepted == ()
        (pin,) = await pins.list("s")
        assert pin.accepted is not None and pin.offered is not None
        assert pin.accepted.shown["description"] == "Adds."
        assert pin.offered.shown["description"] == "Adds.\\u{200b}"


def test_people_see_invisible_characters_of_resources_prompts_and_changed_tools() -> None:
    resource = McpResourceInfo("file:///a", "a\ud800", "A\u2066 file")
    prompt = McpPromptInfo("p\u200b", "A\ufeff prompt", ("q\u200b",))
    status = ServerStatus("s", "changed", resources=(resource,), prompts=(prompt,), changed_tools=("t\u200b",))
    shown = escape_status(status)
    assert shown.resources == (McpResourceInfo("file:///a", "a\\u{d800}", "A\\u{2066} file"),)
    assert shown.prompts == (McpPromptInfo("p\\u{200b}", "A\\u{feff} prompt", ("q\\u{200b}",)),)
    assert shown.changed_tools == ("t\\u{200b}",)


def test_questions_are_shown_with_invisible_characters() -> None:
    (asked,) = build_interrupt("t", Elicitation("Delete\u202e it?"))["action_requests"]
    assert asked["description"] == "Delete\\u{202e} it?"

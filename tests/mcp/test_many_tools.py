"""Tests of deferred tools with a server of three hundred tools."""

from pathlib import Path

from langchain_core.messages import SystemMessage

from deerflow.testing import calling
from tests.mcp.support import DEPOT_SERVER, PYTHON, open_mcp_harness

ENTRY = {"command": PYTHON, "args": [str(DEPOT_SERVER)], "paths": [str(DEPOT_SERVER)]}


async def test_only_names_of_tools_are_in_the_prompt_until_one_is_loaded(tmp_path: Path) -> None:
    turns = (
        calling("depot_part_007", amount=2),
        calling("tool_search", query="+part 007"),
        calling("depot_part_007", amount=3),
        "There they are.",
    )
    async with open_mcp_harness(
        tmp_path, {"depot": ENTRY}, *turns, guardrails={"enabled": True}, tool_search={}
    ) as world:
        await world.wait_until_listed()
        await world.run()
        refused, _, fetched = await world.results()
    assert "is not loaded" in refused.text and fetched.text == "3 of part_007"
    offered = [[name for name in call.tool_names if name.startswith("depot_")] for call in world.model.requests]
    assert offered[0] == offered[1] == [] and "depot_part_007" in offered[2]
    prompts = [
        message.text for call in world.model.requests for message in call.messages if isinstance(message, SystemMessage)
    ]
    names = ", ".join(f"depot_part_{number:03}" for number in range(300))
    assert f"\ndepot: {names}\n" in prompts[0] and len(set(prompts)) == 1
    assert "shelf it lies on" not in prompts[0]


async def test_preferred_tools_are_listed_first_and_loaded_by_keywords(
    tmp_path: Path,
) -> None:
    def prefer(priority: int, *keywords: str) -> dict[str, object]:
        return {"routing": {"mode": "prefer", "priority": priority, "keywords": keywords}}

    off = {"routing": {"mode": "off", "keywords": ["screw"]}}
    tools = {"part_007": prefer(5, "screw", "螺丝"), "part_008": prefer(9, "SCREW"), "part_009": off}
    turns = ("No.", calling("depot_part_008", amount=2), "Yes.", calling("depot_part_007"), "Again.", "All.")
    entry = {**ENTRY, **prefer(1, "depot"), "tools": tools}
    async with open_mcp_harness(tmp_path, {"depot": entry}, *turns, tool_search={}) as world:
        await world.wait_until_listed()
        for said in ("Find my screwdriver", "Two screws, or one Screw?", "And now?", "我要螺丝，来自depot的"):
            await world.run(said=said)
        results = [result.text for result in await world.results()]
    assert results == ["2 of part_008", "1 of part_007"]
    offered = [{name for name in call.tool_names if name.startswith("depot_")} for call in world.model.requests]
    loaded = {"depot_part_007", "depot_part_008"}
    assert offered[:5] == [set(), loaded, loaded, loaded, loaded]
    # The best three of the three hundred tools of the depot; one of them was loaded before.
    assert offered[5] == loaded | {"depot_part_000", "depot_part_001"}
    prompt = next(each.text for each in world.model.requests[0].messages if isinstance(each, SystemMessage))
    hints = prompt.partition("<mcp_routing_hints>")[2].partition("</mcp_routing_hints>")[0]
    assert hints.splitlines()[2:] == [
        "- depot_part_008: SCREW",
        "- depot_part_007: screw, 螺丝",
        "- the tools of depot: depot",
    ]

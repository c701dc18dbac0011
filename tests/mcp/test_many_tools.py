"""A real server with three hundred tools: the model reads their names, asks for one, and uses it."""

from pathlib import Path

from langchain_core.messages import SystemMessage

from deerflow.testing import calling
from tests.mcp.desk import PYTHON, desk_with

SERVER = Path(__file__).with_name("depot_server.py")
ENTRY = {"command": PYTHON, "args": [str(SERVER)], "paths": [str(SERVER)]}


async def test_of_three_hundred_tools_of_a_server_only_names_are_told_until_one_is_asked_for(tmp_path: Path) -> None:
    turns = (
        calling("depot_part_007", amount=2),
        calling("tool_search", query="+part 007"),
        calling("depot_part_007", amount=3),
        "There they are.",
    )
    async with desk_with(tmp_path, {"depot": ENTRY}, *turns, guardrails={"enabled": True}, tool_search={}) as desk:
        await desk.ready()
        await desk.run()
        refused, _, fetched = await desk.results()
    assert "is not loaded" in refused.text and fetched.text == "3 of part_007"
    offered = [[name for name in call.tool_names if name.startswith("depot_")] for call in desk.model.requests]
    assert offered[0] == offered[1] == [] and "depot_part_007" in offered[2]
    prompts = [
        message.text for call in desk.model.requests for message in call.messages if isinstance(message, SystemMessage)
    ]
    names = ", ".join(f"depot_part_{number:03}" for number in range(300))
    assert f"\ndepot: {names}\n" in prompts[0] and len(set(prompts)) == 1
    assert "shelf it lies on" not in prompts[0]

"""Servers as people install them, used in real runs."""

from pathlib import Path

from deerflow.testing import calling
from tests.mcp.desk import desk_with
from tests.mcp.installed import EVERYTHING, npm_server


async def test_a_server_from_npm_is_used_in_a_run(tmp_path: Path) -> None:
    servers = {"everything": {"command": str(npm_server(EVERYTHING))}}
    async with desk_with(tmp_path, servers, calling("everything_echo", message="hello"), "done") as desk:
        await desk.ready()
        await desk.run()
        print(desk.status("everything"))
        print(desk.offered())
        print(await desk.results())
        assert 0

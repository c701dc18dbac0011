"""Which parts a server has."""

from pathlib import Path

import httpx

from deerflow.config.source import open_source
from deerflow.gateway.app import create_app
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel


async def test_a_server_says_which_parts_it_has(tmp_path: Path) -> None:
    async with open_harness(open_source(directory=tmp_path, environment={}), ScriptedModel.saying()) as harness:
        app = create_app(harness)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http:
            said = (await http.get("/api/features")).json()
            assert said.keys() == {"uploads", "suggestions", "input_polish"}
        app.add_api_route("/api/input-polish", lambda: None, methods=["POST"])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http:
            assert (await http.get("/api/features")).json()["input_polish"] is True

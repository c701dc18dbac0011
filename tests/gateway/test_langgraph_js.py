"""The API with the JavaScript client of LangGraph, its stream reader and its React hook."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.support import open_langgraph_api
from tests.support import dependencies, install_once, key_of, needs

SCRIPT = Path(__file__).with_name("langgraph_js.mjs")
PACKAGES = dependencies()["npm"]["langgraph_client"]
GROUPS = ["threads", "states", "runs", "streams", "joins", "pauses", "stops", "assistants", "store", "hook"]


@pytest.mark.external
@pytest.mark.timeout(200)  # the first time the packages are installed
async def test_all_method_groups_of_the_javascript_client_work(tmp_path: Path) -> None:
    node = needs("node")
    folder = await asyncio.to_thread(install_packages, needs("npm"))
    async with open_langgraph_api(tmp_path) as http, asyncio.timeout(60):
        address = str(http.base_url).rstrip("/")
        process = await asyncio.create_subprocess_exec(
            *(node, SCRIPT, folder, address), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    done = [line.removeprefix("ok ") for line in output.decode().splitlines() if line.startswith("ok ")]
    assert (process.returncode, done) == (0, GROUPS), output.decode()


def install_packages(npm: str) -> Path:
    """Return a folder with the npm packages, installed once for all workers."""
    command = [npm, "install", "--no-audit", "--no-fund", "--silent", "--prefix"]
    return install_once(f"langgraph-js-{key_of(*PACKAGES)}", lambda place: [[*command, place, *PACKAGES]])

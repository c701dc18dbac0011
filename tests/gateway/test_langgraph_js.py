"""The API driven by its real JavaScript client, its stream reader and its React hook."""

import asyncio
import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gateway.test_langgraph_sdk import langgraph_api
from tests.support import needs, user_cache

SCRIPT = Path(__file__).with_name("langgraph_js.mjs")
PACKAGES = (
    "@langchain/langgraph-sdk@2.0.0",
    "@langchain/core@1.2.13",
    "react@19.2.0",
    "react-dom@19.2.0",
    "react-test-renderer@19.2.0",
)
GROUPS = ["threads", "states", "runs", "streams", "joins", "pauses", "stops", "assistants", "store", "hook"]


@pytest.mark.timeout(200)  # the first time the packages are installed
async def test_the_javascript_client_works_through_every_group_of_methods(tmp_path: Path) -> None:
    node = needs("node")
    folder = await asyncio.to_thread(installed, needs("npm"))
    async with langgraph_api(tmp_path) as http, asyncio.timeout(60):
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


def installed(npm: str) -> Path:
    """A folder with the packages, made once for all tests and workers that want the same versions."""
    key = hashlib.sha256("\n".join(PACKAGES).encode()).hexdigest()[:12]
    cache = user_cache() / "deerflow-tests"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"langgraph-js-{key}"
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            (folder / "package.json").write_text("{}")
            command = [npm, "install", "--no-audit", "--no-fund", "--silent", *PACKAGES]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=150, check=False)
            assert done.returncode == 0, f"the packages could not be installed:\n{done.stderr}"
            (folder / "complete").touch()
    return folder

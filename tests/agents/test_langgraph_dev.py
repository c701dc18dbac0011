"""The lead agent under a server of somebody else's: the real `langgraph dev`, in an environment of its own."""

import asyncio
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.support import dependencies, install_once, key_of

ROOT = Path(__file__).parents[2]
SERVER = dependencies()["pypi"]["langgraph_server"]
QUESTIONS = {"How do I connect a real model?": "OPENAI_API_KEY", "What is DeerFlow, and what can it do?": "harness"}


@pytest.mark.external
@pytest.mark.timeout(300)  # the first time it is installed
async def test_the_agent_answers_and_remembers_under_langgraph_dev(tmp_path: Path) -> None:
    program = await asyncio.to_thread(installed)
    async with serving(program, tmp_path) as http, asyncio.timeout(60):
        thread = (await http.post("/threads", json={})).json()["thread_id"]
        for question, answer in QUESTIONS.items():
            messages = [{"role": "user", "content": question}]
            body = {"assistant_id": "lead_agent", "input": {"messages": messages}, "context": {"is_plan_mode": True}}
            alone = (await http.post("/runs/wait", json=body)).json()
            state = (await http.post(f"/threads/{thread}/runs/wait", json=body)).json()
            assert [message["type"] for message in alone["messages"]] == ["human", "ai"], alone
            assert answer in alone["messages"][-1]["content"]
        assert [message["content"] for message in state["messages"]][::2] == list(QUESTIONS)


@asynccontextmanager
async def serving(program: Path, directory: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of `langgraph dev` in a copy of what a clone has; nothing of this machine reaches it, no key either."""
    shutil.copy(ROOT / "langgraph.json", directory)
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(program, "dev", "--no-browser", "--no-reload", "--port", str(port)),
        cwd=directory,
        env={"PATH": os.defpath, "HOME": str(directory), "LANGGRAPH_CLI_NO_ANALYTICS": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(60):
            output = await output_until(process, b"Application started up")
        reading = asyncio.create_task(output.read())  # a full pipe would stop the server
        # It says so a moment before it listens.
        transport = httpx.AsyncHTTPTransport(retries=8)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", transport=transport, timeout=30) as http:
            yield http
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    await reading


async def output_until(process: asyncio.subprocess.Process, word: bytes) -> asyncio.StreamReader:
    """The output of a process, read up to the line with `word` in it."""
    assert process.stdout is not None
    seen = b""
    async for line in process.stdout:
        seen += line
        if word in line:
            return process.stdout
    pytest.fail(f"the server ended at once:\n{seen.decode(errors='replace')}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def installed() -> Path:
    """`langgraph` beside this project, installed once for all tests and workers that want the same versions."""
    versions, uv = ROOT / "requirements.lock", ROOT / ".venv/bin/uv"
    key = key_of(*SERVER, sys.version, str(ROOT), versions.read_text())
    folder = install_once(
        f"langgraph-dev-{key}",
        lambda venv: [
            [uv, "venv", "-q", "--allow-existing", "--python", sys.executable, venv],
            [uv, "pip", "install", "-q", "--python", venv / "bin/python", "-c", versions, "-e", ROOT, *SERVER],
        ],
    )
    return folder / "bin/langgraph"

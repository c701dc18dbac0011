"""The lead agent under the real `langgraph dev` in its own virtual environment."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest
import yaml

from deerflow.testing import Answer, ScriptedServer, calling
from tests.agents.support import ROOT, free_port, installed, output_until

QUESTIONS = {"How do I connect a real model?": "OPENAI_API_KEY", "What is DeerFlow, and what can it do?": "harness"}


@pytest.mark.external
@pytest.mark.timeout(300)  # installs packages on the first run
async def test_the_agent_answers_and_keeps_threads_under_langgraph_dev(tmp_path: Path) -> None:
    program = await asyncio.to_thread(installed)
    async with serve_langgraph(program, tmp_path) as http, asyncio.timeout(60):
        thread = (await http.post("/threads", json={})).json()["thread_id"]
        for question, answer in QUESTIONS.items():
            messages = [{"role": "user", "content": question}]
            body = {"assistant_id": "lead_agent", "input": {"messages": messages}, "context": {"is_plan_mode": True}}
            stateless = (await http.post("/runs/wait", json=body)).json()
            state = (await http.post(f"/threads/{thread}/runs/wait", json=body)).json()
            assert [message["type"] for message in stateless["messages"]] == ["human", "ai"], stateless
            assert answer in stateless["messages"][-1]["content"]
        assert [message["content"] for message in state["messages"]][::2] == list(QUESTIONS)


@pytest.mark.external
@pytest.mark.timeout(300)  # installs packages on the first run
async def test_the_agent_has_its_sandbox_and_streams_under_langgraph_dev(tmp_path: Path) -> None:
    program = await asyncio.to_thread(installed)
    command = calling("bash", description="see", command="echo from-the-sandbox; pwd")
    async with ScriptedServer([command, Answer("It is done.")]) as server:
        model = server.model_config().model_dump(exclude_none=True, exclude={"fallback"})
        (tmp_path / "config.yaml").write_text(yaml.safe_dump({"models": [model]}))
        async with serve_langgraph(program, tmp_path) as http, asyncio.timeout(60):
            thread = (await http.post("/threads", json={})).json()["thread_id"]
            body = {
                "assistant_id": "lead_agent",
                "input": {"messages": [{"role": "user", "content": "Go on"}]},
                "stream_mode": ["values", "messages-tuple"],
            }
            streamed = (await http.post(f"/threads/{thread}/runs/stream", json=body)).text
            messages = (await http.get(f"/threads/{thread}/state")).json()["values"]["messages"]
    results = [message["content"] for message in messages if message["type"] == "tool"]
    assert results == ["from-the-sandbox\n/mnt/user-data/workspace"]
    assert messages[-1]["content"] == "It is done."
    assert "AIMessageChunk" in streamed  # token by token, not only whole states


@asynccontextmanager
async def serve_langgraph(program: Path, directory: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Start `langgraph dev` without variables of this machine and return a client."""
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
        reader = asyncio.create_task(output.read())  # a full pipe would block the server
        # The message is printed shortly before the server listens.
        transport = httpx.AsyncHTTPTransport(retries=8)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", transport=transport, timeout=30) as http:
            yield http
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    await reader

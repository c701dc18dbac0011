"""A server killed when a run has reached its breakpoint but the journal does not show it yet."""

import asyncio
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from deerflow.domain.tools import read_only
from deerflow.testing import Answer, ScriptedServer, calling
from tests.e2e.server_process import ServerLauncher

CONFIG = """
memory: {{debounce_seconds: 3600}}
models:
  - name: scripted
    use: deerflow.models.openai_compatible:OpenAICompatibleChatModel
    model: scripted
    base_url: {base_url}
tools:
  - {{name: wait_for, group: test, use: "tests.e2e.test_kill_at_breakpoint:wait_for"}}
sandbox: {{toolbox: {{enabled: false}}}}
title: {{enabled: false}}
"""
BODY = {
    "input": {"messages": [{"type": "human", "content": "Wait"}]},
    "interrupt_after": ["tools"],
    "on_disconnect": "continue",
}


@read_only
async def wait_for(bell: str) -> str:
    """Wait until a pipe is written and closed.

    Args:
        bell: A pipe.
    """
    return await asyncio.to_thread(Path(bell).read_text)


def count_checkpoints(home: Path) -> int:
    """Return the number of checkpoints."""
    with closing(sqlite3.connect(home / "data" / "checkpoints.db")) as connection:
        count: int = connection.execute("SELECT count(*) FROM checkpoints").fetchone()[0]
        return count


@pytest.mark.timeout(120)
async def test_a_run_whose_server_is_killed_at_a_breakpoint_is_interrupted(tmp_path: Path) -> None:
    bell = tmp_path / "bell"
    os.mkfifo(bell)
    replies = [calling("wait_for", bell=str(bell)), Answer("Done.")]
    async with ScriptedServer(replies) as model, asyncio.timeout(100):
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(base_url=model.base_url))
        servers = ServerLauncher(tmp_path, config)
        with servers.start() as (url, pid):
            run = await start_run(url)
            writer = await asyncio.to_thread(bell.open, "w")  # the tool was called and waits
            async with httpx.AsyncClient(timeout=30) as http:
                await http.get(f"{url}/api/threads/t/state")  # checkpoints that wait are written before one is read
            checkpoints = count_checkpoints(tmp_path)
            with closing(sqlite3.connect(tmp_path / "data" / "deerflow.db", isolation_level=None)) as journal:
                journal.execute("BEGIN IMMEDIATE")  # checkpoints are in another database
                writer.write("rung")
                writer.close()
                while await asyncio.to_thread(count_checkpoints, tmp_path) == checkpoints:
                    pass
                os.kill(pid, signal.SIGKILL)
        with servers.start() as (url, _):
            async with httpx.AsyncClient(base_url=f"{url}/api", timeout=30) as http:
                await http.get(f"/threads/t/runs/{run}/join")
                assert (await http.get(f"/threads/t/runs/{run}")).json()["status"] == "interrupted"
                state = (await http.get("/threads/t/state")).json()
                assert [message["content"] for message in state["values"]["messages"]] == ["Wait", "", "rung"]
                assert state["next"] == ["model"] and len(model.requests) == 1
                resumed = await http.post("/threads/t/runs/wait", json={"input": None})
                assert resumed.json()["messages"][-1]["content"] == "Done."


async def start_run(url: str) -> str:
    """Start a run and return its id."""
    async with httpx.AsyncClient(base_url=f"{url}/api", timeout=30) as http:
        run_id: str = (await http.post("/threads/t/runs", json=BODY)).json()["run_id"]
        return run_id

"""Tests of `deerflow mcp`, started as a process."""

import json
import os
import sys
from pathlib import Path

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from deerflow.testing import ScriptedServer, calling
from tests.serving.support import get_data

DEERFLOW = Path(sys.executable).parent / "deerflow"


@pytest.mark.slow
async def test_serves_on_stdio_and_prints_nothing_else(tmp_path: Path) -> None:
    looks = calling("ls", description="Look", path="/mnt/user-data")
    async with ScriptedServer([looks, "All seen."]) as model:
        entry = model.model_config().model_dump(mode="json", exclude_none=True)
        quiet = {"title": {"enabled": False}, "memory": {"enabled": False}, "log_level": "debug"}
        (tmp_path / "config.yaml").write_text(json.dumps({"models": [entry], **quiet}))
        variables = {"PATH": os.defpath, "HOME": str(tmp_path)}
        command = StdioServerParameters(command=str(DEERFLOW), args=["mcp"], cwd=tmp_path, env=variables)
        progress_messages: list[str | None] = []

        async def record_progress(progress: float, total: float | None, message: str | None) -> None:
            progress_messages.append(message)

        with (tmp_path / "log").open("w") as log:
            async with stdio_client(command, log) as streams, ClientSession(*streams) as session:
                hello = await session.initialize()
                assert hello.serverInfo.name == "deerflow"
                answer = get_data(
                    await session.call_tool("ask", {"prompt": "Look."}, progress_callback=record_progress)
                )
                assert answer["answer"] == "All seen." and "uses ls" in progress_messages
                threads = get_data(await session.call_tool("list_threads", {}))["threads"]
                assert [each["thread_id"] for each in threads] == [answer["thread_id"]]
    assert "Traceback" not in (tmp_path / "log").read_text()

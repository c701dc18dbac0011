"""Tests with published servers from npm and PyPI in real runs."""

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deerflow.testing import calling
from tests.mcp.installed import EVERYTHING, FILESYSTEM, MEMORY, npm_server, pypi_server
from tests.mcp.support import open_mcp_harness
from tests.servers import read_until
from tests.support import needs

pytestmark = [pytest.mark.external, pytest.mark.timeout(400)]  # the first time on a machine they are fetched
WORKSPACE = "/mnt/user-data/workspace"


async def test_uses_servers_from_npm(tmp_path: Path) -> None:
    servers = {
        "everything": {"command": str(npm_server(EVERYTHING))},
        "files": {"command": str(npm_server(FILESYSTEM)), "args": [WORKSPACE]},
        "memory": {"command": str(npm_server(MEMORY)), "env": {"MEMORY_FILE_PATH": f"{WORKSPACE}/memory.json"}},
    }
    deer = {"name": "Deer", "entityType": "animal", "observations": ["runs"]}
    turns = (
        calling("everything_echo", message="hello"),
        calling("everything_get-tiny-image"),
        calling("everything_get-structured-content", location="New York"),
        calling("files_write_file", path=f"{WORKSPACE}/note.txt", content="from a server"),
        calling("bash", description="look", command="cat note.txt"),
        calling("files_read_text_file", path="/etc/passwd"),
        calling("memory_create_entities", entities=[deer]),
        calling("memory_read_graph"),
        "done",
    )
    async with open_mcp_harness(tmp_path, servers, *turns) as world:
        await world.wait_until_listed()
        await world.run()
        echo, image, structured, wrote, read, outside, created, graph = await world.results()
        assert echo.text == "Echo: hello"
        assert "an image, image/png, which this model cannot see" in image.text
        assert structured.artifact["structured_content"].keys() == {"temperature", "conditions", "humidity"}
        assert "Successfully wrote" in wrote.text and "from a server" in read.text
        assert outside.status == "error" and "outside allowed directories" in outside.text
        assert created.status == "success" and "runs" in graph.text
        status = world.status("everything")
        assert status.resources and "simple-prompt" in {prompt.name for prompt in status.prompts}


async def test_uses_servers_from_pypi(tmp_path: Path) -> None:
    servers = {
        "time": {"command": str(pypi_server("mcp-server-time")), "args": ["--local-timezone=UTC"]},
        "git": {"command": str(pypi_server("mcp-server-git"))},
        "fetch": {
            "command": str(pypi_server("mcp-server-fetch")),
            "args": ["--ignore-robots-txt", "--allow-private-ips"],
            "network": True,
        },
    }
    page = await asyncio.start_server(serve_page, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{page.sockets[0].getsockname()[1]}/"
    turns = (
        calling("time_convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"),
        calling("bash", description="make", command="git init -q r && touch r/deer.txt"),
        calling("git_git_status", repo_path=f"{WORKSPACE}/r"),
        calling("fetch_fetch", url=url),
        "done",
    )
    async with page, open_mcp_harness(tmp_path, servers, *turns) as world:
        await world.wait_until_listed()
        await world.run()
        converted, _, status, fetched = await world.results()
        assert "21:00" in converted.text
        assert "deer.txt" in status.text
        assert "deer in the woods" in fetched.text


@pytest.mark.parametrize(("kind", "place"), [("http", "mcp"), ("sse", "sse")])
async def test_uses_remote_servers(tmp_path: Path, kind: str, place: str) -> None:
    with serve_everything("streamableHttp" if kind == "http" else kind) as port:
        servers = {"far": {"type": kind, "url": f"http://127.0.0.1:{port}/{place}"}}
        turns = (
            calling("far_echo", message="hello"),
            calling("far_trigger-long-running-operation", duration=0.2, steps=2),
            "done",
        )
        async with open_mcp_harness(tmp_path, servers, *turns) as world:
            await world.wait_until_listed()
            run = await world.start()
            progress = await world.wait_for_progress(run)
            await world.wait_until_ended(run)
            echo, operation = await world.results()
            assert echo.text == "Echo: hello"
            assert "Long running operation completed" in operation.text
            assert progress and progress[0].startswith("1/2")


async def test_reports_unreachable_remote_server(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1] + 1}/mcp"
        servers = {kind: {"type": kind, "url": url, "session_init_timeout": 5} for kind in ("http", "sse")}
        async with open_mcp_harness(tmp_path, servers, "done") as world:
            await world.wait_until_listed()
            assert {world.status(kind).state for kind in servers} == {"failed"}
            assert all("onnect" in str(world.status(kind).error) for kind in servers)


async def serve_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request."""
    await reader.readuntil(b"\r\n\r\n")
    body = b"deer in the woods"
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n" + body)
    await writer.drain()
    writer.close()


@contextmanager
def serve_everything(way: str) -> Iterator[int]:
    """Yield the port of server-everything over HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(npm_server(EVERYTHING)), way]
    environment = {"PORT": str(port), "PATH": f"{Path(needs('node')).parent}:/usr/local/bin:/usr/bin:/bin"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert str(port) in read_until(process, str(port))
            yield port
        finally:
            process.kill()

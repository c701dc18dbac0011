"""Tools that block: they hold up neither the server nor other runs, and their own run can be stopped."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.harness.core import TOOL_THREADS
from deerflow.testing import Answer, ScriptedServer, calling
from deerflow.testing.scripted_server import ServerRequest
from tests.gateway.blocking_tool import Barrier
from tests.support import browse
from tests.uploads.multipart import HEADERS, build_body, build_part

BLOCK = "block"
FUNCTION = "tests.gateway.blocking_tool:wait_for_release"
CLASS = "tests.gateway.blocking_tool:WaitForRelease"
LIMIT_S = 20
"""Enough on a busy machine; a request that waits for a tool would take forever."""


@dataclass(frozen=True)
class BusyServer:
    """Server with a tool that blocks."""

    harness: Harness
    http: httpx.AsyncClient
    barrier: Barrier

    async def start(self, thread_id: str, text: str) -> RunRecord:
        request = RunRequest(thread_id, [{"type": "human", "content": text}])
        return await self.harness.runs.create_or_reject(request, LOCAL_USER)

    async def start_blocked(self, count: int) -> Sequence[RunRecord]:
        """Start runs whose tools block, as many as there are threads for."""
        runs = [await self.start(f"blocked-{number}", BLOCK) for number in range(count)]
        await self.barrier.wait_for_arrivals(min(count, TOOL_THREADS))
        return runs

    async def join(self, run: RunRecord) -> RunStatus:
        async with asyncio.timeout(LIMIT_S):
            ended = await self.harness.runs.join(run.thread_id, run.run_id, LOCAL_USER)
        return ended.status

    async def stop(self, run: RunRecord) -> RunStatus:
        async with asyncio.timeout(LIMIT_S):
            await self.harness.runs.cancel(run.thread_id, run.run_id, LOCAL_USER)
        return await self.join(run)


@asynccontextmanager
async def open_busy_server(home: Path, use: str) -> AsyncIterator[BusyServer]:
    folder = home / "barrier"

    def reply(request: ServerRequest) -> Answer:
        if request.messages[-1]["role"] == "tool":
            return Answer("Done.")
        asked = [str(message["content"]) for message in request.messages if message["role"] == "user"]
        return calling("wait_for_release", folder=str(folder)) if BLOCK in asked else Answer("Hello.")

    with Barrier.closed(folder) as barrier:
        async with ScriptedServer([reply], endless=True) as server:
            settings = {
                "models": [server.model_config().model_dump()],
                "tools": [{"name": "wait_for_release", "group": "test", "use": use}],
                "title": {"enabled": False},
                "memory": {"enabled": False},
                "uploads": {"conversion": {"enabled": False}},
            }
            source = open_source(directory=home, environment={}, overrides=settings)
            async with open_harness(source) as harness, browse(harness) as http:
                try:
                    yield BusyServer(harness, http, barrier)
                finally:
                    barrier.release()  # a harness does not close before its threads are free


@pytest.mark.slow
@pytest.mark.parametrize(("count", "use"), [(12, FUNCTION), (40, FUNCTION), (12, CLASS)])
async def test_everything_else_goes_on_while_tools_block(tmp_path: Path, count: int, use: str) -> None:
    async with open_busy_server(tmp_path, use) as server:
        runs = await server.start_blocked(count)
        await server.harness.threads.create(LOCAL_USER, "files", {}, may_exist=False)
        async with asyncio.timeout(LIMIT_S):
            url = "/api/threads/files"
            uploaded = await server.http.post(
                f"{url}/uploads", content=build_body(build_part("a.txt", b"text")), headers=HEADERS
            )
            assert uploaded.status_code == 200 and uploaded.json()["success"], uploaded.text
            assert (await server.http.get(f"{url}/uploads/list")).json()["count"] == 1
            listed = await server.http.get(f"{url}/files", params={"path": "/mnt/user-data/uploads"})
            assert "a.txt" in listed.text, listed.text
            threads = await server.http.post("/api/langgraph/threads/search", json={"limit": 100})
            assert len(threads.json()) == count + 1
        assert await server.join(await server.start("plain", "Hi")) is RunStatus.SUCCESS
        states = [await server.harness.runs.get(run.thread_id, run.run_id, LOCAL_USER) for run in runs]
        assert {state.status for state in states} == {RunStatus.RUNNING}, "they still block"
        server.barrier.release()
        assert [await server.join(run) for run in runs] == [RunStatus.SUCCESS] * count


@pytest.mark.slow
async def test_a_run_with_a_blocked_or_waiting_tool_can_be_stopped(tmp_path: Path) -> None:
    async with open_busy_server(tmp_path, FUNCTION) as server:
        runs = await server.start_blocked(TOOL_THREADS + 1)
        assert await server.stop(runs[0]) is RunStatus.INTERRUPTED
        assert await server.stop(runs[-1]) is RunStatus.INTERRUPTED
        server.barrier.release()
        assert {await server.join(run) for run in runs[1:-1]} == {RunStatus.SUCCESS}


async def test_a_synchronous_tool_returns_its_result(tmp_path: Path) -> None:
    async with open_busy_server(tmp_path, FUNCTION) as server:
        server.barrier.release()
        run = await server.start("t", BLOCK)
        assert await server.join(run) is RunStatus.SUCCESS
        state = await server.harness.threads.state("t", LOCAL_USER)
        assert b"released" in bytes(state.values)

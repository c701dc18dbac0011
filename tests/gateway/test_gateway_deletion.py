"""Deletion of threads leaves no data behind."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import redis
from langchain_core.language_models import BaseChatModel

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.canary import capture_all_logs, files_with, tables_with
from tests.mcp.support import DEPOT_SERVER, PYTHON, write_servers
from tests.sandbox.support import act
from tests.support import browse

CANARY = "canary4711kiwi"
CANARY_BODY = {"input": {"messages": [{"type": "human", "content": f"Say {CANARY}, please."}]}}


def create_canary_model() -> BaseChatModel:
    """Return a model that writes the word into answers, files, output and a background process."""
    return ScriptedModel.saying(
        act("write_file", path=f"/mnt/user-data/outputs/{CANARY}.md", content=f"# {CANARY}\n" * 300),
        act(
            "bash",
            command=f"echo {CANARY} | tee in-workspace.txt; echo {CANARY} > /tmp/{CANARY}; seq 9000; ls no{CANARY}",
        ),
        act("bash", command=f"echo {CANARY}; sleep 1000", background=True, name="clock"),
        act("present_files", filepaths=[f"/mnt/user-data/outputs/{CANARY}.md"]),
        f"{CANARY} " * 400,
        act("bash", command=f"echo {CANARY} >> in-workspace.txt; rm /tmp/{CANARY}"),
        f"Again: {CANARY}.",
        *(f"{CANARY} and more of it. " * number for number in range(1, 9)),
    )


@asynccontextmanager
async def open_server(
    home: Path, model: BaseChatModel, **settings: object
) -> AsyncIterator[tuple[Harness, httpx.AsyncClient]]:
    overrides = {"sandbox": {"toolbox": {"enabled": False}}, **settings}
    source = open_source(directory=home, environment={}, overrides=overrides)
    async with open_harness(source, model) as harness, browse(harness) as http:
        yield harness, http


async def write_canary_everywhere(http: httpx.AsyncClient, thread: str) -> None:
    """Put the word into every field of requests."""
    made = await http.post("/api/threads", json={"thread_id": thread, "metadata": {"topic": CANARY, CANARY: 1}})
    assert made.status_code == 200
    for _ in range(10):
        ended = await http.post(f"/api/threads/{thread}/runs/wait", json={**CANARY_BODY, "metadata": {"why": CANARY}})
        assert ended.status_code == 200, ended.text
    key = {"Idempotency-Key": f"key-{CANARY}"}
    await http.post(f"/api/threads/{thread}/runs", json={"input": None}, headers=key)  # refused
    changed = {"values": {"messages": [{"type": "human", "content": CANARY}]}, "as_node": "model"}
    assert (await http.post(f"/api/threads/{thread}/state", json=changed)).status_code == 200
    item = {"namespace": ["threads", thread, "notes"], "key": CANARY, "value": {"text": CANARY}}
    assert (await http.put("/api/store/items", json=item)).status_code == 204


async def create_other_threads(http: httpx.AsyncClient) -> None:
    """Create a thread that is kept."""
    words = {"input": {"messages": [{"type": "human", "content": "Something else."}]}}
    for thread in ("a-before", "z-after"):
        await http.post("/api/threads", json={"thread_id": thread})
        await http.post(f"/api/threads/{thread}/state", json={"values": {"messages": words["input"]["messages"]}})


def list_temporary_folders() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"deerflow-*-{os.getpid()}-*"))


@pytest.mark.slow
async def test_deletion_leaves_no_bytes_in_files_databases_and_logs(tmp_path: Path) -> None:
    with capture_all_logs() as log:
        async with open_server(tmp_path, create_canary_model()) as (_, http), asyncio.timeout(100):
            await create_other_threads(http)
            await write_canary_everywhere(http, "t")
            await create_other_threads(http)
            known = files_with(CANARY, tmp_path)
            assert {"deerflow.db", "checkpoints.db"} <= {Path(file).name.removesuffix("-wal") for file in known}
            assert len(known) >= 6, known  # and files of the agent, with the copies that undo a run

            assert (await http.delete("/api/threads/t")).status_code == 204

            assert files_with(CANARY, tmp_path) == []  # while the server runs
            left = (await http.post("/api/threads/search", json={})).json()
            assert {thread["thread_id"] for thread in left} == {"a-before", "z-after"}
            assert len((await http.get("/api/threads/z-after/messages")).json()["messages"]) == 2
        assert files_with(CANARY, tmp_path) == []
        assert files_with(CANARY, *list_temporary_folders()) == []
    assert "is deleted" in log.getvalue() and CANARY not in log.getvalue()


@pytest.mark.slow
async def test_deletion_removes_files_of_mcp_servers(tmp_path: Path) -> None:
    """The server reads the thread's files at start and stores copies in its home and in /tmp."""
    keeping = (
        "import pathlib, runpy; files = pathlib.Path('/mnt/user-data/workspace').glob('*.txt'); "
        "said = [file.read_text() for file in files]; "
        "[(p / 'kept').write_text(''.join(said)) for p in (pathlib.Path.home(), pathlib.Path('/tmp'))]; "
        f"runpy.run_path({str(DEPOT_SERVER)!r})"
    )
    entry = {"command": PYTHON, "args": ["-c", keeping], "paths": [str(DEPOT_SERVER)]}
    write_servers(tmp_path, {"depot": entry})
    written = act("write_file", path="/mnt/user-data/workspace/note.txt", content=CANARY)
    model = ScriptedModel.saying(written, calling("depot_part_007", amount=2), "Done.")
    settings = {"guardrails": {"enabled": False}, "tool_search": {"enabled": False}}
    async with open_server(tmp_path, model, **settings) as (harness, http), asyncio.timeout(60):
        await harness.core.mcp.prepare(LOCAL_USER.user_id, wait_s=30)
        await http.post("/api/threads", json={"thread_id": "t"})
        assert (await http.post("/api/threads/t/runs/wait", json=CANARY_BODY)).status_code == 200
        known = [file for file in files_with(CANARY, tmp_path) if "/services/" in str(file)]
        assert sorted(Path(file).parent.name == "home" for file in known) == [False, True], known
        assert (await http.delete("/api/threads/t")).status_code == 204
        assert files_with(CANARY, tmp_path) == []


async def test_deletion_leaves_no_rows_in_postgresql_and_redis(
    tmp_path: Path, postgres_url: str, redis_url: str
) -> None:
    bridge = {"type": "redis", "redis_url": redis_url}
    with capture_all_logs() as log:
        settings = {"database": {"url": postgres_url}, "stream_bridge": bridge}
        async with open_server(tmp_path, create_canary_model(), **settings) as (_, http), asyncio.timeout(100):
            await write_canary_everywhere(http, "t")
            assert {"threads", "runs", "run_events", "store_items"} <= set(tables_with(CANARY, postgres_url))
            assert (await http.delete("/api/threads/t")).status_code == 204
            assert tables_with(CANARY, postgres_url) == []
            assert files_with(CANARY, tmp_path) == []
    with redis.Redis.from_url(redis_url) as connection:
        assert connection.keys("*") == []
    assert CANARY not in log.getvalue()


async def test_a_failing_run_logs_no_message_contents(tmp_path: Path) -> None:
    with capture_all_logs() as log:
        async with open_server(tmp_path, ScriptedModel.saying()) as (
            _,
            http,
        ):  # it has nothing to say, which is an error
            await http.post("/api/threads/t/runs/wait", json=CANARY_BODY)
            await http.delete("/api/threads/t")
    assert "failed" in log.getvalue() and CANARY not in log.getvalue()


async def test_stop_runs_deletes_a_thread_with_an_active_run(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Stall(Answer(CANARY)), "never", "never")
    async with open_server(tmp_path, model) as (harness, http), asyncio.timeout(30):
        await http.post("/api/threads/t/runs", json=CANARY_BODY)
        await model.waiting.wait()
        await http.post("/api/threads/t/runs", json={**CANARY_BODY, "multitask_strategy": "enqueue"})
        refused = await http.delete("/api/threads/t")
        assert refused.status_code == 409 and "stop_runs" in refused.json()["detail"]
        assert (await http.delete("/api/threads/t?stop_runs=true")).status_code == 204
        assert harness.runs.active_runs() == [] and files_with(CANARY, tmp_path) == []
        assert (await http.delete("/api/threads/t")).status_code == 404


async def test_several_threads_are_deleted_and_failures_listed(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Stall(Answer("Working")))
    async with open_server(tmp_path, model) as (_, http), asyncio.timeout(30):
        for name in ("a", "b", "c", "d"):
            await http.post("/api/threads", json={"thread_id": name, "metadata": {"batch": name in "cd"}})
        await http.post("/api/threads/busy/runs", json=CANARY_BODY)
        await model.waiting.wait()
        answer = (await http.post("/api/threads/delete", json={"ids": ["a", "none", "busy", "b", "a"]})).json()
        assert answer["deleted"] == ["a", "b"] and answer["unfinished"] == []
        assert [(each["thread_id"], each["error"]) for each in answer["failed"]] == [
            ("none", "NotFound"),
            ("busy", "Conflict"),
        ]
        found = (await http.post("/api/threads/delete", json={"metadata": {"batch": True}})).json()
        assert sorted(found["deleted"]) == ["c", "d"]
        left = (await http.post("/api/threads/search", json={})).json()
        assert [thread["thread_id"] for thread in left] == ["busy"]


@pytest.mark.parametrize(
    "body", [{}, {"metadata": {}}, {"ids": ["x"] * 1001}, {"status": "asleep"}, {"ids": "t"}, {"all": True}]
)
async def test_deletion_without_a_criterion_is_rejected(tmp_path: Path, body: object) -> None:
    async with open_server(tmp_path, ScriptedModel.saying()) as (harness, http):
        await http.post("/api/threads", json={"thread_id": "t"})
        assert (await http.post("/api/threads/delete", json=body)).status_code == 422
        assert len(await harness.threads.search(LOCAL_USER, 10, 0)) == 1

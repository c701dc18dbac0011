"""A disk that is full at any write of a run: nothing acknowledged is lost, and the server recovers with room."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.config.source import open_source
from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import MultitaskStrategy, RunEvent, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.persistence.checkpoints.sqlite import SqliteCheckpoints
from deerflow.persistence.engine.sqlite import SqliteDatabase
from deerflow.runtime.journal import journal
from deerflow.runtime.runs import recovery
from deerflow.testing import ScriptedModel, calling
from tests.support import browse, fill_disk, mount_disk

pytestmark = [pytest.mark.slow, pytest.mark.external, pytest.mark.timeout(900)]

LIMIT_S = 60.0
WRITES = (
    (SqliteDatabase, "write"),
    (SqliteDatabase, "append"),
    (SqliteCheckpoints, "aput"),
    (SqliteCheckpoints, "aput_writes"),
)
HI = [{"type": "human", "content": "Hi"}]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a small disk."""
    with mount_disk(tmp_path / "disk", 24) as folder:
        yield folder


class FillingDisk:
    """Disk that becomes full right before the chosen write, and has room again when asked for."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._filler = folder / "filler"
        self._left, self._refusals = -1, 0
        self.refused, self.written = asyncio.Event(), asyncio.Event()
        for module in (journal, recovery):
            monkeypatch.setattr(module, "RETRY_S", 0.05)
        for owner, name in WRITES:
            monkeypatch.setattr(owner, name, self._counting(getattr(owner, name)))

    def fill_before(self, write: int, refusals: int) -> None:
        """Fill the disk before the given write, counted from now; `refused` is set after that many refused writes."""
        self._left, self._refusals = write, refusals
        self.refused.clear()

    def is_full(self) -> bool:
        return self._filler.exists()

    def free(self) -> None:
        self._left = -1
        self._filler.unlink(missing_ok=True)

    def _counting(self, real: Callable[..., Any]) -> Callable[..., Any]:
        async def write(*arguments: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                self.fill()
            try:
                return await real(*arguments, **options)
            except StorageUnavailable:
                self._refusals -= 1
                if self._refusals <= 0:
                    self.refused.set()
                raise
            finally:
                self.written.set()

        return write

    def fill(self) -> None:
        """Fill the disk now."""
        fill_disk(self._filler)


def reply(messages: Any) -> Any:
    """Write a file, then say so."""
    return (
        "Done."
        if messages[-1].type == "tool"
        else calling("write_file", description="n", path="/mnt/user-data/workspace/n.txt", content="n" * 5000)
    )


async def read_log(harness: Harness, run: Any) -> list[RunEvent]:
    """Return the events of a run to its end, or to where its process lets go of it."""
    return [event async for group in harness.runs.listen(run) for event in group]


async def wait_for_end(harness: Harness, disk: FillingDisk, run: Any) -> Any:
    """Return the run after its end, however often it is begun anew."""
    while True:
        disk.written.clear()
        record = await harness.runs.get(run.thread_id, run.run_id, LOCAL_USER)
        if record.status.is_final:
            return record
        await disk.written.wait()


async def run_on_full_disk(harness: Harness, disk: FillingDisk, thread_id: str) -> str:
    """Start a run, make room once the disk has refused a write, and return how the run ended."""
    request = RunRequest(thread_id, HI, multitask_strategy=MultitaskStrategy.ENQUEUE)
    try:
        run = await harness.runs.create_or_reject(request, LOCAL_USER)
    except StorageUnavailable:
        disk.free()
        return "refused"
    reading = asyncio.create_task(read_log(harness, run))
    refused = asyncio.create_task(disk.refused.wait())
    ended = asyncio.create_task(wait_for_end(harness, disk, run))
    await asyncio.wait({ended, refused}, return_when=asyncio.FIRST_COMPLETED)
    refused.cancel()
    was_full = disk.is_full()
    disk.free()
    record = await ended
    log, seen = await read_log(harness, run), await reading
    assert [event.seq for event in log] == list(range(1, len(log) + 1)), thread_id
    assert log[: len(seen)] == seen, thread_id  # what a reader has seen is what stays
    assert [event.event for event in log].count("end") == 1, thread_id
    if record.status is not RunStatus.SUCCESS:
        failure = orjson.loads(next(event.data for event in log if event.event == "error"))
        assert failure["error"] in ("StorageFull", "FileProblem"), failure
    return f"{record.status.value}{'' if was_full else ' without'}"


@pytest.mark.parametrize("refusals", [1, 4])
async def test_a_disk_that_is_full_at_any_write_of_a_run_loses_nothing(
    disk: Path, monkeypatch: pytest.MonkeyPatch, refusals: int
) -> None:
    source = open_source(
        directory=disk, environment={}, overrides={"memory": {"enabled": False}, "title": {"enabled": False}}
    )
    model = ScriptedModel.saying(*[reply] * 1000)
    async with asyncio.timeout(LIMIT_S * 10), open_harness(source, model) as harness:
        filling, outcomes = FillingDisk(disk, monkeypatch), []
        for write in count(1):
            filling.fill_before(write, refusals)
            outcomes.append(await run_on_full_disk(harness, filling, f"t{write}"))
            if outcomes[-1].endswith("without"):
                break
            follow_up = await run_on_full_disk(harness, filling, f"t{write}")
            assert follow_up == "success without", f"after write {write}"
    assert outcomes[0] == "refused" and outcomes[-1] == "success without" and len(outcomes) > 10, outcomes


TEXT = "More " * 2000
MESSAGES = {"messages": [{"type": "human", "content": TEXT}]}
SKILL = f"---\nname: notes\ndescription: Take notes.\n---\n{TEXT}"
REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "state update": ("POST", "/api/threads/t/state", {"json": {"values": MESSAGES}}),
    "upload": ("POST", "/api/threads/t/uploads", {"files": {"files": ("big.txt", TEXT * 10)}}),
    "file": ("PUT", "/api/threads/t/artifacts/mnt/user-data/outputs/n.txt", {"json": {"content": TEXT}}),
    "agent": ("POST", "/api/agents", {"json": {"name": "writer", "description": "d", "soul": TEXT}}),
    "skill": ("POST", "/api/skills/custom", {"json": {"name": "notes", "content": SKILL}}),
    "fact": ("POST", "/api/memory/facts", {"json": {"content": "Likes tea. " * 50}}),
    "stored item": ("PUT", "/api/store/items", {"json": {"namespace": ["n"], "key": "k", "value": {"text": TEXT}}}),
    "MCP server": ("PUT", "/api/mcp/servers/s", {"json": {"command": "npx", "args": ["x"], "env": {"A": TEXT}}}),
    "run": ("POST", "/api/threads/t/runs/wait", {"json": {"input": MESSAGES}}),
}


async def test_requests_on_a_full_disk_are_answered_with_507_and_can_be_repeated(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_source(directory=disk, environment={})
    async with open_harness(source, ScriptedModel.saying(*[reply] * 10)) as harness, browse(harness) as client:
        filling = FillingDisk(disk, monkeypatch)
        assert await run_on_full_disk(harness, filling, "t") == "success without"
        filling.fill()
        for name, (method, path, body) in REQUESTS.items():
            answer = await client.request(method, path, **body)
            assert (answer.status_code, answer.json()["error"]) == (507, "StorageFull"), f"{name}: {answer.text}"
        assert (await client.get("/api/threads/t/state")).status_code == 200
        filling.free()
        for name, (method, path, body) in REQUESTS.items():
            answer = await client.request(method, path, **body)
            assert answer.is_success, f"{name}: {answer.text}"

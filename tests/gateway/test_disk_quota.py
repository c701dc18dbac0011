"""Disk limit of a thread, for files that come from outside its sandbox."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.harness import Harness, open_harness
from deerflow.sandbox.files.mounts import user_data_folder
from deerflow.sandbox.local.usage import measure_disk
from deerflow.testing import ScriptedModel
from tests.gateway.support import OUTPUTS, get_artifact_url, put_file
from tests.support import browse
from tests.uploads.multipart import HEADERS, build_body, build_part, stream_pieces

MB = 1024 * 1024
LIMIT_MB = 16
CHUNK_BYTES = MB
"""Upper bound of what is written beyond the limit: folders and the rounding of files."""


@dataclass(frozen=True)
class LimitedThread:
    """Thread with a small disk limit."""

    harness: Harness
    http: httpx.AsyncClient

    @property
    def folder(self) -> Path:
        return user_data_folder(self.harness.core.home, LOCAL_USER.user_id, "t1")

    def list_files(self) -> list[str]:
        """Return the uploads, hidden files included."""
        return sorted(file.name for file in (self.folder / "uploads").iterdir())

    async def upload(self, *files: tuple[str, int], streamed: bool = False) -> httpx.Response:
        body = build_body(*(build_part(name, bytes(size)) for name, size in files))
        content = stream_pieces(body[: len(body) // 2], body[len(body) // 2 :]) if streamed else body
        return await self.http.post("/api/threads/t1/uploads", content=content, headers=HEADERS)


@pytest.fixture
async def thread(tmp_path: Path) -> AsyncIterator[LimitedThread]:
    settings = {"sandbox": {"limits": {"disk_mb": LIMIT_MB}}, "uploads": {"conversion": {"enabled": False}}}
    source = open_source(directory=tmp_path, environment={}, overrides=settings)
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        await harness.threads.create(LOCAL_USER, "t1", {}, may_exist=False)
        yield LimitedThread(harness, http)


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_upload_over_the_limit_is_rejected_and_leaves_nothing_behind(
    thread: LimitedThread, streamed: bool
) -> None:
    assert (await thread.upload(("a.bin", 10 * MB), streamed=streamed)).status_code == 200
    rejected = await thread.upload(("b.bin", MB), ("c.bin", 8 * MB), streamed=streamed)
    assert (rejected.status_code, rejected.json()["error"]) == (413, "TooLarge"), rejected.text
    assert "may take 16 MB and take 10.0 MB already" in rejected.json()["detail"]
    assert "delete what is not needed, or raise sandbox.limits.disk_mb" in rejected.json()["detail"]
    assert thread.list_files() == ["a.bin"]


async def test_after_a_deletion_there_is_space_again(thread: LimitedThread) -> None:
    assert (await thread.upload(("a.bin", 10 * MB))).status_code == 200
    assert (await thread.upload(("b.bin", 10 * MB))).status_code == 413
    assert (await thread.http.delete("/api/threads/t1/uploads/a.bin")).status_code == 200
    assert (await thread.upload(("b.bin", 10 * MB))).status_code == 200
    assert thread.list_files() == ["b.bin"]


async def test_files_of_the_agent_count(thread: LimitedThread) -> None:
    await put_file(thread.harness, "made.bin", bytes(12 * MB))
    assert (await thread.upload(("a.bin", 8 * MB))).status_code == 413
    assert (await thread.upload(("a.bin", 2 * MB))).status_code == 200


async def test_empty_files_are_rejected_when_no_space_is_left(thread: LimitedThread) -> None:
    await put_file(thread.harness, "made.bin", bytes(17 * MB))
    assert (await thread.upload(("a.txt", 0))).status_code == 413
    assert thread.list_files() == []


async def test_concurrent_uploads_keep_the_limit_together(thread: LimitedThread) -> None:
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*(thread.upload((f"{number}.bin", 5 * MB)) for number in range(8)))
    stored = [answer for answer in answers if answer.status_code == 200]
    assert {answer.status_code for answer in answers} == {200, 413}
    assert thread.list_files() == sorted(answer.json()["files"][0]["filename"] for answer in stored)
    assert measure_disk(thread.folder) <= LIMIT_MB * MB + CHUNK_BYTES


async def test_an_edit_over_the_limit_is_rejected_and_keeps_the_file(thread: LimitedThread) -> None:
    url = await put_file(thread.harness, "a.md", b"old")
    await put_file(thread.harness, "made.bin", bytes(17 * MB))
    old = (await thread.http.get(url)).content
    edit = {"content": "x" * MB, "expected_sha256": None}
    new = await thread.http.put(get_artifact_url(f"{OUTPUTS}/b.md"), json=edit)
    assert (new.status_code, new.json()["error"]) == (413, "TooLarge"), new.text
    assert "sandbox.limits.disk_mb" in new.json()["detail"]
    assert (await thread.http.get(url)).content == old
    assert not (thread.folder / "outputs" / "b.md").exists()


async def test_an_edit_that_makes_a_file_smaller_is_always_possible(thread: LimitedThread) -> None:
    url = await put_file(thread.harness, "a.md", b"a longer text")
    await put_file(thread.harness, "made.bin", bytes(17 * MB))
    edit = {"content": "short", "expected_sha256": hashlib.sha256(b"a longer text").hexdigest()}
    assert (await thread.http.put(url, json=edit)).status_code == 200
    assert (await thread.http.get(url)).content == b"short"

"""Uploads over HTTP."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.harness import Harness, open_harness
from deerflow.sandbox.files.mounts import user_data_folder
from deerflow.testing import ScriptedModel
from tests.support import browse
from tests.uploads.multipart import HEADERS, build_body, build_part, build_raw_request, send_raw, stream_pieces

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1024 * 1024
SMALL = {"max_files": 3, "max_file_size": 1000, "max_total_size": 2000, "stall_seconds": 1.0, "timeout_seconds": 3.0}
UPLOADS = "/mnt/user-data/uploads"


@dataclass(frozen=True)
class UploadThread:
    """Thread on a server with small upload limits and no conversion."""

    harness: Harness
    http: httpx.AsyncClient
    home: Path
    thread: str

    @property
    def url(self) -> str:
        return f"/api/threads/{self.thread}/uploads"

    @property
    def port(self) -> int:
        return self.http.base_url.port or 0

    @property
    def folder(self) -> Path:
        """Return the folder of the uploads on this machine."""
        return user_data_folder(self.home / ".deer-flow", LOCAL_USER.user_id, self.thread) / "uploads"

    def list_files(self) -> Sequence[str]:
        """Return all files in the folder, hidden ones included."""
        return sorted(str(file.relative_to(self.folder)) for file in self.folder.rglob("*"))

    async def post(self, content: bytes | AsyncIterator[bytes], **headers: str) -> httpx.Response:
        return await self.http.post(self.url, content=content, headers={**HEADERS, **headers})

    async def kept(self, *parts: bytes) -> list[str]:
        """Return the names of the stored files."""
        return [file["filename"] for file in (await self.post(build_body(*parts))).json()["files"]]

    async def names(self) -> list[str]:
        return [file["filename"] for file in (await self.http.get(f"{self.url}/list")).json()["files"]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Harness, httpx.AsyncClient, Path]]:
    home = tmp_path_factory.mktemp("home")
    chosen = {"conversion": {"enabled": False}, **SMALL}
    source = open_source(directory=home, environment={}, overrides={"uploads": chosen})
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        yield harness, http, home


@pytest_asyncio.fixture(loop_scope="module")
async def upload_thread(server: tuple[Harness, httpx.AsyncClient, Path]) -> UploadThread:
    harness, http, home = server
    thread = await harness.threads.create(LOCAL_USER, None, {}, may_exist=False)
    return UploadThread(harness, http, home, thread.thread_id)


BIG = bytes(1001)
NAMELESS = b'--simple\r\nContent-Disposition: form-data; filename="a"\r\n\r\nx\r\n'


@pytest.mark.parametrize(
    ("content", "headers", "status", "detail"),
    [
        pytest.param(b"", {}, 422, "ends before its last boundary", id="empty"),
        pytest.param(build_body(), {}, 422, "no file received", id="no part"),
        pytest.param(build_body(build_part("")), {}, 422, "no file received", id="no file chosen"),
        pytest.param(build_part("a.txt"), {}, 422, "ends before its last boundary", id="no last boundary"),
        pytest.param(build_part("a.txt")[:40], {}, 422, "ends before its last boundary", id="cut in a header"),
        pytest.param(build_body(NAMELESS), {}, 422, "has no name", id="no field name"),
        pytest.param(b"no boundary here" * 10, {}, 422, "invalid multipart body", id="another boundary"),
        pytest.param(
            build_body(build_part("a")), {"Content-Type": "multipart/form-data"}, 422, "with a boundary", id="none told"
        ),
        pytest.param(
            build_body(build_part("a")), {"Content-Type": "text/plain"}, 422, "multipart/form-data", id="another kind"
        ),
        pytest.param(
            build_body(build_part("a")),
            {"Content-Type": f"multipart/form-data; boundary={'x' * 300}"},
            422,
            "invalid boundary",
            id="endless boundary",
        ),
        pytest.param(build_body(build_part("a" * 5000)), {}, 422, "header size", id="endless header"),
        pytest.param(build_body(build_part("a.txt", BIG)), {}, 413, "more than 1000 bytes", id="too large"),
        pytest.param(
            build_body(*(build_part(f"{n}", bytes(900)) for n in range(3))), {}, 413, "2000 bytes in total", id="total"
        ),
        pytest.param(build_body(*(build_part(f"{n}") for n in range(4))), {}, 413, "at most 3 files", id="too many"),
        pytest.param(
            build_body(build_part("a.txt", field="other")), {}, 413, "not in the field 'files'", id="other field"
        ),
    ],
)
async def test_rejected_uploads_have_a_reason_and_leave_no_files(
    upload_thread: UploadThread, content: bytes, headers: dict[str, str], status: int, detail: str
) -> None:
    for sent in (content, stream_pieces(content)):
        answer = await upload_thread.post(sent, **headers)
        assert (answer.status_code, detail in answer.json()["detail"]) == (status, True), answer.text
    assert upload_thread.list_files() == []


@pytest.mark.parametrize("size", [3 * MIB, 30 * MIB])
async def test_an_endless_upload_is_cut_off(upload_thread: UploadThread, size: int) -> None:
    """A body may not be much larger than the limit, with or without an announced size."""
    response = await upload_thread.post(build_body(build_part("a.txt", bytes(size))))
    assert response.status_code == 413
    untold = await upload_thread.post(stream_pieces(build_part("a.txt", bytes(size))))
    assert (untold.status_code, upload_thread.list_files()) == (413, [])


async def test_an_upload_shorter_than_announced_times_out(upload_thread: UploadThread) -> None:
    content = build_body(build_part("a.txt"))
    request = build_raw_request(upload_thread.thread, content[:-10], len(content) + 500)
    answer = await send_raw(upload_thread.port, request)
    assert answer.startswith(b"HTTP/1.1 408 ") and b"TooSlow" in answer
    assert upload_thread.list_files() == []


@pytest.mark.slow
async def test_a_trickling_upload_times_out(upload_thread: UploadThread) -> None:
    content = build_body(build_part("a.txt", bytes(900)))
    reader, writer = await asyncio.open_connection("127.0.0.1", upload_thread.port)
    writer.write(build_raw_request(upload_thread.thread, b"", len(content)))
    answer = b""
    async with asyncio.timeout(20):
        for at in range(len(content)):
            writer.write(content[at : at + 1])
            with suppress(TimeoutError):
                answer = await asyncio.wait_for(reader.read(65536), 0.1)
                break
    writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ") and b"took longer than 3 s" in answer
    assert upload_thread.list_files() == []


async def test_an_upload_longer_than_announced_is_cut(upload_thread: UploadThread) -> None:
    content = build_body(build_part("a.txt", bytes(500)))
    answer = await send_raw(upload_thread.port, build_raw_request(upload_thread.thread, content, 200))
    assert answer[9:12] in (b"422", b"400"), "the server takes what is left for another request"
    await wait_until(lambda: upload_thread.list_files() == [])


async def test_disconnecting_during_an_upload_leaves_no_files(upload_thread: UploadThread) -> None:
    content = build_body(build_part("a.txt", bytes(800)))
    request = build_raw_request(upload_thread.thread, content[:400], len(content))
    reader, writer = await asyncio.open_connection("127.0.0.1", upload_thread.port)
    writer.write(request)
    await wait_until(lambda: len(upload_thread.list_files()) == 1)  # it is being written
    assert await upload_thread.names() == [], "nobody is shown what is unfinished"
    writer.close()
    await writer.wait_closed()
    await wait_until(lambda: upload_thread.list_files() == [])


async def wait_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not await asyncio.to_thread(holds):
            pass


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("../../../etc/passwd", "passwd"),
        ("..%2f..%2fetc%2fpasswd", "%2f..%2fetc%2fpasswd"),
        ("%2e%2e/%2e%2e/passwd", "passwd"),
        ("..\\\\..\\\\boot.ini", "boot.ini"),
        ("....//....//passwd", "passwd"),
        ("/etc/passwd", "passwd"),
        (b"..\xc0\xaf..\xc0\xafpasswd", "\ufffd\ufffd..\ufffd\ufffdpasswd"),
        ("a\0.txt", "a.txt"),
        ("a%0D%0AX-Evil: 1.txt", "a  X-Evil: 1.txt"),
        ("%22quoted%22.txt", '"quoted".txt'),
        ("cod\u202etxt.exe", "codtxt.exe"),
        (".bashrc", "bashrc"),
        (".upload-1.part", "upload-1.part"),
        ("aux.c", "_aux.c"),
        ("..", "upload"),
        ("ü" * 200 + ".txt", "ü" * 98 + ".txt"),
        ("报告.pdf", "报告.pdf"),
    ],
)
async def test_upload_names_are_sanitized(upload_thread: UploadThread, sent: str | bytes, kept: str) -> None:
    answer = await upload_thread.post(build_body(build_part(sent)))
    (file,) = answer.json()["files"]
    assert (file["filename"], file["path"]) == (kept, f"{UPLOADS}/{kept}")
    assert upload_thread.list_files() == [kept]
    assert (await upload_thread.http.get(file["artifact_url"])).content == b"content"
    assert (await upload_thread.http.delete(f"{upload_thread.url}/{kept.replace('%', '%25')}")).status_code == 200
    assert upload_thread.list_files() == []


async def test_extended_file_names_are_accepted(upload_thread: UploadThread) -> None:
    written = b"--simple\r\nContent-Disposition: form-data; name=\"files\"; filename*=UTF-8''%s\r\n\r\nx\r\n"
    names = (b"%e6%8a%a5%e5%91%8a.pdf", b"..%2F..%2Fetc%2Fpasswd", b"a%00%0d%0ab")
    assert await upload_thread.kept(*(written % name for name in names)) == ["报告.pdf", "passwd", "a  b"]


@pytest.mark.parametrize(
    "name",
    [
        "missing.txt",
        "%2e%2e",
        "%2e%2e/outputs/a",
        "..%2f..%2foutputs%2fa",
        "%2e%2e%2fa",
        "%00",
        "a%00b",
        "",
        ".",
        "folder",
        "link",
        "%ff",
    ],
)
async def test_only_uploads_can_be_deleted(upload_thread: UploadThread, name: str) -> None:
    await upload_thread.post(build_body(build_part("a.txt")))
    (upload_thread.folder / "folder").mkdir()
    (upload_thread.folder / "link").symlink_to(upload_thread.folder / "a.txt")
    answer = await upload_thread.http.delete(f"{upload_thread.url}/{name}")
    assert answer.status_code in (404, 405), answer.text
    assert upload_thread.list_files() == ["a.txt", "folder", "link"]


async def test_links_of_an_agent_are_not_followed_or_replaced(upload_thread: UploadThread, tmp_path: Path) -> None:
    await upload_thread.post(build_body(build_part("first.txt")))
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    uploads = upload_thread.folder
    (uploads / "link.txt").symlink_to(secret)
    (uploads / "dangling.txt").symlink_to(tmp_path / "made-by-us")
    (uploads / "folder.txt").mkdir()
    (uploads / "hard.txt").hardlink_to(secret)
    sent = ("link.txt", "dangling.txt", "folder.txt")
    assert await upload_thread.kept(*map(build_part, sent)) == ["link_1.txt", "dangling_1.txt", "folder_1.txt"]
    assert await upload_thread.kept(build_part("hard.txt")) == ["hard_1.txt"]
    assert secret.read_bytes() == b"secret" and not (tmp_path / "made-by-us").exists()


async def test_an_upload_folder_replaced_by_a_link_is_not_written_to(
    upload_thread: UploadThread, tmp_path: Path
) -> None:
    await upload_thread.post(build_body(build_part("a.txt")))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    upload_thread.folder.rename(tmp_path / "moved")
    upload_thread.folder.symlink_to(elsewhere)
    answer = await upload_thread.post(build_body(build_part("b.txt")))
    assert (answer.status_code, answer.json()["error"]) == (503, "StorageUnavailable")
    assert list(elsewhere.iterdir()) == []


async def test_leftovers_of_a_crashed_server_are_removed(upload_thread: UploadThread) -> None:
    await upload_thread.post(build_body(build_part("a.txt")))
    old, new = upload_thread.folder / ".upload-old.part", upload_thread.folder / ".upload-new.part"
    for file in (old, new):
        file.write_bytes(b"half")
    day_before_yesterday = new.stat().st_mtime - 2 * 24 * 3600
    os.utime(old, (day_before_yesterday, day_before_yesterday))
    await upload_thread.post(build_body(build_part("b.txt")))
    assert upload_thread.list_files() == [".upload-new.part", "a.txt", "b.txt"]
    assert sorted(await upload_thread.names()) == ["a.txt", "b.txt"]


async def test_one_file_that_is_too_large_is_skipped(upload_thread: UploadThread) -> None:
    answer = await upload_thread.post(
        build_body(build_part("a.txt"), build_part("big.bin", BIG), build_part("c.txt", b"c"))
    )
    shown: dict[str, Any] = answer.json()
    assert (shown["success"], shown["message"]) == (False, "2 files uploaded, 1 skipped")
    assert [file["filename"] for file in shown["files"]] == ["a.txt", "c.txt"]
    assert shown["skipped_files"] == [{"filename": "big.bin", "reason": "it has more than 1000 bytes"}]
    assert upload_thread.list_files() == ["a.txt", "c.txt"]


async def test_a_duplicate_name_gets_a_number(upload_thread: UploadThread) -> None:
    answer = await upload_thread.post(build_body(build_part("a.txt", b"1"), build_part("a.txt", b"2")))
    assert [file["filename"] for file in answer.json()["files"]] == ["a.txt", "a_1.txt"]
    again = await asyncio.gather(*(upload_thread.post(build_body(build_part("a.txt", b"%d" % n))) for n in range(3, 7)))
    kept = {file["filename"] for each in again for file in each.json()["files"]}
    assert kept == {"a_2.txt", "a_3.txt", "a_4.txt", "a_5.txt"}
    assert {file["original_filename"] for each in again for file in each.json()["files"]} == {"a.txt"}
    contents = {(upload_thread.folder / name).read_bytes() for name in upload_thread.list_files()}
    assert contents == {b"%d" % n for n in range(1, 7)}


async def test_a_foreign_thread_looks_like_a_missing_one(upload_thread: UploadThread) -> None:
    await upload_thread.harness.threads.create(Principal("somebody"), "theirs", {}, may_exist=False)
    for thread in ("theirs", "none"):
        url = f"/api/threads/{thread}/uploads"
        answers = [
            await upload_thread.http.post(url, content=build_body(build_part("a.txt")), headers=HEADERS),
            await upload_thread.http.get(f"{url}/list"),
            await upload_thread.http.get(f"{url}/limits"),
            await upload_thread.http.delete(f"{url}/a.txt"),
        ]
        assert {(each.status_code, each.json()["detail"]) for each in answers} == {(404, f"no thread {thread!r}")}
    assert upload_thread.list_files() == []


async def test_upload_limits_are_returned(upload_thread: UploadThread) -> None:
    assert (await upload_thread.http.get(f"{upload_thread.url}/limits")).json() == {
        "max_files": 3,
        "max_file_size": 1000,
        "max_total_size": 2000,
    }


async def test_uploaded_bytes_are_stored_unchanged(upload_thread: UploadThread) -> None:
    chance = random.Random(6)
    likely = [b"\r\n--simple", b"\r\n--simpl", b"\r\n--simple-", b"--simple--\r\n", b"\r", b"\n", b"\0", b"\xff"]
    for _ in range(40):
        content = b"".join(chance.choice([*likely[1:], chance.randbytes(3)]) for _ in range(chance.randrange(80)))
        content = content.replace(b"\r\n--simple", b"")  # what would end it
        whole, cut = build_body(build_part("a.bin", content)), chance.randrange(1, 64)
        answer = await upload_thread.post(stream_pieces(*(whole[at : at + cut] for at in range(0, len(whole), cut))))
        (file,) = answer.json()["files"]
        assert (await upload_thread.http.get(file["artifact_url"])).content == content
        assert file["size"] == len(content)


async def test_deleting_a_thread_deletes_its_uploads(upload_thread: UploadThread) -> None:
    await upload_thread.post(build_body(build_part("a.txt", b"canary")))
    assert (await upload_thread.http.delete(f"/api/threads/{upload_thread.thread}")).status_code < 300
    assert not await asyncio.to_thread(upload_thread.folder.parents[1].exists), (
        "neither files nor what was remembered of them"
    )


async def test_an_upload_that_is_too_large_ends_the_connection(upload_thread: UploadThread) -> None:
    start = build_body(build_part("a.bin", b""))[:-60]
    reader, writer = await asyncio.open_connection("127.0.0.1", upload_thread.port)
    writer.write(build_raw_request(upload_thread.thread, b"", 10**12))
    writer.write(start)
    sent, answer = 0, b""
    with suppress(ConnectionError):
        async with asyncio.timeout(60):
            while sent < 10**9:
                writer.write(bytes(65536))
                await writer.drain()
                sent += 65536
                if writer.is_closing() or reader.at_eof():
                    break
    with suppress(ConnectionError):
        answer = await reader.read(65536)
    writer.close()
    assert sent < 10**9, "the server goes on taking data"
    assert answer == b"" or b"connection: close" in answer.lower()
    assert upload_thread.list_files() == []

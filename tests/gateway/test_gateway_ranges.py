"""Ranges and conditional requests."""

import asyncio
import os
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import psutil
import pytest

from deerflow.gateway.files import ByteRange, Conditions, NotSatisfiable, is_not_modified, parse_range
from deerflow.harness import Harness
from deerflow.testing import ScriptedModel
from tests.gateway.support import find_files, put_file, wait_for_strong_etag
from tests.support import OpenHarness, browse

SOUNDS = {
    "a.wav": (b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
    "a.mp3": (b"ID3\x04\0", "audio/mpeg"),
    "a.ogg": (b"OggS\0", "audio/ogg"),
    "a.flac": (b"fLaC\0", "audio/flac"),
    "a.m4a": (b"\0\0\0\x20ftypM4A ", "audio/mp4"),
    "a.mp4": (b"\0\0\0\x20ftypisom", "video/mp4"),
    "a.webm": (b"\x1a\x45\xdf\xa3\0", "video/webm"),
    "page.mp3": (b"<script>alert(1)</script>\0", "application/octet-stream"),
}
TEN = b"0123456789"
HUGE = "9" * 5000


@pytest.mark.parametrize(
    ("range", "part"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=0-9", (0, 10)),
        ("bytes=2-4", (2, 5)),
        ("bytes=7-", (7, 10)),
        ("bytes=7-99", (7, 10)),
        (f"bytes=7-{HUGE}", (7, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-99", (0, 10)),
        (f"bytes=-{HUGE}", (0, 10)),
        ("BYTES=1-2", (1, 3)),
        ("bytes= 1 - 2 ", (1, 3)),
        (f"bytes={'0' * 5000}1-2", (1, 3)),
        # What is no range, and several at once, are as good as none.
        ("", None),
        ("bytes", None),
        ("bytes=", None),
        ("bytes=-", None),
        ("bytes=--3", None),
        ("bytes=-1-3", None),
        ("bytes=5-3", None),
        ("bytes=a-b", None),
        ("bytes=1.5-3", None),
        ("bytes=0x1-0x3", None),
        ("bytes=+1-3", None),
        ("bytes=١-٣", None),
        ("lines=1-3", None),
        ("bytes=0-1,3-4", None),
        ("bytes=" + ",".join(["0-"] * 5000), None),
    ],
)
def test_range_headers_are_parsed(range: str, part: tuple[int, int] | None) -> None:
    assert parse_range(Conditions(range), '"x"', 10) == (part and ByteRange(*part))


@pytest.mark.parametrize(
    ("range", "size"),
    [
        ("bytes=10-", 10),
        ("bytes=10-20", 10),
        (f"bytes={HUGE}-", 10),
        ("bytes=-0", 10),
        ("bytes=0-", 0),
        ("bytes=-5", 0),
    ],
)
def test_a_range_behind_the_end_is_not_satisfiable(range: str, size: int) -> None:
    with pytest.raises(NotSatisfiable):
        parse_range(Conditions(range), '"x"', size)


@pytest.mark.parametrize(
    ("header", "etag", "known"),
    [
        ('"a"', '"a"', True),
        ('"b", "a"', '"a"', True),
        ('W/"a"', '"a"', True),
        ('"a"', 'W/"a"', True),
        ("*", '"a"', True),
        ('"b"', '"a"', False),
        ("a", '"a"', False),
        ("", '"a"', False),
        ('"a, "a', '"a"', False),
        ("," * 10_000, '"a"', False),
        (None, '"a"', False),
    ],
)
def test_if_none_match_is_evaluated(header: str | None, etag: str, known: bool) -> None:
    assert is_not_modified(Conditions(if_none_match=header), etag) is known


@pytest.mark.parametrize(
    ("if_range", "etag", "is_part"),
    [
        (None, '"a"', True),
        ('"a"', '"a"', True),
        ('"b"', '"a"', False),
        ('W/"a"', 'W/"a"', False),
        ("Sun, 06 Nov 1994 08:49:37 GMT", '"a"', False),
    ],
)
def test_if_range_is_evaluated(if_range: str | None, etag: str, is_part: bool) -> None:
    assert (parse_range(Conditions("bytes=1-2", if_range), etag, 10) is not None) is is_part


async def test_ranges_have_the_same_security_headers(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "page.html", TEN)
        response = await http.get(url, headers={"Range": "bytes=2-4"})
        assert (response.status_code, response.content) == (206, b"234")
        assert response.headers["content-range"] == "bytes 2-4/10"
        assert response.headers["content-length"] == "3"
        assert response.headers["content-type"] == "application/octet-stream"
        assert response.headers["content-disposition"].startswith("attachment;")
        assert "sandbox" in response.headers["content-security-policy"]
        behind = await http.get(url, headers={"Range": "bytes=10-"})
        assert (behind.status_code, behind.headers["content-range"]) == (416, "bytes */10")
        assert behind.json()["error"] == "RangeNotSatisfiable"
        several = await http.get(url, headers={"Range": "bytes=0-1,3-4"})
        assert (several.status_code, several.content) == (200, TEN)


async def test_sound_and_video_are_attachments_with_their_type(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        for name, (content, media_type) in SOUNDS.items():
            response = await http.get(await put_file(harness, name, content), headers={"Range": "bytes=1-2"})
            assert (response.status_code, response.content) == (206, content[1:3])
            assert response.headers["content-type"] == media_type, name
            assert response.headers["content-disposition"].startswith("attachment;")


async def test_head_returns_the_headers_of_get(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "a.txt", TEN)
        await wait_for_strong_etag(http, url)
        got, looked = await http.get(url), await http.head(url, headers={"Range": "bytes=0-1"})
        assert looked.status_code == 200 and looked.content == b""
        own = {"date": "", "x-request-id": ""}
        assert {**got.headers, **own} == {**looked.headers, **own}
        assert got.headers["accept-ranges"] == "bytes"
        assert parsedate_to_datetime(got.headers["last-modified"])
        assert (await http.head(f"{url}.none")).status_code == 404


async def test_unchanged_files_return_not_modified(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "a.txt", TEN)
        await wait_for_strong_etag(http, url)
        etag = (await http.get(url)).headers["etag"]
        again = await http.get(url, headers={"If-None-Match": etag})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
        assert again.headers["x-content-type-options"] == "nosniff"
        resumed = await http.get(url, headers={"If-Range": etag, "Range": "bytes=5-"})
        assert (resumed.status_code, resumed.content) == (206, b"56789")
        await put_file(harness, "a.txt", b"abcdefghij")  # as long as before
        changed = await http.get(url, headers={"If-None-Match": etag})
        assert (changed.status_code, changed.content) == (200, b"abcdefghij")
        fresh = await http.get(url, headers={"If-Range": etag, "Range": "bytes=5-"})
        assert (fresh.status_code, fresh.content) == (200, b"abcdefghij")


async def test_a_recently_changed_file_has_a_weak_etag(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "a.txt", TEN)
        etag = (await http.get(url)).headers["etag"]
        if etag.startswith("W/"):  # else this machine took its time
            fresh = await http.get(url, headers={"If-Range": etag, "Range": "bytes=5-"})
            assert fresh.status_code == 200


async def test_a_file_truncated_while_streaming_closes_the_connection(
    harness_saying: OpenHarness, tmp_path: Path
) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "large.bin", bytes(64 * 1024 * 1024))
        (file,) = find_files(tmp_path, "large.bin")
        with pytest.raises(httpx.RemoteProtocolError):
            await truncate_while_reading(http, url, file)
        assert (await http.get(url)).content == bytes(1000)


async def truncate_while_reading(http: httpx.AsyncClient, url: str, file: Path) -> None:
    async with http.stream("GET", url) as response:
        pieces = response.aiter_bytes()
        await anext(pieces)
        with file.open("r+b") as opened:
            opened.truncate(1000)
        async for _ in pieces:
            pass


async def test_a_file_replaced_while_streaming_is_sent_unchanged(harness_saying: OpenHarness) -> None:
    before, after = b"a" * 32 * 1024 * 1024, b"b" * 32 * 1024 * 1024
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "large.bin", before)
        async with http.stream("GET", url) as response:
            pieces = response.aiter_bytes()
            content = await anext(pieces)
            await put_file(harness, "large.bin", after)
            content += b"".join([piece async for piece in pieces])
        assert content == before
        assert (await http.get(url)).content == after


async def test_disconnecting_clients_leave_no_open_files(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "large.bin", bytes(32 * 1024 * 1024))
        for _ in range(5):
            async with http.stream("GET", url) as response:
                await anext(response.aiter_bytes())
        await wait_until_closed(harness, http)


def is_open(name: str) -> bool:
    return any(Path(each.path).name == name for each in psutil.Process().open_files())


async def wait_until_closed(harness: Harness, http: httpx.AsyncClient) -> None:
    """Send other requests until the server has closed the files."""
    for _ in range(2000):
        if not is_open("large.bin"):
            return
        await http.get("/health")
    pytest.fail("a file is still open")


@pytest.mark.slow
async def test_a_gigabyte_is_streamed_with_constant_memory(harness_saying: OpenHarness, tmp_path: Path) -> None:
    gigabyte = 1024**3
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "large.bin", b"\0")
        (file,) = find_files(tmp_path, "large.bin")
        os.truncate(file, gigabyte)
        await measure_peak_memory(http, url, upto=gigabyte // 64)  # so that what is loaded once has been
        before = psutil.Process().memory_info().rss
        most = await measure_peak_memory(http, url, upto=gigabyte)
        assert most - before < 48 * 1024 * 1024


async def measure_peak_memory(http: httpx.AsyncClient, url: str, upto: int) -> int:
    """Read `size` bytes of a response and return the peak memory."""
    reader, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port)
    writer.write(f"GET {url} HTTP/1.1\r\nHost: 127.0.0.1\r\nRange: bytes=0-{upto - 1}\r\n\r\n".encode())
    left, most, process = upto, 0, psutil.Process()
    async with asyncio.timeout(60):
        assert b"206" in await reader.readuntil(b"\r\n\r\n")
        while left > 0:
            left -= len(await reader.read(1024 * 1024))
            most = max(most, process.memory_info().rss)
    assert left == 0
    writer.close()
    return most

"""Attempts to read other files or to exhaust the server through artifacts."""

import asyncio
import os
import stat
from pathlib import Path

import httpx
import pytest

from deerflow.testing import ScriptedModel
from tests.gateway.support import OUTPUTS, find_files, get_artifact_url, put_file
from tests.support import OpenHarness, browse

SECRET = b"the secret of the host"
TRAVERSAL_PATHS = [
    "../../../../../../../etc/passwd",
    "..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "%2e%2e%2f%2e%2e%2f%2e%2e%2fsecret",
    "..%252f..%252f..%252fsecret",
    "..%5c..%5c..%5csecret",
    "..\\..\\..\\secret",
    "....//....//secret",
    "%c0%ae%c0%ae/%c0%ae%c0%ae/secret",
    "%u002e%u002e/secret",
    "..;/..;/secret",
    "%00",
    "a.txt%00.png",
    "a.txt%0d%0aSet-Cookie:%20a=b",
    "%e2%80%ae",
    "%ff%fe",
    "./././../a.txt",
    "/etc/passwd",
    "//etc/passwd",
    "file:///etc/passwd",
    "~/.ssh/id_rsa",
    "a" * 300,
    "/".join(["a"] * 2000),
]


async def send_target(http: httpx.AsyncClient, target: str, headers: str = "") -> tuple[int, bytes]:
    """Return status and body for an unmodified request target."""
    reader, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port)
    request = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{headers}\r\n"
    writer.write(request.encode("latin-1"))
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head + body


@pytest.mark.parametrize("way", ["artifacts", "thumbnails"])
async def test_no_path_spelling_leaves_the_thread(harness_saying: OpenHarness, tmp_path: Path, way: str) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "a.txt", b"a")
        for place in TRAVERSAL_PATHS:
            status, answer = await send_target(http, f"/api/threads/t1/{way}{OUTPUTS}/{place}")
            assert 400 <= status < 500, place
            assert SECRET not in answer and b"root:" not in answer and b"\nset-cookie" not in answer.lower()


async def test_links_and_special_files_of_an_agent_are_not_opened(harness_saying: OpenHarness, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "folder/a.txt", b"a")
        folder = find_files(tmp_path, "a.txt")[0].parent
        (folder / "link.txt").symlink_to(secret)
        (folder / "relative.txt").symlink_to("../" * 20 + str(secret)[1:])
        (folder / "up").symlink_to(tmp_path)
        (folder / "itself").symlink_to("itself")
        (folder / "fd").symlink_to("/proc/self/fd/0")
        os.link(secret, folder / "hard.txt")
        os.mkfifo(folder / "pipe")
        os.mknod(folder / "socket", stat.S_IFSOCK | 0o666)
        names = ["link.txt", "relative.txt", "up/secret", "itself", "fd", "hard.txt", "pipe", "socket", ""]
        if os.geteuid() == 0:
            os.mknod(folder / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
            names.append("device")
        for name in names:
            status, answer = await send_target(http, get_artifact_url(f"{OUTPUTS}/folder/{name}"))
            assert status == 404 and SECRET not in answer, name


@pytest.mark.parametrize(
    ("range", "status"),
    [
        ("bytes=" + ",".join("0-" for _ in range(3000)), 200),
        ("bytes=" + ",".join(f"{number}-{number}" for number in range(900)), 200),
        ("bytes=0-18446744073709551616", 206),
        ("bytes=18446744073709551616-", 416),
        ("bytes=-18446744073709551616", 206),
        ("bytes=" + "9" * 5000 + "-", 416),
        ("bytes=-1--1", 200),
        ("bytes=--1", 200),
        ("bytes=1e3-", 200),
        ("bytes=\t0\t-\t1", 206),
        ("pages=1-2", 200),
        ("bytes=0-1\x00", 400),
    ],
)
async def test_malicious_ranges_get_at_most_one_file(harness_saying: OpenHarness, range: str, status: int) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "a.txt", b"0123456789")
        found, answer = await send_target(http, url, f"Range: {range}\r\n")
        assert found == status and len(answer) < 3000


async def test_arbitrary_header_bytes_are_answered(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "a.txt", b"0123456789")
        for header in ("If-None-Match: \xff\xfe", 'If-None-Match: "' + "a" * 9000, "If-Range: \xff", "Range: \xff\x80"):
            status, _ = await send_target(http, url, f"{header}\r\nRange: bytes=0-1\r\n")
            assert status in (200, 206)


async def test_cross_origin_edits_are_blocked(
    harness_saying: OpenHarness,
) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "a.txt", b"a")
        body = {"content": "b", "expected_sha256": None}
        for origin in ("https://evil.example", "null"):
            answer = await http.put(url, json=body, headers={"Origin": origin})
            assert answer.status_code == 403
        assert (await http.get(url)).content == b"a"

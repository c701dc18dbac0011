"""Thumbnails, rendered inside the sandbox."""

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.harness import Harness, open_harness
from deerflow.sandbox.jobs.jobs import SandboxJobResult
from deerflow.sandbox.thumbnails import explain_failure, parse_thumbnail
from deerflow.testing import ScriptedModel
from tests.gateway.support import OUTPUTS, find_files, put_file
from tests.pictures import png
from tests.sandbox.support import open_sandbox_harness
from tests.support import browse

pytestmark = pytest.mark.timeout(600)  # the toolbox is built by the first test session of a machine


def read_webp_size(webp: bytes) -> tuple[int, int]:
    """Return width and height of a WebP image written by Pillow."""
    assert webp[:4] == b"RIFF" and webp[8:12] == b"WEBP"
    if webp[12:16] == b"VP8X":
        return int.from_bytes(webp[24:27], "little") + 1, int.from_bytes(webp[27:30], "little") + 1
    width, height = struct.unpack("<HH", webp[26:30])
    return width & 0x3FFF, height & 0x3FFF


@pytest.fixture
async def harness(tmp_path: Path, toolbox_environment: Mapping[str, str]) -> AsyncIterator[Harness]:
    source = open_source(directory=tmp_path, environment=toolbox_environment)
    async with open_harness(source, ScriptedModel.saying()) as harness:
        yield harness


async def test_renders_a_thumbnail_once_and_deletes_it_with_the_thread(harness: Harness, tmp_path: Path) -> None:
    url = (await put_file(harness, "wide.png", png(1200, 300))).replace("/artifacts/", "/thumbnails/")
    async with browse(harness) as http, asyncio.timeout(60):
        http.timeout = 60
        small = await http.get(url, params={"size": 200})
        assert (small.status_code, small.headers["content-type"]) == (200, "image/webp"), small.text
        assert read_webp_size(small.content) == (256, 64)
        assert "sandbox" in small.headers["content-security-policy"]
        (kept,) = find_files(tmp_path, "thumbnails/*")
        assert kept.read_bytes() == small.content and "user-data" not in kept.parts
        kept.write_bytes(small.content + b"kept")
        assert (await http.get(url, params={"size": 256})).content == small.content + b"kept"
        known = await http.get(url, headers={"If-None-Match": small.headers["etag"]})
        assert known.status_code == 304
        await put_file(harness, "wide.png", png(300, 1200))
        assert read_webp_size((await http.get(url)).content) == (64, 256)
        await http.delete("/api/threads/t1")
        assert find_files(tmp_path, "thumbnails") == []


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("bomb.png", png(10, 10, said_width=2_000_000_000), "40 million pixels|broken"),
        ("large.png", png(8000, 6000), "40 million pixels"),
        ("cut.png", png(400, 400)[:80], "broken"),
        ("text.png", b"<html>", "broken, or not a picture"),
        ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "broken, or not a picture"),
        ("page.eps", b"%!PS-Adobe-3.0 EPSF-3.0\n", "broken, or not a picture"),
        ("empty.png", b"", "broken, or not a picture"),
    ],
)
async def test_reports_why_a_file_has_no_thumbnail(harness: Harness, name: str, content: bytes, why: str) -> None:
    url = (await put_file(harness, name, content)).replace("/artifacts/", "/thumbnails/")
    async with browse(harness) as http, asyncio.timeout(60):
        http.timeout = 60
        answer = await http.get(url)
        assert answer.status_code == 422 and answer.json()["error"] == "UnusableFile"
        assert any(each in answer.json()["detail"] for each in why.split("|")), answer.text


async def test_refuses_missing_files_and_files_of_other_users(tmp_path: Path) -> None:
    async with open_sandbox_harness(
        tmp_path, ScriptedModel.saying(), sandbox={"toolbox": {"enabled": False}}
    ) as harness:
        await put_file(harness, "a.png", png(1, 1))
        async with browse(harness) as http:
            for path in (f"t1/thumbnails{OUTPUTS}/none.png", f"none/thumbnails{OUTPUTS}/a.png", "t1/thumbnails/etc/x"):
                assert (await http.get(f"/api/threads/{path}")).status_code == 404
            for size in ("0", "-1", "1025", "x"):
                wrong = await http.get(f"/api/threads/t1/thumbnails{OUTPUTS}/a.png", params={"size": size})
                assert wrong.status_code == 422
            await harness.threads.get("t1", LOCAL_USER)


async def test_reports_that_no_thumbnails_can_be_rendered(tmp_path: Path) -> None:
    (tmp_path / "python").mkdir()
    settings = {"sandbox": {"toolbox": {"enabled": False}}}
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying(), **settings) as harness, browse(harness) as http:
        url = (await put_file(harness, "a.png", png(1, 1))).replace("/artifacts/", "/thumbnails/")
        answer = await http.get(url)
        assert answer.status_code in (200, 422)  # some machines have Pillow of their own
        assert answer.status_code == 200 or "toolbox" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (SandboxJobResult(137, "", timed_out=True), "longer than"),
        (SandboxJobResult(98, "", out_of_memory=True), "memory"),
        (SandboxJobResult(0, "picture:!!!"), "cannot be drawn"),
        (SandboxJobResult(0, "picture:PGh0bWw+"), "cannot be drawn"),
        (SandboxJobResult(0, "picture:UklGRg", truncated=True), "cannot be drawn"),
        (SandboxJobResult(1, "\nKeyError: 1"), "cannot be drawn"),
    ],
)
def test_validates_the_output_of_the_sandbox(result: SandboxJobResult, why: str) -> None:
    assert parse_thumbnail(result) is None and why in explain_failure(result)

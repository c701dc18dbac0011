"""Zip downloads, and files in archives."""

import io
import os
import zipfile
from pathlib import Path

import psutil
import pytest

from deerflow.testing import ScriptedModel
from tests.gateway.support import OUTPUTS, assert_harmless, find_files, get_artifact_url, put_file
from tests.support import OpenHarness, browse


def read_members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


async def test_files_are_downloaded_as_a_zip_by_query_and_body(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "a.html", b"<p>")
        await put_file(harness, "deep/b c.txt", b"b")
        all_of_them = await http.get("/api/threads/t1/artifacts.zip")
        assert read_members(all_of_them.content) == {"outputs/a.html": b"<p>", "outputs/deep/b c.txt": b"b"}
        assert all_of_them.headers["content-type"] == "application/zip"
        assert all_of_them.headers["content-disposition"] == "attachment; filename*=UTF-8''t1.zip"
        assert_harmless(all_of_them)
        one = await http.get("/api/threads/t1/artifacts.zip", params={"path": [f"{OUTPUTS}/a.html"]})
        assert read_members(one.content) == {"outputs/a.html": b"<p>"}
        listed = await http.post("/api/threads/t1/artifacts/zip", json={"paths": [f"{OUTPUTS}/deep"]})
        assert read_members(listed.content) == {"outputs/deep/b c.txt": b"b"}


@pytest.mark.parametrize(
    ("paths", "status"),
    [
        ([f"{OUTPUTS}/a", f"{OUTPUTS}/none"], 404),
        (["/mnt/user-data/workspace"], 404),
        (["/etc"], 404),
        ([f"{OUTPUTS}/../../.."], 404),
        ([f"{OUTPUTS}/\0"], 404),
        ([""], 404),
        ([], 422),
        ([f"{OUTPUTS}/a"] * 1001, 422),
        ("a", 422),
        ([1], 422),
    ],
)
async def test_bundle_errors_are_returned_before_the_first_byte(
    harness_saying: OpenHarness, paths: object, status: int
) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "a", b"a")
        response = await http.post("/api/threads/t1/artifacts/zip", json={"paths": paths})
        assert response.status_code == status and response.headers["content-type"] == "application/json"


async def test_a_bundle_over_the_limits_is_rejected(harness_saying: OpenHarness, tmp_path: Path) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "large", b"")
        (file,) = find_files(tmp_path, "large")
        os.truncate(file, 3 * 1024**3)
        response = await http.get("/api/threads/t1/artifacts.zip")
        assert response.status_code == 413 and "GB" in response.json()["detail"]


@pytest.mark.slow
async def test_a_large_bundle_is_streamed(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        for number in range(16):
            await put_file(harness, f"{number}", os.urandom(1024**2) * 8)
        process, most, size = psutil.Process(), 0, 0
        async with http.stream("GET", "/api/threads/t1/artifacts.zip") as response:
            before = process.memory_info().rss
            async for piece in response.aiter_raw():
                size += len(piece)
                most = max(most, process.memory_info().rss)
        assert size > 128 * 1024**2 and most - before < 48 * 1024**2


async def test_files_in_archives_are_served(harness_saying: OpenHarness) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("SKILL.md", "# Größe")
        archive.writestr("assets/page.html", "<script>1</script>")
        archive.writestr("../up", "x")
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "x.skill", file.getvalue())
        await put_file(harness, "folder.skill/SKILL.md", b"in a folder")
        text = await http.get(get_artifact_url(f"{OUTPUTS}/x.skill/SKILL.md"))
        assert (text.text, text.headers["content-type"]) == ("# Größe", "text/plain; charset=utf-8")
        part = await http.get(get_artifact_url(f"{OUTPUTS}/x.skill/SKILL.md"), headers={"Range": "bytes=0-0"})
        assert (part.status_code, part.content) == (206, b"#")
        page = await http.get(get_artifact_url(f"{OUTPUTS}/x.skill/assets/page.html"))
        assert page.headers["content-disposition"] == "attachment; filename*=UTF-8''page.html"
        assert_harmless(page)
        assert (await http.get(get_artifact_url(f"{OUTPUTS}/folder.skill/SKILL.md"))).text == "in a folder"
        assert (await http.get(get_artifact_url(f"{OUTPUTS}/x.skill"))).content == file.getvalue()
        for member in ("none", "assets", "..%2fup", "SKILL.md/x", "%00"):
            url = f"{get_artifact_url(f'{OUTPUTS}/x.skill')}/{member}"
            assert (await http.get(url)).status_code in (404, 422)


async def test_a_broken_archive_is_an_error(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "x.skill", b"not a zip file")
        response = await http.get(get_artifact_url(f"{OUTPUTS}/x.skill/SKILL.md"))
        assert response.status_code == 422 and response.json()["error"] == "UnusableFile"

"""Files of a thread over HTTP: unchanged content and safe headers."""

import asyncio
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deerflow.client import DeerFlowClient
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.testing import ScriptedModel
from tests.gateway.support import OUTPUTS, assert_harmless, put_file
from tests.support import OpenHarness, browse

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
HTML = b"<!doctype html><script>fetch('/api/threads')</script>"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"


@pytest.mark.parametrize(
    "path",
    [
        "mnt/user-data/outputs/missing.txt",
        "mnt/user-data/outputs",
        "mnt/user-data/outputs/..%2f..%2f..%2fsecret",
        "etc/passwd",
        "%2fetc%2fpasswd",
        "mnt/user-data/outputs/%00",
        "mnt/user-data/outputs/%ff",
        "",
    ],
)
async def test_paths_that_are_not_files_of_the_thread_are_not_found(harness_saying: OpenHarness, path: str) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "a.txt", b"a")
        response = await http.get(f"/api/threads/t1/artifacts/{path}")
        assert response.status_code == 404 and response.json()["error"] in ("FileProblem", "NoSuchFile")


async def test_a_foreign_thread_looks_like_a_missing_one(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        foreign = await http.get(await put_file(harness, "a.txt", b"secret", "theirs", Principal("somebody")))
        missing = await http.get(f"/api/threads/none/artifacts{OUTPUTS}/a.txt")
        assert foreign.status_code == missing.status_code == 404
        assert foreign.json() == {"detail": "no thread 'theirs'", "error": "NotFound"}


async def test_a_link_out_of_the_thread_is_not_followed(harness_saying: OpenHarness, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "a.txt", b"a")
        replace_by_link(tmp_path, "a.txt", tmp_path / "secret")
        assert (await http.get(url)).status_code == 404


def replace_by_link(root: Path, name: str, target: Path) -> None:
    (file,) = root.rglob(name)
    file.unlink()
    file.symlink_to(target)


@pytest.mark.parametrize(
    ("name", "content", "shown_as"),
    [
        ("chart.png", PNG, "image/png"),
        ("photo.jpg", b"\xff\xd8\xff\xe0" + bytes(8), "image/jpeg"),
        ("moving.gif", b"GIF89a" + bytes(8), "image/gif"),
        ("small.webp", b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        ("named-wrongly.pdf", PNG, "image/png"),
        ("notes.md", "# Größe — 数".encode(), "text/plain; charset=utf-8"),
        ("long.txt", b"x" + "ü".encode() * 40_000, "text/plain; charset=utf-8"),
        ("tool.js", b"alert(1)", "text/plain; charset=utf-8"),
        ("empty", b"", "text/plain; charset=utf-8"),
        ("page.html", HTML, None),
        ("page.HTM", HTML, None),
        ("page.xhtml", HTML, None),
        ("drawing.svg", SVG, None),
        ("picture.svg", PNG, None),
        ("feed.xml", b"<?xml version='1.0'?><a/>", None),
        ("page", HTML, "text/plain; charset=utf-8"),
        ("fake.png", HTML, "text/plain; charset=utf-8"),
        ("fake.gif", b"MZ\x90\x00", None),
        ("report.pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3", None),
        ("latin.txt", "Größe".encode("latin-1"), None),
        ("wide.txt", "Hi".encode("utf-16"), None),
        ("program", b"\x7fELF", None),
    ],
)
async def test_only_images_and_text_are_shown_inline(
    harness_saying: OpenHarness, name: str, content: bytes, shown_as: str | None
) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, name, content)
        plain, download = await http.get(url), await http.get(url, params={"download": "true"})
        for response, media_type in ((plain, shown_as), (download, None)):
            place = "inline" if media_type else "attachment"
            assert response.status_code == 200 and response.content == content
            assert response.headers["content-type"] == (media_type or "application/octet-stream")
            assert response.headers["content-disposition"] == f"{place}; filename*=UTF-8''{name}"
            assert_harmless(response)


async def test_a_file_name_cannot_inject_headers(harness_saying: OpenHarness) -> None:
    name = 'a"; filename="b.html\r\nSet-Cookie: c=1\nü.bin'
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        response = await http.get(await put_file(harness, name, b"\0"))
        assert response.content == b"\0" and "set-cookie" not in response.headers
        assert response.headers["content-disposition"] == f"attachment; filename*=UTF-8''{quote(name, safe='')}"


NAMES = st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=60).filter(
    lambda name: name not in (".", "..") and not name.startswith(".deerflow-unfinished-")
)


@pytest.mark.slow
async def test_arbitrary_bytes_and_names_round_trip(
    harness_saying: OpenHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # so that the client finds the same files
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        thread = await harness.threads.create(LOCAL_USER, "t1", {}, may_exist=False)

        @given(NAMES, st.binary())
        @settings(max_examples=150, deadline=None)
        @example("line\nbreak\n", b"\r\n")
        @example("50%2f?#&+ ;", b"\0")
        def come_back(name: str, content: bytes) -> None:
            path = f"{OUTPUTS}/folder/{name}"
            asyncio.run(harness.files_of(thread).write(path, content))
            assert client.get_artifact("t1", path)[0] == content
            assert browser.get(f"/api/threads/t1/artifacts{quote(path)}").content == content

        with DeerFlowClient(model=ScriptedModel.saying()) as client, httpx.Client(base_url=http.base_url) as browser:
            await asyncio.to_thread(come_back)

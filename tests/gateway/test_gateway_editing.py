"""Edits of files over HTTP."""

import asyncio
import hashlib
import os
from pathlib import Path

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from deerflow.domain.identity import LOCAL_USER
from deerflow.testing import ScriptedModel
from tests.gateway.support import OUTPUTS, find_files, get_artifact_url, put_file
from tests.support import OpenHarness, browse


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def test_an_edit_needs_the_current_hash_over_http(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "a.md", b"one\r\n")
        edit = {"content": "two\r\nand\n", "expected_sha256": sha256(b"one\r\n")}
        edited = await http.put(url, json=edit)
        assert edited.status_code == 200
        assert edited.json() == {"path": f"{OUTPUTS}/a.md", "sha256": sha256(b"two\r\nand\n"), "size": 9}
        again = await http.put(url, json=edit)
        assert again.status_code == 409 and again.json()["error"] == "Conflict"
        assert sha256(b"two\r\nand\n") in again.json()["detail"]
        assert (await http.get(url)).content == b"two\r\nand\n"


async def test_a_new_file_is_created_only_if_none_exists(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "a.md", b"one")
        new = {"content": "new", "expected_sha256": None}
        assert (await http.put(get_artifact_url("/mnt/user-data/workspace/deep/er/b.md"), json=new)).status_code == 200
        there = await http.put(get_artifact_url(f"{OUTPUTS}/a.md"), json=new)
        assert there.status_code == 409 and sha256(b"one") in there.json()["detail"]
        gone = await http.put(get_artifact_url(f"{OUTPUTS}/c.md"), json={**new, "expected_sha256": sha256(b"")})
        assert gone.status_code == 409 and "not there" in gone.json()["detail"]
        assert (await http.get(get_artifact_url(f"{OUTPUTS}/c.md"))).status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (f"{OUTPUTS}/a.md", {"content": "x" * (2 * 1024**2 + 1), "expected_sha256": None}, 413),
        (f"{OUTPUTS}/a.md", {"content": "ü" * (1024**2 + 1), "expected_sha256": None}, 413),
        (f"{OUTPUTS}/a.md", {"expected_sha256": None}, 422),
        (f"{OUTPUTS}/a.md", {"content": "x", "expected_sha256": "X" * 64}, 422),
        (f"{OUTPUTS}/a.md", {"content": "x", "expected_sha256": None, "mode": 511}, 422),
        (f"{OUTPUTS}/a.md", {"content": ["x"], "expected_sha256": None}, 422),
        ("/mnt/user-data/uploads/a.md", {"content": "x", "expected_sha256": None}, 422),
        (OUTPUTS, {"content": "x", "expected_sha256": None}, 404),
        (f"{OUTPUTS}/..%2f..%2fx", {"content": "x", "expected_sha256": None}, 404),
        (f"{OUTPUTS}/%00", {"content": "x", "expected_sha256": None}, 404),
        ("/etc/passwd", {"content": "x", "expected_sha256": None}, 404),
        (f"{OUTPUTS}/x.skill/SKILL.md", {"content": "x", "expected_sha256": None}, 422),
        (f"{OUTPUTS}/{'n' * 300}", {"content": "x", "expected_sha256": None}, 404),
    ],
)
async def test_rejected_edits_leave_no_files(
    harness_saying: OpenHarness, tmp_path: Path, path: str, body: dict[str, object], status: int
) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "kept", b"kept")
        (user_data,) = find_files(tmp_path, "user-data")
        before = [each for each in find_files(user_data, "*") if each.is_file()]
        response = await http.put(f"/api/threads/t1/artifacts{path}", json=body)
        assert response.status_code == status and response.json()["detail"]
        assert [each for each in find_files(user_data, "*") if each.is_file()] == before


async def test_lone_surrogates_are_rejected(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "a.md", b"")
        raw = b'{"content": "\\ud800", "expected_sha256": "%s"}' % sha256(b"").encode()
        response = await http.put(url, content=raw, headers={"Content-Type": "application/json"})
        assert response.status_code == 422


async def test_links_and_special_files_are_not_edited(harness_saying: OpenHarness, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "a.md", b"")
        (file,) = find_files(tmp_path, "a.md")
        (file.parent / "link").symlink_to(secret)
        os.link(secret, file.parent / "hard")
        os.mkfifo(file.parent / "pipe")
        for name in ("link", "hard", "pipe"):
            body = {"content": "x", "expected_sha256": sha256(b"secret")}
            assert (await http.put(get_artifact_url(f"{OUTPUTS}/{name}"), json=body)).status_code == 404
        assert secret.read_bytes() == b"secret"


async def test_one_of_many_concurrent_edits_succeeds(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        url = await put_file(harness, "a.md", b"")
        bodies = [{"content": f"{number}", "expected_sha256": sha256(b"")} for number in range(20)]
        answers = await asyncio.gather(*(http.put(url, json=body) for body in bodies))
        won = [number for number, answer in enumerate(answers) if answer.status_code == 200]
        assert len(won) == 1 and {answer.status_code for answer in answers} == {200, 409}
        assert (await http.get(url)).text == f"{won[0]}"


@pytest.mark.slow
async def test_arbitrary_text_round_trips(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await harness.threads.create(LOCAL_USER, "t1", {}, may_exist=False)

        @given(some.lists(some.text(), min_size=1, max_size=3))
        @settings(max_examples=60, deadline=None)
        @example(["\r", "\r\n\n", "\ufeff\0"])
        def come_back(texts: list[str]) -> None:
            url, known = get_artifact_url(f"{OUTPUTS}/f"), browser.get(get_artifact_url(f"{OUTPUTS}/f"))
            expected = sha256(known.content) if known.status_code == 200 else None
            for text in texts:
                edited = browser.put(url, json={"content": text, "expected_sha256": expected})
                assert edited.status_code == 200
                assert browser.get(url).content == text.encode()
                expected = edited.json()["sha256"]

        with httpx.Client(base_url=http.base_url) as browser:
            await asyncio.to_thread(come_back)


async def test_the_edit_examples_of_the_openapi_document_work_in_order(
    harness_saying: OpenHarness,
) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await harness.threads.create(LOCAL_USER, "t1", {}, may_exist=False)
        described = (await http.get("/api/openapi.json")).json()["paths"]
        file = described["/api/threads/{thread_id}/artifacts/{path}"]
        bodies = file["put"]["requestBody"]["content"]["application/json"]["examples"].values()
        named = [each["examples"]["report"]["value"] for each in file["put"]["parameters"] if each["name"] == "path"]
        url = f"/api/threads/t1/artifacts/{named[0]}"
        for body in bodies:
            assert (await http.put(url, json=body["value"])).status_code == 200
        assert (await http.get(url)).text == "# Plan B\n"
        several = described["/api/threads/{thread_id}/artifacts/zip"]["post"]["requestBody"]["content"]
        (paths,) = several["application/json"]["examples"].values()
        assert (await http.post("/api/threads/t1/artifacts/zip", json=paths["value"])).status_code == 200
        assert (await http.get("/api/threads/t1/artifacts.zip")).status_code == 200

"""Custom skills over HTTP: installation, edits, rollback and errors."""

from pathlib import Path

import httpx

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.harness import open_harness
from deerflow.skills.folders import owner_folder
from deerflow.testing import ScriptedModel
from tests.skills.hostile_archives import build_archive
from tests.skills.skill_host import REPOSITORY, SKILL, open_skill_host
from tests.skills.support import ALLOW, build_skill_md
from tests.support import browse

BLOCK = '{"decision": "block", "reason": "It lies."}'
ARCHIVE = "/mnt/user-data/uploads/sample.skill"


async def upload(http: httpx.AsyncClient, content: bytes) -> None:
    await http.post("/api/threads", json={"thread_id": "t", "if_exists": "do_nothing"})
    sent = await http.post("/api/threads/t/uploads", files={"files": ("sample.skill", content)})
    assert sent.json()["success"], sent.text


async def test_an_uploaded_archive_is_installed_once_and_rejected_ones_leave_no_files(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={})
    model = ScriptedModel.saying(BLOCK, ALLOW)
    folder = owner_folder(tmp_path / ".deer-flow", LOCAL_USER.user_id)
    async with open_harness(source, model) as harness, browse(harness) as http:
        await upload(http, build_archive(("scripts/run.py", b"print('hi')\n")))
        request = {"thread_id": "t", "path": ARCHIVE}
        refused = await http.post("/api/skills/install", json=request)
        assert (refused.status_code, refused.json()["error"]) == (422, "SkillRefused")
        assert refused.json()["detail"] == "refused by the review: It lies."
        assert [path.name for path in folder.rglob("*") if path.is_file()] == []

        installed = await http.post("/api/skills/install", json=request)
        assert installed.json() == {
            "success": True,
            "skill_name": "sample",
            "message": "Skill 'sample' installed",
            "scanner": {"decision": "allow", "reason": "It does what it says.", "findings": []},
        }
        assert "sample" in [each["name"] for each in (await http.get("/api/skills")).json()["skills"]]
        again = await http.post("/api/skills/install", json=request)
        assert (again.status_code, again.json()["error"]) == (409, "Conflict")
        for body, status in (
            ({"thread_id": "absent", "path": ARCHIVE}, 404),
            ({"thread_id": "t", "path": "/mnt/user-data/uploads/absent.skill"}, 404),
            ({"thread_id": "t", "path": "/mnt/user-data/uploads/notes.md"}, 422),
            ({"thread_id": "t", "path": "/mnt/user-data/../../../etc/x.skill"}, 404),
        ):
            assert (await http.post("/api/skills/install", json=body)).status_code == status, body


async def test_a_skill_is_installed_from_git_compared_and_updated(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={})
    review = '{"decision": "allow", "reason": "Fine."}'
    with open_skill_host(tmp_path / "host") as host:
        first = host.commit({"SKILL.md": SKILL.format(body="Boil.")})
        async with open_harness(source, ScriptedModel.saying(review, review)) as harness, browse(harness) as http:
            harness.resources.skill_downloader = host.downloader()
            installed = await http.post("/api/skills/install", json={"url": REPOSITORY})
            assert installed.json()["skill_name"] == "tea", installed.text
            same = (await http.get("/api/skills/custom/tea/update")).json()
            assert (same["diff"], same["source"]["revision"], same["installed_revision"]) == ("", first, first)

            second = host.commit({"SKILL.md": SKILL.format(body="Steep.")})
            found = (await http.get("/api/skills/custom/tea/update")).json()
            assert "-Boil.\n+Steep.\n" in found["diff"] and found["source"]["revision"] == second
            outdated = await http.post("/api/skills/custom/tea/update", json={"revision": first})
            assert (outdated.status_code, outdated.json()["error"]) == (409, "Conflict")
            updated = await http.post("/api/skills/custom/tea/update", json={"revision": second})
            assert updated.json()["success"], updated.text
            shown = (await http.get("/api/skills/custom/tea")).json()
            assert shown["source"] == {"url": REPOSITORY, "revision": second, "ref": None, "folder": None}


async def test_an_installation_needs_either_a_file_or_a_url(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={})
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        for body in ({}, {"thread_id": "t"}, {"url": REPOSITORY, "thread_id": "t", "path": ARCHIVE}):
            refused = await http.post("/api/skills/install", json=body)
            assert (refused.status_code, refused.json()["error"]) == (422, "InvalidRequest"), body
        for url, status, error in (
            ("https://ada:secret@git.example.org/tea", 422, "InvalidRequest"),
            ("file:///etc/passwd", 422, "InvalidRequest"),
            ("https://127.0.0.1/tea", 502, "SkillUnavailable"),
        ):
            refused = await http.post("/api/skills/install", json={"url": url})
            assert (refused.status_code, refused.json()["error"]) == (status, error), url
            assert "secret" not in refused.text


async def test_custom_skills_are_created_edited_and_restored(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={})
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        custom = "/api/skills/custom"
        made = await http.post(custom, json={"content": build_skill_md()})
        assert made.status_code == 201
        assert (await http.post(custom, json={"content": build_skill_md()})).status_code == 409
        first = made.json()["sha256"]
        edit = {"content": build_skill_md(body="# Two\n"), "expected_sha256": first}
        assert (await http.put(f"{custom}/sample", json=edit)).status_code == 200
        late = await http.put(f"{custom}/sample", json={**edit, "content": build_skill_md(body="# Three\n")})
        assert (late.status_code, late.json()["error"]) == (409, "Conflict")
        bad = await http.put(f"{custom}/sample/files/scripts/a.py", json={"content": "exec(input())\n"})
        assert (bad.status_code, bad.json()["error"]) == (422, "SkillRefused")
        assert "scripts/a.py, line 1" in bad.json()["detail"] and "python-dynamic-exec" in bad.json()["detail"]
        written = await http.put(f"{custom}/sample/files/references/a.md", json={"content": "A\n"})
        assert [file["path"] for file in written.json()["files"]] == ["SKILL.md", "references/a.md"]
        assert (await http.get(f"{custom}/sample/files/references/a.md")).json()["content"] == "A\n"
        assert (await http.get(f"{custom}/sample/files/../../other/SKILL.md")).status_code == 404

        assert (await http.delete(f"{custom}/sample")).status_code == 204
        assert (await http.get(f"{custom}/sample")).status_code == 404
        history = (await http.get(f"{custom}/sample/history")).json()["history"]
        assert [change["action"] for change in history] == ["create", "edit", "write_file", "delete"]
        assert "-# How\n+# Two\n" in history[1]["diff"]
        back = await http.post(f"{custom}/sample/rollback", json={})
        assert back.json()["content"] == build_skill_md(body="# Two\n")
        assert len(back.json()["files"]) == 2
        undone = await http.post(f"{custom}/sample/rollback", json={"history_index": 1})
        assert undone.json()["sha256"] == first
        assert (await http.delete(f"{custom}/sample/history")).status_code == 204
        assert (await http.get(f"{custom}/sample/history")).json() == {"history": []}


async def test_changes_made_outside_are_listed(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={})
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        await http.post("/api/skills/custom", json={"content": build_skill_md()})
        file = owner_folder(tmp_path / ".deer-flow", LOCAL_USER.user_id) / "custom" / "sample" / "SKILL.md"
        file.write_text(build_skill_md(body="# Other\n"))
        [shown] = (await http.get("/api/skills/custom")).json()["skills"]
        assert shown["changed_outside"] == ["changed outside: SKILL.md"]
        assert (await http.get("/api/skills/sample")).json()["enabled"]

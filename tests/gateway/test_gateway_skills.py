"""Skills over HTTP."""

from pathlib import Path

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.harness import open_harness
from deerflow.skills.folders import custom_root
from deerflow.testing import ScriptedModel
from tests.skills.support import write_skill
from tests.support import browse


async def test_skills_are_listed_read_and_disabled(tmp_path: Path) -> None:
    public, custom = tmp_path / "skills/public", custom_root(tmp_path / ".deer-flow", LOCAL_USER.user_id)
    write_skill(custom, "own", body="# 整理\n", more="allowed-tools: [bash]\nversion: 1.10\nhomepage: {url: x}\n")
    (custom / "own" / "references").mkdir()
    (custom / "own" / "references" / "more.md").write_text("more")
    write_skill(public, "tidy-up", "Tidies – immer.", more="license: MIT\n")
    write_skill(public, "Broken", folder="broken")
    source = open_source(directory=tmp_path, environment={}, overrides={"skills": {"path": "skills"}})

    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        listed = (await http.get("/api/skills")).json()
        own, tidy = listed["skills"]
        assert tidy == {
            "name": "tidy-up",
            "description": "Tidies – immer.",
            "license": "MIT",
            "category": "public",
            "enabled": True,
            "editable": False,
            "location": "/mnt/skills/public/tidy-up/SKILL.md",
            "allowed_tools": None,
            "address": None,
            "shared_by": None,
            "access": None,
            "has_editors": False,
        }
        assert own["editable"] and own["allowed_tools"] == ["bash"]
        [refused] = listed["refused"]
        assert (refused["category"], refused["path"]) == ("public", "broken")
        assert refused["reason"].endswith("single hyphens between them, not 'Broken'")

        shown = (await http.get("/api/skills/own")).json()
        assert shown["content"].endswith("# 整理\n")
        assert shown["fields"]["version"] == "1.10" and shown["fields"]["homepage"] == {"url": "x"}
        assert [file["path"] for file in shown["files"]] == ["SKILL.md", "references/more.md"]

        for name in ("own", "tidy-up"):
            switched = await http.put(f"/api/skills/{name}", json={"enabled": False})
            assert switched.json()["enabled"] is False
        assert [skill["enabled"] for skill in (await http.get("/api/skills")).json()["skills"]] == [False, False]
        write_skill(custom, "new")
        assert len((await http.post("/api/skills/reload")).json()["skills"]) == 3

        for missing in (await http.get("/api/skills/x"), await http.put("/api/skills/x", json={"enabled": True})):
            assert (missing.status_code, missing.json()["error"]) == (404, "NotFound")
        wrong = await http.put("/api/skills/own", json={"enabled": "perhaps"})
        assert (wrong.status_code, wrong.json()["error"]) == (422, "InvalidRequest")
        assert (await http.get("/api/features")).json()["enabled"]["skills"] is True


async def test_an_invalid_extensions_file_is_reported_and_not_changed(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/public", "tidy-up")
    source = open_source(directory=tmp_path, environment={}, overrides={"skills": {"path": "skills"}})
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        (tmp_path / "extensions_config.json").write_text("{oh")
        response = await http.put("/api/skills/tidy-up", json={"enabled": False})
        assert (response.status_code, response.json()["error"]) == (503, "ConfigError")
        assert (tmp_path / "extensions_config.json").read_text() == "{oh"

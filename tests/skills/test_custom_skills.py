"""Custom skill service: create, change, delete and restore."""

import asyncio
import hashlib
import os
from contextlib import suppress
from pathlib import Path

import pytest

from deerflow.domain.errors import Conflict, InvalidRequest, NotFound, SkillInvalid, SkillRefused
from deerflow.skills.authoring.custom_skills import ReviewPolicy
from deerflow.skills.authoring.review import ReviewReply
from tests.skills.support import (
    AGENT,
    ALLOW,
    OWNER,
    PERSON,
    ScriptedReviews,
    build_skill_md,
    list_stored_files,
    open_service,
    write_skill,
)

LIMIT_S = 60


def get_custom_path(home: Path, path: str = "") -> Path:
    return home / "users" / OWNER / "skills" / "custom" / path


async def test_create_edit_and_delete_are_recorded(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    made = await service.create(OWNER, build_skill_md(), PERSON)
    edited = await service.edit(OWNER, "sample", build_skill_md(body="# Better\n"), PERSON, made.sha256)
    assert (
        get_custom_path(tmp_path, "sample/SKILL.md").read_text() == build_skill_md(body="# Better\n") == edited.content
    )
    await service.delete(OWNER, "sample", PERSON)
    assert not get_custom_path(tmp_path, "sample").exists() and await service.list(OWNER) == []
    entries = await service.history(OWNER, "sample")
    assert [(entry.action, entry.author) for entry in entries] == [
        ("create", "person"),
        ("edit", "person"),
        ("delete", "person"),
    ]
    assert "-# How\n+# Better\n" in entries[1].diff and entries[0].diff.startswith("--- /dev/null\n+++ b/SKILL.md\n")


async def test_concurrent_edits_conflict(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    made = await service.create(OWNER, build_skill_md(), PERSON)
    edits = (service.edit(OWNER, "sample", build_skill_md(body=f"# {n}\n"), PERSON, made.sha256) for n in range(6))
    results = await asyncio.gather(*edits, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Conflict"] * 5 + ["StoredSkill"]
    assert len(await service.history(OWNER, "sample")) == 2


async def test_a_skill_is_read_whole_or_not_found_while_it_changes(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    await service.create(OWNER, build_skill_md(), PERSON)

    async def change() -> None:
        for _ in range(20):
            await service.write_file(OWNER, "sample", "references/a.md", "A\n", PERSON)
            await service.remove_file(OWNER, "sample", "references/a.md", PERSON)
            await service.delete(OWNER, "sample", PERSON)
            await service.rollback(OWNER, "sample", PERSON)

    async def read() -> None:
        while not changing.done():
            with suppress(NotFound):
                assert (await service.get(OWNER, "sample")).content == build_skill_md()

    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        changing = tasks.create_task(change())
        for _ in range(3):
            tasks.create_task(read())


async def test_edit_with_outdated_hash_conflicts(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    await service.create(OWNER, build_skill_md(), PERSON)
    with pytest.raises(Conflict, match="changed in the meantime"):
        await service.edit(OWNER, "sample", build_skill_md(body="x"), PERSON, hashlib.sha256(b"old").hexdigest())


async def test_rollback_undoes_each_change(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    await service.create(OWNER, build_skill_md(), PERSON)
    await service.edit(OWNER, "sample", build_skill_md(body="# Two\n"), PERSON)
    assert (await service.rollback(OWNER, "sample", PERSON)).content == build_skill_md()
    assert (await service.rollback(OWNER, "sample", PERSON)).content == build_skill_md(body="# Two\n")
    await service.write_file(OWNER, "sample", "references/a.md", "A\n", PERSON)
    await service.remove_file(OWNER, "sample", "references/a.md", PERSON)
    assert not get_custom_path(tmp_path, "sample/references").exists()
    await service.rollback(OWNER, "sample", PERSON)
    assert get_custom_path(tmp_path, "sample/references/a.md").read_text() == "A\n"
    await service.rollback(OWNER, "sample", PERSON, 4)
    assert not get_custom_path(tmp_path, "sample/references/a.md").exists()
    with pytest.raises(Conflict, match="cannot undo the creation"):
        await service.rollback(OWNER, "sample", PERSON, 0)
    with pytest.raises(NotFound, match="no change 99"):
        await service.rollback(OWNER, "sample", PERSON, 99)


async def test_deleted_skill_can_be_restored_until_history_is_cleared(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    await service.create(OWNER, build_skill_md(), PERSON)
    picture = bytes(range(256)) * 8
    get_custom_path(tmp_path, "sample/assets").mkdir()
    get_custom_path(tmp_path, "sample/assets/p.png").write_bytes(picture)
    await service.delete(OWNER, "sample", PERSON)
    back = await service.rollback(OWNER, "sample", PERSON)
    assert get_custom_path(tmp_path, "sample/assets/p.png").read_bytes() == picture and back.changed_outside == ()
    await service.remove_file(OWNER, "sample", "assets/p.png", PERSON)
    await service.rollback(OWNER, "sample", PERSON)
    assert get_custom_path(tmp_path, "sample/assets/p.png").read_bytes() == picture
    await service.delete(OWNER, "sample", PERSON)
    await service.clear_history(OWNER, "sample")
    with pytest.raises(NotFound):
        await service.rollback(OWNER, "sample", PERSON)
    assert list_stored_files(tmp_path) == ["custom", "history", "skills.lock"]


BAD_PATHS = (
    "SKILL.md",
    "notes.md",
    "../x.md",
    "scripts/../../x.md",
    "/etc/x",
    "tests/a.yaml",
    "scripts",
    "scripts/.env",
    "skill.toml",
)


@pytest.mark.parametrize("path", BAD_PATHS)
async def test_refuses_support_files_outside_their_folders(path: str, tmp_path: Path) -> None:
    service = open_service(tmp_path)
    await service.create(OWNER, build_skill_md(), PERSON)
    with pytest.raises(InvalidRequest, match="references/, templates/, scripts/, assets/"):
        await service.write_file(OWNER, "sample", path, "x", AGENT)


async def test_agents_cannot_change_contract_or_tests(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    await service.create(OWNER, build_skill_md(), PERSON)
    for path in ("skill.toml", "tests/first.yaml"):
        await service.write_file(OWNER, "sample", path, "x\n", PERSON)
        for change in (
            service.remove_file(OWNER, "sample", path, AGENT),
            service.patch(OWNER, "sample", "x", "y", AGENT, path=path, expected_count=1),
        ):
            with pytest.raises(InvalidRequest):
                await change
    assert get_custom_path(tmp_path, "sample/tests/first.yaml").read_text() == "x\n"


async def test_does_not_write_through_symbolic_links(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    await service.create(OWNER, build_skill_md(), PERSON)
    get_custom_path(tmp_path, "sample/scripts").symlink_to(tmp_path)
    with pytest.raises(InvalidRequest, match="contains a symbolic link"):
        await service.write_file(OWNER, "sample", "scripts/a.py", "print(1)\n", PERSON)
    assert not (tmp_path / "a.py").exists()


async def test_refuses_special_files_and_reserved_names(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    await service.create(OWNER, build_skill_md(), PERSON)
    get_custom_path(tmp_path, "sample/references/folder").mkdir(parents=True)
    os.mkfifo(get_custom_path(tmp_path, "sample/references/pipe"))
    for path in ("references/folder", "references/pipe"):
        with pytest.raises(InvalidRequest, match="is not a file|is a folder"):
            await service.write_file(OWNER, "sample", path, "x", PERSON)
        with pytest.raises(InvalidRequest, match="is not a file|is a folder"):
            await service.read_file(OWNER, "sample", path)
    assert "added outside: references/pipe" in (await service.get(OWNER, "sample")).changed_outside
    for path in ("../sample/SKILL.md", "references/absent.md", "SKILL.md/x"):
        with pytest.raises(NotFound):
            await service.read_file(OWNER, "sample", path)
    with pytest.raises(InvalidRequest, match="'install' is reserved"):
        await service.create(OWNER, build_skill_md("install"), PERSON)


async def test_patch_requires_the_expected_count(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    await service.create(OWNER, build_skill_md(body="one two two\n"), PERSON)
    for find, count in (("two", 1), ("three", 1), ("", 1)):
        with pytest.raises(InvalidRequest, match="nothing was changed"):
            await service.patch(OWNER, "sample", find, "x", PERSON, path=None, expected_count=count)
    changed = await service.patch(OWNER, "sample", "two", "2", PERSON, path=None, expected_count=2)
    assert changed.content.endswith("one 2 2\n")


async def test_refused_changes_leave_the_skill_unchanged(tmp_path: Path) -> None:
    service = open_service(tmp_path, policy=ReviewPolicy)
    with pytest.raises(SkillInvalid, match="header is missing"):
        await service.create(OWNER, "# Hello\n", PERSON)
    with pytest.raises(InvalidRequest, match="has the name 'sample', not 'other'"):
        await service.create(OWNER, build_skill_md(), PERSON, "other")
    await service.create(OWNER, build_skill_md(), PERSON)
    with pytest.raises(InvalidRequest, match="cannot be renamed to 'other'"):
        await service.edit(OWNER, "sample", build_skill_md("other"), PERSON)
    with pytest.raises(SkillInvalid, match="description"):
        await service.edit(OWNER, "sample", "---\nname: sample\n---\n", PERSON)
    with pytest.raises(SkillRefused, match="python-shell-exec"):
        await service.write_file(OWNER, "sample", "scripts/a.py", "import os\nos.system('id')\n", PERSON)
    assert len(await service.history(OWNER, "sample")) == 1


async def test_builtin_skills_are_read_only_and_their_names_taken(tmp_path: Path) -> None:
    write_skill(tmp_path / "shipped", "famous")
    service = open_service(tmp_path)
    with pytest.raises(Conflict, match="built-in"):
        await service.edit(OWNER, "famous", build_skill_md("famous"), PERSON)
    with pytest.raises(Conflict, match="already exists"):
        await service.create(OWNER, build_skill_md("famous"), PERSON)
    for name in ("absent", "../../x", "A"):
        with pytest.raises(NotFound):
            await service.get(OWNER, name)


async def test_skills_of_other_users_are_not_found(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    await service.create(OWNER, build_skill_md(), PERSON)
    for doing in (
        service.get("bob", "sample"),
        service.delete("bob", "sample", PERSON),
        service.history("bob", "sample"),
    ):
        with pytest.raises(NotFound):
            await doing
    assert await service.list("bob") == []


async def test_reports_external_changes_by_file(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    await service.create(OWNER, build_skill_md(), PERSON)
    await service.write_file(OWNER, "sample", "references/a.md", "A\n", PERSON)
    await service.write_file(OWNER, "sample", "references/b.md", "B\n", PERSON)
    get_custom_path(tmp_path, "sample/references/a.md").write_text("other\n")
    get_custom_path(tmp_path, "sample/references/b.md").unlink()
    get_custom_path(tmp_path, "sample/references/c.md").write_text("new\n")
    seen = ("changed outside: references/a.md", "removed outside: references/b.md", "added outside: references/c.md")
    assert (await service.get(OWNER, "sample")).changed_outside == seen
    # A change of another file does not update their hashes.
    await service.edit(OWNER, "sample", build_skill_md(body="# New\n"), PERSON)
    assert (await service.get(OWNER, "sample")).changed_outside == seen
    write_skill(get_custom_path(tmp_path), "found")
    assert "added outside: the whole skill" in (await service.get(OWNER, "found")).changed_outside[0]


async def test_reviews_changes_by_agents_with_scanner_findings(tmp_path: Path) -> None:
    reviews = ScriptedReviews()
    service = open_service(tmp_path, reviews, policy=ReviewPolicy)
    await service.create(OWNER, build_skill_md(), AGENT)
    await service.write_file(OWNER, "sample", "scripts/a.py", "import subprocess\nsubprocess.run(['ls'])\n", AGENT)
    assert len(reviews.requests) == 2 and "python-subprocess" in reviews.requests[1].skill
    assert reviews.requests[1].owner == OWNER and reviews.requests[1].thread_id == "t1"
    entry = (await service.history(OWNER, "sample"))[1]
    assert (entry.author, entry.thread_id, entry.scanner.decision) == ("agent", "t1", "allow")
    assert [finding.rule_id for finding in entry.scanner.findings] == ["python-subprocess"]


async def test_does_not_review_changes_by_people(tmp_path: Path) -> None:
    reviews = ScriptedReviews()
    service = open_service(tmp_path, reviews)
    await service.create(OWNER, build_skill_md(), PERSON)
    await service.write_file(OWNER, "sample", "scripts/a.py", "print(1)\n", PERSON)
    assert reviews.requests == []


FAILURES = {
    "silence": ReviewReply("", "the model failed: ModelTimeout"),
    "prose": ReviewReply("Looks good to me!"),
    "another word": ReviewReply('{"decision": "fine", "reason": "x"}'),
    "no reason": ReviewReply('{"decision": "allow"}'),
    "more than the answer": ReviewReply(f"{ALLOW}\nand more"),
}


@pytest.mark.parametrize("about", FAILURES)
async def test_refuses_changes_by_agents_without_a_valid_review(about: str, tmp_path: Path) -> None:
    service = open_service(tmp_path, ScriptedReviews([FAILURES[about]]))
    with pytest.raises(SkillRefused, match="no review"):
        await service.create(OWNER, build_skill_md(), AGENT)
    assert list_stored_files(tmp_path) == []


async def test_missing_review_is_accepted_only_without_scripts_if_configured(tmp_path: Path) -> None:
    silent = ScriptedReviews([ReviewReply("", "the model failed")])
    service = open_service(tmp_path, silent, policy=lambda: ReviewPolicy(fails_closed=False))
    await service.create(OWNER, build_skill_md(), AGENT)
    assert (await service.history(OWNER, "sample"))[0].scanner.decision == "warn"
    with pytest.raises(SkillRefused, match="no review"):
        await service.write_file(OWNER, "sample", "scripts/a.py", "print(1)\n", AGENT)


async def test_review_warning_refuses_scripts_but_not_texts(tmp_path: Path) -> None:
    warning = ReviewReply('```json\n{"decision": "warn", "reason": "It goes far."}\n```')
    service = open_service(tmp_path, ScriptedReviews([warning]))
    await service.create(OWNER, build_skill_md(), AGENT)
    with pytest.raises(SkillRefused, match="It goes far"):
        await service.write_file(OWNER, "sample", "scripts/a.py", "print(1)\n", AGENT)


class FakeTester:
    """Tester that fails for skills containing the word `broken`."""

    def __init__(self) -> None:
        self.tested: list[str] = []

    async def run_tests(self, owner: str, name: str, folder: Path) -> None:
        content = (folder / "SKILL.md").read_text()
        self.tested.append(content)
        if "broken" in content:
            raise SkillRefused("the test 'first' fails")


async def test_changes_by_agents_must_pass_the_tests_of_the_skill(tmp_path: Path) -> None:
    tester = FakeTester()
    service = open_service(tmp_path, tester=tester)
    await service.create(OWNER, build_skill_md(), AGENT)
    with pytest.raises(SkillRefused, match="the test 'first' fails"):
        await service.edit(OWNER, "sample", build_skill_md(body="broken\n"), AGENT)
    assert get_custom_path(tmp_path, "sample/SKILL.md").read_text() == build_skill_md()
    await service.edit(OWNER, "sample", build_skill_md(body="broken\n"), PERSON)
    assert tester.tested == [build_skill_md(), build_skill_md(body="broken\n")]


async def test_scanner_can_be_disabled(tmp_path: Path) -> None:
    service = open_service(tmp_path, policy=lambda: ReviewPolicy(scans=False))
    await service.create(OWNER, build_skill_md(), PERSON)
    await service.write_file(OWNER, "sample", "scripts/a.py", "import os\nos.system('id')\n", PERSON)
    assert get_custom_path(tmp_path, "sample/scripts/a.py").exists()

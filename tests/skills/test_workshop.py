"""Custom skills: made, changed, deleted and brought back, one whole step at a time."""

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from deerflow.domain.errors import Conflict, InvalidRequest, NotFound, SkillInvalid, SkillRefused
from deerflow.skills.review import Opinion
from deerflow.skills.workshop import Rules
from tests.skills.packs import write_skill
from tests.skills.workshops import AGENT, ALLOW, OWNER, PERSON, Reviews, left_on_disk, open_workshop, skill


def custom(home: Path, path: str = "") -> Path:
    return home / "users" / OWNER / "skills" / "custom" / path


async def test_a_skill_is_made_edited_and_deleted_and_all_of_it_is_noted(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path)
    made = await workshop.create(OWNER, skill(), PERSON)
    edited = await workshop.edit(OWNER, "sample", skill(body="# Better\n"), PERSON, made.sha256)
    assert custom(tmp_path, "sample/SKILL.md").read_text() == skill(body="# Better\n") == edited.content
    await workshop.delete(OWNER, "sample", PERSON)
    assert not custom(tmp_path, "sample").exists() and await workshop.list(OWNER) == []
    entries = await workshop.history(OWNER, "sample")
    assert [(entry.action, entry.author) for entry in entries] == [
        ("create", "person"),
        ("edit", "person"),
        ("delete", "person"),
    ]
    assert "-# How\n+# Better\n" in entries[1].diff and entries[0].diff.startswith("--- /dev/null\n+++ b/SKILL.md\n")


async def test_of_two_edits_at_once_one_wins_and_the_other_is_told(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path)
    made = await workshop.create(OWNER, skill(), PERSON)
    edits = (workshop.edit(OWNER, "sample", skill(body=f"# {n}\n"), PERSON, made.sha256) for n in range(6))
    results = await asyncio.gather(*edits, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Conflict"] * 5 + ["StoredSkill"]
    assert len(await workshop.history(OWNER, "sample")) == 2


async def test_an_edit_of_what_somebody_else_has_changed_is_a_conflict(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path)
    await workshop.create(OWNER, skill(), PERSON)
    with pytest.raises(Conflict, match="changed meanwhile"):
        await workshop.edit(OWNER, "sample", skill(body="x"), PERSON, hashlib.sha256(b"old").hexdigest())


async def test_each_change_can_be_undone_and_the_undoing_too(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path)
    await workshop.create(OWNER, skill(), PERSON)
    await workshop.edit(OWNER, "sample", skill(body="# Two\n"), PERSON)
    assert (await workshop.rollback(OWNER, "sample", PERSON)).content == skill()
    assert (await workshop.rollback(OWNER, "sample", PERSON)).content == skill(body="# Two\n")
    await workshop.write_file(OWNER, "sample", "references/a.md", "A\n", PERSON)
    await workshop.remove_file(OWNER, "sample", "references/a.md", PERSON)
    assert not custom(tmp_path, "sample/references").exists()
    await workshop.rollback(OWNER, "sample", PERSON)
    assert custom(tmp_path, "sample/references/a.md").read_text() == "A\n"
    await workshop.rollback(OWNER, "sample", PERSON, 4)
    assert not custom(tmp_path, "sample/references/a.md").exists()
    with pytest.raises(Conflict, match="there was no skill"):
        await workshop.rollback(OWNER, "sample", PERSON, 0)
    with pytest.raises(NotFound, match="none is number 99"):
        await workshop.rollback(OWNER, "sample", PERSON, 99)


async def test_a_deleted_skill_comes_back_byte_for_byte_until_its_history_is_cleared(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path)
    await workshop.create(OWNER, skill(), PERSON)
    picture = bytes(range(256)) * 8
    custom(tmp_path, "sample/assets").mkdir()
    custom(tmp_path, "sample/assets/p.png").write_bytes(picture)
    await workshop.delete(OWNER, "sample", PERSON)
    back = await workshop.rollback(OWNER, "sample", PERSON)
    assert custom(tmp_path, "sample/assets/p.png").read_bytes() == picture and back.changed_outside == ()
    await workshop.remove_file(OWNER, "sample", "assets/p.png", PERSON)
    await workshop.rollback(OWNER, "sample", PERSON)
    assert custom(tmp_path, "sample/assets/p.png").read_bytes() == picture
    await workshop.delete(OWNER, "sample", PERSON)
    await workshop.clear_history(OWNER, "sample")
    with pytest.raises(NotFound):
        await workshop.rollback(OWNER, "sample", PERSON)
    assert left_on_disk(tmp_path) == ["custom", "history", "skills.lock"]


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
async def test_files_beside_skill_md_have_their_places(path: str, tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path)
    await workshop.create(OWNER, skill(), PERSON)
    with pytest.raises(InvalidRequest, match="references/, templates/, scripts/, assets/"):
        await workshop.write_file(OWNER, "sample", path, "x", AGENT)


async def test_contract_and_tests_are_a_persons_to_write(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path)
    await workshop.create(OWNER, skill(), PERSON)
    for path in ("skill.toml", "tests/first.yaml"):
        await workshop.write_file(OWNER, "sample", path, "x\n", PERSON)
        for change in (
            workshop.remove_file(OWNER, "sample", path, AGENT),
            workshop.patch(OWNER, "sample", "x", "y", AGENT, path=path, expected_count=1),
        ):
            with pytest.raises(InvalidRequest):
                await change
    assert custom(tmp_path, "sample/tests/first.yaml").read_text() == "x\n"


async def test_a_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path)
    await workshop.create(OWNER, skill(), PERSON)
    custom(tmp_path, "sample/scripts").symlink_to(tmp_path)
    with pytest.raises(InvalidRequest, match="goes through a link"):
        await workshop.write_file(OWNER, "sample", "scripts/a.py", "print(1)\n", PERSON)
    assert not (tmp_path / "a.py").exists()


async def test_what_is_no_file_is_neither_read_nor_written(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path)
    await workshop.create(OWNER, skill(), PERSON)
    custom(tmp_path, "sample/references/folder").mkdir(parents=True)
    os.mkfifo(custom(tmp_path, "sample/references/pipe"))
    for path in ("references/folder", "references/pipe"):
        with pytest.raises(InvalidRequest, match="is not a file|is a folder"):
            await workshop.write_file(OWNER, "sample", path, "x", PERSON)
        with pytest.raises(InvalidRequest, match="is not a file|is a folder"):
            await workshop.read_file(OWNER, "sample", path)
    assert "added outside: references/pipe" in (await workshop.get(OWNER, "sample")).changed_outside
    for path in ("../sample/SKILL.md", "references/absent.md", "SKILL.md/x"):
        with pytest.raises(NotFound):
            await workshop.read_file(OWNER, "sample", path)
    with pytest.raises(InvalidRequest, match="no skill can be called 'install'"):
        await workshop.create(OWNER, skill("install"), PERSON)


async def test_a_piece_is_replaced_as_often_as_expected_or_not_at_all(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path)
    await workshop.create(OWNER, skill(body="one two two\n"), PERSON)
    for find, count in (("two", 1), ("three", 1), ("", 1)):
        with pytest.raises(InvalidRequest, match="nothing was changed"):
            await workshop.patch(OWNER, "sample", find, "x", PERSON, path=None, expected_count=count)
    changed = await workshop.patch(OWNER, "sample", "two", "2", PERSON, path=None, expected_count=2)
    assert changed.content.endswith("one 2 2\n")


async def test_what_cannot_be_a_skill_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path, rules=Rules)
    with pytest.raises(SkillInvalid, match="header is missing"):
        await workshop.create(OWNER, "# Hello\n", PERSON)
    with pytest.raises(InvalidRequest, match="calls the skill 'sample', not 'other'"):
        await workshop.create(OWNER, skill(), PERSON, "other")
    await workshop.create(OWNER, skill(), PERSON)
    with pytest.raises(InvalidRequest, match="cannot be called 'other'"):
        await workshop.edit(OWNER, "sample", skill("other"), PERSON)
    with pytest.raises(SkillInvalid, match="description"):
        await workshop.edit(OWNER, "sample", "---\nname: sample\n---\n", PERSON)
    with pytest.raises(SkillRefused, match="python-shell-exec"):
        await workshop.write_file(OWNER, "sample", "scripts/a.py", "import os\nos.system('id')\n", PERSON)
    assert len(await workshop.history(OWNER, "sample")) == 1


async def test_built_in_skills_are_not_changed_and_their_names_are_taken(tmp_path: Path) -> None:
    write_skill(tmp_path / "shipped", "famous")
    workshop = open_workshop(tmp_path)
    with pytest.raises(Conflict, match="built in"):
        await workshop.edit(OWNER, "famous", skill("famous"), PERSON)
    with pytest.raises(Conflict, match="already a skill"):
        await workshop.create(OWNER, skill("famous"), PERSON)
    for name in ("absent", "../../x", "A"):
        with pytest.raises(NotFound):
            await workshop.get(OWNER, name)


async def test_skills_of_others_are_not_there(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path)
    await workshop.create(OWNER, skill(), PERSON)
    for doing in (
        workshop.get("bob", "sample"),
        workshop.delete("bob", "sample", PERSON),
        workshop.history("bob", "sample"),
    ):
        with pytest.raises(NotFound):
            await doing
    assert await workshop.list("bob") == []


async def test_what_other_hands_change_is_seen_file_by_file_and_stays_in_use(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path)
    await workshop.create(OWNER, skill(), PERSON)
    await workshop.write_file(OWNER, "sample", "references/a.md", "A\n", PERSON)
    await workshop.write_file(OWNER, "sample", "references/b.md", "B\n", PERSON)
    custom(tmp_path, "sample/references/a.md").write_text("other\n")
    custom(tmp_path, "sample/references/b.md").unlink()
    custom(tmp_path, "sample/references/c.md").write_text("new\n")
    seen = ("changed outside: references/a.md", "removed outside: references/b.md", "added outside: references/c.md")
    assert (await workshop.get(OWNER, "sample")).changed_outside == seen
    # A change of another file does not make them ours.
    await workshop.edit(OWNER, "sample", skill(body="# New\n"), PERSON)
    assert (await workshop.get(OWNER, "sample")).changed_outside == seen
    write_skill(custom(tmp_path), "found")
    assert "put here by hand" in (await workshop.get(OWNER, "found")).changed_outside[0]


async def test_an_agents_change_is_reviewed_with_what_the_rules_say(tmp_path: Path) -> None:
    reviews = Reviews()
    workshop = open_workshop(tmp_path, reviews, rules=Rules)
    await workshop.create(OWNER, skill(), AGENT)
    await workshop.write_file(OWNER, "sample", "scripts/a.py", "import subprocess\nsubprocess.run(['ls'])\n", AGENT)
    assert len(reviews.asked) == 2 and "python-subprocess" in reviews.asked[1].skill
    assert reviews.asked[1].owner == OWNER and reviews.asked[1].thread_id == "t1"
    entry = (await workshop.history(OWNER, "sample"))[1]
    assert (entry.author, entry.thread_id, entry.scanner.decision) == ("agent", "t1", "allow")
    assert [finding.rule_id for finding in entry.scanner.findings] == ["python-subprocess"]


async def test_a_persons_own_words_are_not_shown_to_a_model(tmp_path: Path) -> None:
    reviews = Reviews()
    workshop = open_workshop(tmp_path, reviews)
    await workshop.create(OWNER, skill(), PERSON)
    await workshop.write_file(OWNER, "sample", "scripts/a.py", "print(1)\n", PERSON)
    assert reviews.asked == []


FAILURES = {
    "silence": Opinion("", "the model failed: ModelTimeout"),
    "prose": Opinion("Looks good to me!"),
    "another word": Opinion('{"decision": "fine", "reason": "x"}'),
    "no reason": Opinion('{"decision": "allow"}'),
    "more than the answer": Opinion(f"{ALLOW}\nand more"),
}


@pytest.mark.parametrize("about", FAILURES)
async def test_without_a_proper_review_nothing_an_agent_wrote_is_accepted(about: str, tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path, Reviews([FAILURES[about]]))
    with pytest.raises(SkillRefused, match="no review"):
        await workshop.create(OWNER, skill(), AGENT)
    assert left_on_disk(tmp_path) == []


async def test_what_has_no_scripts_may_do_without_a_review_where_that_is_set_and_scripts_never(tmp_path: Path) -> None:
    silent = Reviews([Opinion("", "the model failed")])
    workshop = open_workshop(tmp_path, silent, rules=lambda: Rules(fails_closed=False))
    await workshop.create(OWNER, skill(), AGENT)
    assert (await workshop.history(OWNER, "sample"))[0].scanner.decision == "warn"
    with pytest.raises(SkillRefused, match="no review"):
        await workshop.write_file(OWNER, "sample", "scripts/a.py", "print(1)\n", AGENT)


async def test_a_warning_is_enough_to_refuse_a_script_and_not_a_text(tmp_path: Path) -> None:
    warning = Opinion('```json\n{"decision": "warn", "reason": "It goes far."}\n```')
    workshop = open_workshop(tmp_path, Reviews([warning]))
    await workshop.create(OWNER, skill(), AGENT)
    with pytest.raises(SkillRefused, match="It goes far"):
        await workshop.write_file(OWNER, "sample", "scripts/a.py", "print(1)\n", AGENT)


class Trial:
    """Tests of a skill that fail when it says so."""

    def __init__(self) -> None:
        self.tried: list[str] = []

    async def try_out(self, owner: str, name: str, folder: Path) -> None:
        content = (folder / "SKILL.md").read_text()
        self.tried.append(content)
        if "broken" in content:
            raise SkillRefused("the test 'first' fails")


async def test_an_agents_change_has_to_pass_the_skills_tests_before_anybody_sees_it(tmp_path: Path) -> None:
    trial = Trial()
    workshop = open_workshop(tmp_path, trial=trial)
    await workshop.create(OWNER, skill(), AGENT)
    with pytest.raises(SkillRefused, match="the test 'first' fails"):
        await workshop.edit(OWNER, "sample", skill(body="broken\n"), AGENT)
    assert custom(tmp_path, "sample/SKILL.md").read_text() == skill()
    await workshop.edit(OWNER, "sample", skill(body="broken\n"), PERSON)
    assert trial.tried == [skill(), skill(body="broken\n")]


async def test_the_scanner_can_be_switched_off(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path, rules=lambda: Rules(scans=False))
    await workshop.create(OWNER, skill(), PERSON)
    await workshop.write_file(OWNER, "sample", "scripts/a.py", "import os\nos.system('id')\n", PERSON)
    assert custom(tmp_path, "sample/scripts/a.py").exists()

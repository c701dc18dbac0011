"""/skills/install and /skills/custom: the caller's own skills, made, changed, deleted and brought back"""

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.gateway.examples import NEW_SKILL, PACK, SKILL, SKILL_TEXT, THREAD, shown_as
from deerflow.runtime.installing import install_from_thread
from deerflow.skills.history import Action, AuthorKind, HistoryEntry, Verdict
from deerflow.skills.store import Author, StoredSkill

router = APIRouter(prefix="/skills", tags=["skills"])

PERSON = Author()


class InstallSkill(BaseModel):
    """Where an archive is: a file of a thread, an upload or what an agent made."""

    model_config = ConfigDict(json_schema_extra=shown_as({"thread_id": THREAD, "path": PACK}))

    thread_id: str
    path: str


class InstalledSkill(BaseModel):
    """What came of an archive."""

    success: bool
    skill_name: str
    message: str
    scanner: Verdict


class CustomFile(BaseModel):
    """A file of a custom skill."""

    path: str
    size: int
    sha256: str


class CustomSkillSummary(BaseModel):
    """A custom skill, as lists show it."""

    name: str
    sha256: str
    """Of its SKILL.md."""
    files: list[CustomFile]
    changed_outside: list[str]
    """What was done to it by other hands than DeerFlow's; it stays in use."""


class CustomSkill(CustomSkillSummary):
    """A custom skill with its SKILL.md."""

    content: str

    @classmethod
    def of(cls, skill: StoredSkill) -> "CustomSkill":
        return cls.model_validate(skill, from_attributes=True)


class CustomSkills(BaseModel):
    """The caller's own skills."""

    skills: list[CustomSkillSummary]


class NewSkill(BaseModel):
    """A new skill: its SKILL.md, whose header names it."""

    model_config = ConfigDict(json_schema_extra=shown_as({"content": SKILL_TEXT.format(name=NEW_SKILL)}))

    content: str


class Edit(BaseModel):
    """The whole new text of a file; `expected_sha256` is the hash of the old one, if it must not be another by now."""

    model_config = ConfigDict(json_schema_extra=shown_as({"content": SKILL_TEXT.format(name=SKILL)}))

    content: str
    expected_sha256: str | None = None


class FileContent(BaseModel):
    """A text among the files of a skill."""

    path: str
    content: str
    sha256: str


class SkillChange(BaseModel):
    """A change of a skill. `history_index` is what undoes it."""

    history_index: int
    at: datetime
    action: Action
    author: AuthorKind
    thread_id: str | None
    file: str | None
    before: str | None
    after: str | None
    diff: str
    scanner: Verdict

    @classmethod
    def of(cls, index: int, entry: HistoryEntry) -> "SkillChange":
        return cls(history_index=index, diff=entry.diff, **entry.model_dump(exclude={"id", "kept"}))


class SkillHistory(BaseModel):
    """What became of a skill, oldest first."""

    history: list[SkillChange]


class Rollback(BaseModel):
    """Which change is to be undone; -1 is the last."""

    model_config = ConfigDict(json_schema_extra=shown_as({"history_index": -1}))

    history_index: int = Field(default=-1, ge=-(2**31), lt=2**31)


@router.post("/install")
async def install_skill(body: InstallSkill, harness: TheHarness, who: Who) -> InstalledSkill:
    """Make a skill of a `.skill` archive. Rules and a model look at it first; refused, nothing of it stays."""
    workshop = harness.resources.workshop
    installed = await install_from_thread(harness.artifacts, workshop, body.thread_id, who, body.path)
    return InstalledSkill(
        success=True, skill_name=installed.skill.name, message=installed.message, scanner=installed.verdict
    )


@router.get("/custom")
async def list_custom_skills(harness: TheHarness, who: Who) -> CustomSkills:
    """The caller's own skills, also those that cannot be used, and what was changed in them outside."""
    found = await harness.resources.workshop.list(who.user_id)
    return CustomSkills(skills=[CustomSkillSummary.model_validate(each, from_attributes=True) for each in found])


@router.post("/custom", status_code=201)
async def create_custom_skill(body: NewSkill, harness: TheHarness, who: Who) -> CustomSkill:
    """Make a skill."""
    return CustomSkill.of(await harness.resources.workshop.create(who.user_id, body.content, PERSON))


@router.get("/custom/{name}")
async def get_custom_skill(name: str, harness: TheHarness, who: Who) -> CustomSkill:
    """One of the caller's own skills."""
    return CustomSkill.of(await harness.resources.workshop.get(who.user_id, name))


@router.put("/custom/{name}")
async def edit_custom_skill(name: str, body: Edit, harness: TheHarness, who: Who) -> CustomSkill:
    """Replace the SKILL.md of a skill."""
    workshop = harness.resources.workshop
    return CustomSkill.of(await workshop.edit(who.user_id, name, body.content, PERSON, body.expected_sha256))


@router.delete("/custom/{name}", status_code=204)
async def delete_custom_skill(name: str, harness: TheHarness, who: Who) -> None:
    """Take a skill away. It can be brought back by a rollback until its history is cleared."""
    await harness.resources.workshop.delete(who.user_id, name, PERSON)


@router.get("/custom/{name}/files/{path:file}")
async def get_custom_skill_file(name: str, path: str, harness: TheHarness, who: Who) -> FileContent:
    """A text among the files of a skill."""
    found = await harness.resources.workshop.read_file(who.user_id, name, path)
    return FileContent(path=path, content=found.content, sha256=found.sha256)


@router.put("/custom/{name}/files/{path:file}")
async def write_custom_skill_file(name: str, path: str, body: Edit, harness: TheHarness, who: Who) -> CustomSkill:
    """Write a file in references/, templates/, scripts/ or assets/ of a skill."""
    workshop = harness.resources.workshop
    written = await workshop.write_file(who.user_id, name, path, body.content, PERSON, body.expected_sha256)
    return CustomSkill.of(written)


@router.delete("/custom/{name}/files/{path:file}")
async def remove_custom_skill_file(name: str, path: str, harness: TheHarness, who: Who) -> CustomSkill:
    """Remove a file of a skill."""
    return CustomSkill.of(await harness.resources.workshop.remove_file(who.user_id, name, path, PERSON))


@router.get("/custom/{name}/history")
async def get_skill_history(name: str, harness: TheHarness, who: Who) -> SkillHistory:
    """What became of a skill, with diffs; also of one that was deleted."""
    entries = await harness.resources.workshop.history(who.user_id, name)
    return SkillHistory(history=[SkillChange.of(index, entry) for index, entry in enumerate(entries)])


@router.delete("/custom/{name}/history", status_code=204)
async def clear_skill_history(name: str, harness: TheHarness, who: Who) -> None:
    """Forget what became of a skill. What was deleted is gone for good."""
    await harness.resources.workshop.clear_history(who.user_id, name)


@router.post("/custom/{name}/rollback")
async def roll_back_skill(name: str, body: Rollback, harness: TheHarness, who: Who) -> CustomSkill:
    """Undo a change: that file, or the whole skill after it was deleted, is as it was before."""
    return CustomSkill.of(await harness.resources.workshop.rollback(who.user_id, name, PERSON, body.history_index))

"""Skills: /skills; custom skills: /skills/custom and /skills/install."""

from datetime import datetime
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from deerflow.domain.errors import InvalidRequest
from deerflow.gateway.dependencies import (
    ConfigurationRoute,
    CurrentUser,
    HarnessDep,
    OwnSkill,
    SkillToRead,
    SkillToWrite,
)
from deerflow.gateway.examples import NEW_SKILL, PACK, REVISION, SKILL, SKILL_TEXT, THREAD, with_examples
from deerflow.gateway.routers.agents import ShareFields
from deerflow.skills.authoring.download import SkillAddress
from deerflow.skills.authoring.history import AuthorKind, ChangeAction, HistoryEntry, Verdict
from deerflow.skills.authoring.install import (
    check_for_update,
    install_from_thread,
    install_from_url,
    update_from_source,
)
from deerflow.skills.authoring.lock import SkillSource
from deerflow.skills.authoring.store import Author, StoredSkill
from deerflow.skills.authoring.test_runner import SkillTestResults
from deerflow.skills.catalog import SkillPackage
from deerflow.skills.contract import Contract
from deerflow.skills.format import Category, Skill, SkillSet


class SkillRoute(ConfigurationRoute):
    """Route of skills."""

    kind = "configuration.skill"
    unrecorded = frozenset({"reload_skills", "test_skill"})


router = APIRouter(prefix="/skills", tags=["skills"], route_class=SkillRoute)


class SkillSummary(ShareFields):
    """Skill in a list."""

    name: str
    description: str
    license: str | None
    category: Category
    enabled: bool
    editable: bool
    """It is a custom skill of the current user."""
    address: str | None = None
    """Unique name of a skill that another person shares: `name@owner`."""
    location: str
    """Path of its SKILL.md in the sandbox."""
    allowed_tools: list[str] | None
    """Tools allowed while the skill is active; null: no restriction."""

    @classmethod
    def from_domain(cls, skill: Skill) -> "SkillSummary":
        return cls.model_validate(skill, from_attributes=True).with_share(skill.share)


class RefusedSkill(BaseModel):
    """Skill folder that was rejected, with the reason."""

    category: Category
    path: str
    reason: str


class Skills(BaseModel):
    """Skills by name, and the rejected folders."""

    skills: list[SkillSummary]
    refused: list[RefusedSkill]

    @classmethod
    def from_domain(cls, found: SkillSet) -> "Skills":
        refused = [RefusedSkill.model_validate(each, from_attributes=True) for each in found.rejected]
        return cls(skills=[SkillSummary.from_domain(skill) for skill in found.skills.values()], refused=refused)


class SkillFile(BaseModel):
    """File of a skill, with its path in the skill folder."""

    path: str
    size: int


class SkillDetails(SkillSummary):
    """Skill with its content."""

    fields: dict[str, Any]
    """Header of SKILL.md with all fields, unknown ones included; scalar values are text."""
    content: str
    """Whole SKILL.md."""
    files: list[SkillFile]
    contract: Contract | None
    """Contract in its skill.toml; null: none."""

    @classmethod
    def from_package(cls, package: SkillPackage) -> "SkillDetails":
        files = [SkillFile(path=file.path, size=file.size) for file in package.files]
        summary = SkillSummary.from_domain(package.skill).model_dump()
        skill = package.skill
        return cls(**summary, fields=dict(skill.fields), content=package.content, files=files, contract=skill.contract)


class SkillSwitch(BaseModel):
    """Skill to enable or disable."""

    model_config = ConfigDict(json_schema_extra=with_examples({"enabled": False}))
    enabled: bool


@router.get("")
async def list_skills(harness: HarnessDep, user: CurrentUser) -> Skills:
    """List all skills, disabled ones included, and the rejected folders with the reasons."""
    return Skills.from_domain(await harness.core.skills.list(user.user_id))


@router.post("/reload")
async def reload_skills(harness: HarnessDep, user: CurrentUser) -> Skills:
    """Read all skill folders again. Changes are detected automatically, except on some network file systems."""
    return Skills.from_domain(await harness.core.skills.reload(user.user_id))


@router.get("/{name}")
async def get_skill(name: str, harness: HarnessDep, user: CurrentUser) -> SkillDetails:
    """Get a skill with its SKILL.md, its header and its file list."""
    return SkillDetails.from_package(await harness.core.skills.read(user.user_id, name))


@router.put("/{name}")
async def update_skill(name: str, body: SkillSwitch, harness: HarnessDep, user: CurrentUser) -> SkillSummary:
    """Enable or disable a skill for all later runs. A disabled skill is not mounted in sandboxes."""
    return SkillSummary.from_domain(await harness.core.skills.set_enabled(user.user_id, name, enabled=body.enabled))


@router.post("/{name}/test")
async def test_skill(name: str, harness: HarnessDep, user: CurrentUser) -> SkillTestResults:
    """Run the tests of a skill offline, with a scripted model and the real sandbox. It can take minutes."""
    tester = await harness.resources.load_skill_tests()
    return await tester.run(user.user_id, name)


custom_router = APIRouter(prefix="/skills", tags=["skills"], route_class=SkillRoute)

PERSON = Author()


class InstallSkill(BaseModel):
    """Skill to install: an archive among the files of a thread, or the URL of a Git repository or an archive."""

    model_config = ConfigDict(json_schema_extra=with_examples({"thread_id": THREAD, "path": PACK}))

    thread_id: str | None = None
    path: str | None = None
    """Path of the archive in the sandbox of the thread."""
    url: str | None = None
    """HTTPS URL, without credentials; used instead of `thread_id` and `path`."""
    ref: str | None = None
    """Branch, tag or commit of the repository; null for its default branch."""
    folder: str | None = None
    """Folder of the skill in the repository; null if it contains one skill."""


class InstalledSkill(BaseModel):
    """Result of an installation."""

    success: bool
    skill_name: str
    message: str
    scanner: Verdict


class CustomFile(SkillFile):
    """File of a custom skill."""

    sha256: str


class CustomSkillSummary(BaseModel):
    """Custom skill in a list."""

    name: str
    sha256: str
    """Hash of its SKILL.md."""
    files: list[CustomFile]
    changed_outside: list[str]
    """Changes made outside DeerFlow; the skill stays enabled."""
    source: SkillSource | None
    """Origin of a skill that was installed from a URL, with the installed revision."""


class CustomSkill(CustomSkillSummary):
    """Custom skill with its SKILL.md."""

    content: str

    @classmethod
    def from_domain(cls, skill: StoredSkill) -> "CustomSkill":
        return cls.model_validate(skill, from_attributes=True)


class CustomSkills(BaseModel):
    """Custom skills of the current user."""

    skills: list[CustomSkillSummary]


class NewSkill(BaseModel):
    """SKILL.md of a new skill, which contains its name."""

    model_config = ConfigDict(json_schema_extra=with_examples({"content": SKILL_TEXT.format(name=NEW_SKILL)}))

    content: str


class Edit(BaseModel):
    """New content of a file; `expected_sha256`, the hash of the content that was edited, detects conflicts."""

    model_config = ConfigDict(json_schema_extra=with_examples({"content": SKILL_TEXT.format(name=SKILL)}))

    content: str
    expected_sha256: str | None = None


class FileContent(BaseModel):
    """Text file of a skill."""

    path: str
    content: str
    sha256: str


class SkillChange(BaseModel):
    """Change of a skill; `history_index` is used to undo it."""

    history_index: int
    at: datetime
    action: ChangeAction
    author: AuthorKind
    thread_id: str | None
    file: str | None
    before: str | None
    after: str | None
    diff: str
    scanner: Verdict

    @classmethod
    def from_domain(cls, index: int, entry: HistoryEntry) -> "SkillChange":
        return cls(history_index=index, diff=entry.diff, **entry.model_dump(exclude={"id", "kept", "source"}))


class SkillHistory(BaseModel):
    """Changes of a skill, oldest first."""

    history: list[SkillChange]


class SkillUpdateCheck(BaseModel):
    """Comparison of a skill with its source."""

    source: SkillSource | None
    """Source with its newest revision; null if the skill was not installed from a URL."""
    installed_revision: str | None
    diff: str
    """Changes of an update, as unified diffs; empty if there are none."""


class UpdateSkillFromSource(BaseModel):
    """Revision to install, as the comparison has returned it."""

    model_config = ConfigDict(json_schema_extra=with_examples({"revision": REVISION}))

    revision: str


class Rollback(BaseModel):
    """Change to undo; -1 is the last."""

    model_config = ConfigDict(json_schema_extra=with_examples({"history_index": -1}))
    history_index: int = Field(default=-1, ge=-(2**31), lt=2**31)


@custom_router.post("/install")
async def install_skill(body: InstallSkill, harness: HarnessDep, user: CurrentUser) -> InstalledSkill:
    """Install a skill from a `.skill` archive or a URL, after a scan and a review by a model."""
    resources = harness.resources
    if body.url is not None and body.thread_id is None and body.path is None:
        address = SkillAddress(body.url, body.ref, body.folder)
        installed = await install_from_url(resources.custom_skills, resources.skill_downloader, user, address)
    elif body.url is None and body.thread_id is not None and body.path is not None:
        installed = await install_from_thread(
            harness.artifacts, resources.custom_skills, body.thread_id, user, body.path
        )
    else:
        raise InvalidRequest("give either `url`, or `thread_id` and `path`")
    return InstalledSkill(
        success=True, skill_name=installed.skill.name, message=installed.message, scanner=installed.verdict
    )


@custom_router.get("/custom")
async def list_custom_skills(harness: HarnessDep, user: CurrentUser) -> CustomSkills:
    """List the custom skills of the current user, invalid ones included, with changes made outside."""
    found = await harness.resources.custom_skills.list(user.user_id)
    return CustomSkills(skills=[CustomSkillSummary.model_validate(each, from_attributes=True) for each in found])


@custom_router.post("/custom", status_code=201)
async def create_custom_skill(body: NewSkill, harness: HarnessDep, user: CurrentUser) -> CustomSkill:
    """Create a custom skill."""
    return CustomSkill.from_domain(await harness.resources.custom_skills.create(user.user_id, body.content, PERSON))


@custom_router.get("/custom/{name}")
async def get_custom_skill(skill: SkillToRead, harness: HarnessDep) -> CustomSkill:
    """Get a custom skill."""
    return CustomSkill.from_domain(await harness.resources.custom_skills.get(*skill))


@custom_router.put("/custom/{name}")
async def edit_custom_skill(skill: SkillToWrite, body: Edit, harness: HarnessDep) -> CustomSkill:
    """Replace the SKILL.md of a custom skill."""
    edit = harness.resources.custom_skills.edit
    return CustomSkill.from_domain(await edit(*skill, body.content, PERSON, body.expected_sha256))


@custom_router.get("/custom/{name}/update")
async def check_skill_update(skill: OwnSkill, harness: HarnessDep, user: CurrentUser) -> SkillUpdateCheck:
    """Download a skill again from its source and compare it with the installed files. Nothing is changed."""
    resources = harness.resources
    if (await resources.custom_skills.get(*skill)).source is None:
        return SkillUpdateCheck(source=None, installed_revision=None, diff="")
    found = await check_for_update(resources.custom_skills, resources.skill_downloader, user, skill.name)
    return SkillUpdateCheck.model_validate(found, from_attributes=True)


@custom_router.post("/custom/{name}/update")
async def update_skill_from_source(
    skill: OwnSkill, body: UpdateSkillFromSource, harness: HarnessDep, user: CurrentUser
) -> InstalledSkill:
    """Replace a skill by the compared revision of its source, after a scan and a review by a model."""
    resources = harness.resources
    updated = await update_from_source(
        resources.custom_skills, resources.skill_downloader, user, skill.name, body.revision
    )
    return InstalledSkill(success=True, skill_name=updated.skill.name, message=updated.message, scanner=updated.verdict)


@custom_router.delete("/custom/{name}", status_code=204)
async def delete_custom_skill(skill: OwnSkill, harness: HarnessDep) -> None:
    """Delete a custom skill. A rollback restores it until its history is cleared."""
    await harness.resources.custom_skills.delete(*skill, PERSON)


@custom_router.get("/custom/{name}/files/{path:file}")
async def get_custom_skill_file(skill: SkillToRead, path: str, harness: HarnessDep) -> FileContent:
    """Get a text file of a custom skill."""
    found = await harness.resources.custom_skills.read_file(*skill, path)
    return FileContent(path=path, content=found.content, sha256=found.sha256)


@custom_router.put("/custom/{name}/files/{path:file}")
async def write_custom_skill_file(skill: SkillToWrite, path: str, body: Edit, harness: HarnessDep) -> CustomSkill:
    """Write a file in references/, templates/, scripts/ or assets/ of a custom skill."""
    write = harness.resources.custom_skills.write_file
    return CustomSkill.from_domain(await write(*skill, path, body.content, PERSON, body.expected_sha256))


@custom_router.delete("/custom/{name}/files/{path:file}")
async def remove_custom_skill_file(skill: SkillToWrite, path: str, harness: HarnessDep) -> CustomSkill:
    """Delete a file of a custom skill."""
    return CustomSkill.from_domain(await harness.resources.custom_skills.remove_file(*skill, path, PERSON))


@custom_router.get("/custom/{name}/history")
async def get_skill_history(skill: SkillToRead, harness: HarnessDep) -> SkillHistory:
    """List the changes of a custom skill with diffs, also of a deleted skill."""
    entries = await harness.resources.custom_skills.history(*skill)
    return SkillHistory(history=[SkillChange.from_domain(index, entry) for index, entry in enumerate(entries)])


@custom_router.delete("/custom/{name}/history", status_code=204)
async def clear_skill_history(skill: OwnSkill, harness: HarnessDep) -> None:
    """Clear the history of a custom skill. Deleted files can no longer be restored."""
    await harness.resources.custom_skills.clear_history(*skill)


@custom_router.post("/custom/{name}/rollback")
async def roll_back_skill(skill: SkillToWrite, body: Rollback, harness: HarnessDep) -> CustomSkill:
    """Undo a change of a file, or an update or the deletion of the skill."""
    return CustomSkill.from_domain(await harness.resources.custom_skills.rollback(*skill, PERSON, body.history_index))

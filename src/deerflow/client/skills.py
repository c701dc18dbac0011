"""Skills, and the authoring of custom skills."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from deerflow.client.session import (
    HarnessSession,
    RemoteRequest,
    RemoteSession,
    Resource,
    quote_segment,
    remotely,
    route,
    sync_and_async,
)
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import LOCAL_USER
from deerflow.skills.authoring.download import SkillAddress
from deerflow.skills.authoring.history import HistoryEntry
from deerflow.skills.authoring.install import (
    InstallResult,
    check_for_update,
    install_from_disk,
    install_from_thread,
    install_from_url,
    update_from_source,
)
from deerflow.skills.authoring.store import Author, StoredSkill
from deerflow.skills.format import Skill, SkillSet

USER = LOCAL_USER.user_id
PERSON = Author()


async def list_remote_skills(session: RemoteSession, enabled_only: bool = False) -> dict[str, Any]:
    """Return the skills of a server."""
    found: dict[str, Any] = orjson.loads((await session.send(RemoteRequest("GET", "/skills"))).content)
    return {**found, "skills": [each for each in found["skills"] if each["enabled"] or not enabled_only]}


@remotely(list_remote_skills)
async def list_skills(session: HarnessSession, enabled_only: bool = False) -> dict[str, Any]:
    """Return the skills, by name, and the rejected skill folders with the reasons.

    Args:
        enabled_only: Omit disabled skills.
    """
    return serialize_skills(await session.harness.core.skills.list(USER), enabled_only=enabled_only)


@route("GET /skills/{name}")
async def get_skill(session: HarnessSession, name: str) -> dict[str, Any]:
    """Return a skill with its SKILL.md, its header and its file list.

    Raises:
        NotFound: the skill does not exist.
    """
    package = await session.harness.core.skills.read(USER, name)
    files = [{"path": file.path, "size": file.size} for file in package.files]
    return {
        **serialize_skill(package.skill),
        "fields": dict(package.skill.fields),
        "content": package.content,
        "files": files,
        "contract": package.skill.contract.model_dump(mode="json") if package.skill.contract else None,
    }


@route("PUT /skills/{name}")
async def update_skill(session: HarnessSession, name: str, *, enabled: bool) -> dict[str, Any]:
    """Enable or disable a skill for all later runs, and return it.

    Raises:
        NotFound: the skill does not exist.
    """
    return serialize_skill(await session.harness.core.skills.set_enabled(USER, name, enabled=enabled))


@route("POST /skills/reload")
async def reload_skills(session: HarnessSession) -> dict[str, Any]:
    """Read all skill folders again. Changes are detected automatically, except on some network file systems."""
    return serialize_skills(await session.harness.core.skills.reload(USER))


async def install_remote_skill(
    session: RemoteSession,
    path: str | Path,
    thread_id: str | None = None,
    *,
    ref: str | None = None,
    folder: str | None = None,
) -> dict[str, Any]:
    """Install a skill on a server, from a thread or an address."""
    if thread_id is None and "://" not in str(path):
        raise InvalidRequest("upload the archive to a thread and name the thread: the server cannot read this machine")
    where = {"url": str(path), "ref": ref, "folder": folder} if thread_id is None else {"path": str(path)}
    answer = await session.send(RemoteRequest("POST", "/skills/install", body={"thread_id": thread_id, **where}))
    installed: dict[str, Any] = orjson.loads(answer.content)
    return installed


@remotely(install_remote_skill)
async def install_skill(
    session: HarnessSession,
    path: str | Path,
    thread_id: str | None = None,
    *,
    ref: str | None = None,
    folder: str | None = None,
) -> dict[str, Any]:
    """Install a skill after a scan and a review by a model. A rejected skill leaves no files.

    Args:
        path: `.skill` archive on this machine, or the HTTPS URL of a Git repository or an archive; with `thread_id`,
            a path in the sandbox of that thread.
        thread_id: Thread that has the archive among its files.
        ref: Branch, tag or commit of the repository; the default branch if omitted.
        folder: Folder of the skill in the repository, if it contains several.

    Raises:
        SkillRefused: the skill is rejected; the message says why.
        SkillUnavailable: the skill cannot be downloaded.
        Conflict: a skill of that name exists.
    """
    resources, artifacts = session.harness.resources, session.harness.artifacts
    custom_skills = resources.custom_skills
    if thread_id is not None:
        installed = await install_from_thread(artifacts, custom_skills, thread_id, LOCAL_USER, str(path))
    elif isinstance(path, str) and "://" in path:
        address = SkillAddress(path, ref, folder)
        installed = await install_from_url(custom_skills, resources.skill_downloader, LOCAL_USER, address)
    else:
        installed = await install_from_disk(custom_skills, LOCAL_USER, Path(path))
    return serialize_install(installed)


@route("GET /skills/custom")
async def list_custom_skills(session: HarnessSession) -> dict[str, Any]:
    """Return your custom skills, and their files that were changed manually."""
    found = [serialize_custom_skill(skill) for skill in await session.harness.resources.custom_skills.list(USER)]
    return {"skills": [{key: value for key, value in each.items() if key != "content"} for each in found]}


@route("GET /skills/custom/{name}")
async def get_custom_skill(session: HarnessSession, name: str) -> dict[str, Any]:
    """Return a custom skill with its SKILL.md.

    Raises:
        NotFound: the skill does not exist.
    """
    return serialize_custom_skill(await session.harness.resources.custom_skills.get(USER, name))


@route("GET /skills/custom/{name}/files/{path}")
async def get_custom_skill_file(session: HarnessSession, name: str, path: str) -> dict[str, Any]:
    """Return a text file of a custom skill.

    Raises:
        NotFound: the skill or text file does not exist.
    """
    found = await session.harness.resources.custom_skills.read_file(USER, name, path)
    return {"path": path, "content": found.content, "sha256": found.sha256}


@route("POST /skills/custom")
async def create_custom_skill(session: HarnessSession, content: str) -> dict[str, Any]:
    """Create a skill from a SKILL.md, which contains its name, and return it.

    Raises:
        SkillInvalid: the header is invalid.
        Conflict: a skill of that name exists.
        SkillRefused: the skill is rejected.
    """
    return serialize_custom_skill(await session.harness.resources.custom_skills.create(USER, content, PERSON))


async def edit_remote_skill(
    session: RemoteSession, name: str, content: str, expected_sha256: str | None = None, path: str | None = None
) -> dict[str, Any]:
    """Replace `SKILL.md` or another file of a custom skill of a server."""
    body = {"content": content, "expected_sha256": expected_sha256}
    answer = await session.send(RemoteRequest("PUT", to_skill_path(name, path), body=body))
    skill: dict[str, Any] = orjson.loads(answer.content)
    return skill


@remotely(edit_remote_skill)
async def edit_custom_skill(
    session: HarnessSession, name: str, content: str, expected_sha256: str | None = None, path: str | None = None
) -> dict[str, Any]:
    """Replace the SKILL.md of a skill, or the file at `path` in references/, templates/, scripts/ or assets/.

    Raises:
        NotFound: the skill does not exist.
        Conflict: the file no longer has the expected hash.
        SkillRefused: the change is rejected.
    """
    custom_skills = session.harness.resources.custom_skills
    if path is None:
        return serialize_custom_skill(await custom_skills.edit(USER, name, content, PERSON, expected_sha256))
    return serialize_custom_skill(await custom_skills.write_file(USER, name, path, content, PERSON, expected_sha256))


async def delete_remote_skill(session: RemoteSession, name: str, path: str | None = None) -> None:
    """Delete a custom skill of a server, or one of its files."""
    await session.send(RemoteRequest("DELETE", to_skill_path(name, path)))


@remotely(delete_remote_skill)
async def delete_custom_skill(session: HarnessSession, name: str, path: str | None = None) -> None:
    """Delete a skill or one of its files; a rollback restores it until the history is cleared.

    Raises:
        NotFound: the skill or file does not exist.
    """
    if path is None:
        await session.harness.resources.custom_skills.delete(USER, name, PERSON)
    else:
        await session.harness.resources.custom_skills.remove_file(USER, name, path, PERSON)


@route("GET /skills/custom/{name}/update")
async def check_skill_update(session: HarnessSession, name: str) -> dict[str, Any]:
    """Download a skill again from its source and return the newest revision and the diff. Nothing is changed.

    Raises:
        NotFound: the skill does not exist.
        SkillUnavailable: the skill cannot be downloaded.
    """
    resources = session.harness.resources
    if (await resources.custom_skills.get(USER, name)).source is None:
        return {"source": None, "installed_revision": None, "diff": ""}
    return asdict(await check_for_update(resources.custom_skills, resources.skill_downloader, LOCAL_USER, name))


@route("POST /skills/custom/{name}/update")
async def update_skill_from_source(session: HarnessSession, name: str, revision: str) -> dict[str, Any]:
    """Replace a skill by the revision of its source that `check_update` has returned; a rollback restores it.

    Raises:
        NotFound: the skill does not exist.
        Conflict: the source has another revision now, or there is none.
        SkillUnavailable: the skill cannot be downloaded.
        SkillRefused: the new version is rejected; nothing is changed.
    """
    resources = session.harness.resources
    custom_skills, downloader = resources.custom_skills, resources.skill_downloader
    return serialize_install(await update_from_source(custom_skills, downloader, LOCAL_USER, name, revision))


@route("GET /skills/custom/{name}/history")
async def get_skill_history(session: HarnessSession, name: str) -> dict[str, Any]:
    """Return the changes of a custom skill with diffs, oldest first, also of a deleted skill.

    Raises:
        NotFound: no skill of that name ever existed.
    """
    entries = await session.harness.resources.custom_skills.history(USER, name)
    shown = await asyncio.to_thread(lambda: [serialize_history(index, entry) for index, entry in enumerate(entries)])
    return {"history": shown}


@route("DELETE /skills/custom/{name}/history")
async def clear_skill_history(session: HarnessSession, name: str) -> None:
    """Delete the history of a skill; deleted files can no longer be restored."""
    await session.harness.resources.custom_skills.clear_history(USER, name)


@route("POST /skills/custom/{name}/rollback")
async def rollback_skill(session: HarnessSession, name: str, history_index: int = -1) -> dict[str, Any]:
    """Undo a change of a file, or an update or the deletion of the skill, and return the skill.

    Raises:
        NotFound: the change does not exist.
        Conflict: the change cannot be undone.
    """
    return serialize_custom_skill(
        await session.harness.resources.custom_skills.rollback(USER, name, PERSON, history_index)
    )


class SkillsClient(Resource):
    """Skills of the agent."""

    list, alist = sync_and_async(list_skills)
    get, aget = sync_and_async(get_skill)
    update, aupdate = sync_and_async(update_skill)
    reload, areload = sync_and_async(reload_skills)
    install, ainstall = sync_and_async(install_skill)


class CustomSkillsClient(Resource):
    """Custom skills and their history."""

    list, alist = sync_and_async(list_custom_skills)
    get, aget = sync_and_async(get_custom_skill)
    get_file, aget_file = sync_and_async(get_custom_skill_file)
    create, acreate = sync_and_async(create_custom_skill)
    edit, aedit = sync_and_async(edit_custom_skill)
    delete, adelete = sync_and_async(delete_custom_skill)
    get_history, aget_history = sync_and_async(get_skill_history)
    clear_history, aclear_history = sync_and_async(clear_skill_history)
    rollback, arollback = sync_and_async(rollback_skill)
    check_update, acheck_update = sync_and_async(check_skill_update)
    update, aupdate = sync_and_async(update_skill_from_source)


def to_skill_path(name: str, path: str | None) -> str:
    """Return the path of a custom skill, or of one of its files, in the HTTP API."""
    file = "" if path is None else f"/files/{quote_segment('path', path)}"
    return f"/skills/custom/{quote_segment('', name)}{file}"


def serialize_skills(found: SkillSet, *, enabled_only: bool = False) -> dict[str, Any]:
    """Return skills in the shape of the HTTP API."""
    shown = found.enabled if enabled_only else found.skills.values()
    refused = [{"category": each.category, "path": each.path, "reason": each.reason} for each in found.rejected]
    return {"skills": [serialize_skill(skill) for skill in shown], "refused": refused}


def serialize_skill(skill: Skill) -> dict[str, Any]:
    """Return a skill in the shape of the HTTP API."""
    return {
        "name": skill.name,
        "description": skill.description,
        "license": skill.license,
        "category": skill.category,
        "enabled": skill.enabled,
        "editable": skill.editable,
        **dict.fromkeys(("address", "shared_by", "access")),
        "has_editors": False,
        "location": skill.location,
        "allowed_tools": None if skill.allowed_tools is None else list(skill.allowed_tools),
    }


def serialize_install(installed: InstallResult) -> dict[str, Any]:
    """Return the result of an installation in the shape of the HTTP API."""
    verdict = installed.verdict.model_dump(mode="json")
    return {
        "success": True, "skill_name": installed.skill.name, "message": installed.message, "scanner": verdict
    }  # fmt: skip


def serialize_custom_skill(skill: StoredSkill) -> dict[str, Any]:
    """Return a custom skill in the shape of the HTTP API."""
    return {
        **asdict(skill),
        "files": [asdict(file) for file in skill.files],
        "changed_outside": [*skill.changed_outside],
    }


def serialize_history(index: int, entry: HistoryEntry) -> dict[str, Any]:
    """Return a change of a skill in the shape of the HTTP API."""
    return {
        "history_index": index,
        "diff": entry.diff,
        **entry.model_dump(mode="json", exclude={"id", "kept", "source"}),
    }

"""Custom skills: installed, made, changed and brought back by a program."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deerflow.client.faces import Session
from deerflow.domain.principal import LOCAL_USER
from deerflow.runtime.installing import install_from_disk, install_from_thread
from deerflow.skills.history import HistoryEntry
from deerflow.skills.store import Author, StoredSkill

USER = LOCAL_USER.user_id
PERSON = Author()


async def install_skill(session: Session, path: str | Path, thread_id: str | None = None) -> dict[str, Any]:
    """Make a skill of a `.skill` archive. Rules and a model look at it first; refused, nothing of it stays.

    Args:
        path: The archive on this machine; with `thread_id`, a file of that thread as the agent says it.
        thread_id: The thread among whose files it is.

    Raises:
        SkillRefused: it is not accepted; the text says why.
        Conflict: there is a skill of that name.
    """
    workshop, artifacts = session.harness.resources.workshop, session.harness.artifacts
    if thread_id is None:
        installed = await install_from_disk(workshop, LOCAL_USER, Path(path))
    else:
        installed = await install_from_thread(artifacts, workshop, thread_id, LOCAL_USER, str(path))
    verdict = installed.verdict.model_dump(mode="json")
    return {
        "success": True, "skill_name": installed.skill.name, "message": installed.message, "scanner": verdict
    }  # fmt: skip


async def list_custom_skills(session: Session) -> dict[str, Any]:
    """Your own skills, and what was changed in them by other hands."""
    found = [show(skill) for skill in await session.harness.resources.workshop.list(USER)]
    return {"skills": [{key: value for key, value in each.items() if key != "content"} for each in found]}


async def get_custom_skill(session: Session, name: str) -> dict[str, Any]:
    """One of your own skills, with its SKILL.md.

    Raises:
        NotFound: there is no such skill.
    """
    return show(await session.harness.resources.workshop.get(USER, name))


async def create_custom_skill(session: Session, content: str) -> dict[str, Any]:
    """Make a skill of a SKILL.md, whose header names it.

    Raises:
        SkillInvalid: the header cannot be used.
        Conflict: there is a skill of that name.
        SkillRefused: it is not accepted.
    """
    return show(await session.harness.resources.workshop.create(USER, content, PERSON))


async def edit_custom_skill(
    session: Session, name: str, content: str, expected_sha256: str | None = None, path: str | None = None
) -> dict[str, Any]:
    """Replace the SKILL.md of a skill, or the file at `path` in references/, templates/, scripts/ or assets/.

    Raises:
        NotFound: there is no such skill.
        Conflict: the file does not have the expected hash any more.
        SkillRefused: the change is not accepted.
    """
    workshop = session.harness.resources.workshop
    if path is None:
        return show(await workshop.edit(USER, name, content, PERSON, expected_sha256))
    return show(await workshop.write_file(USER, name, path, content, PERSON, expected_sha256))


async def get_custom_skill_file(session: Session, name: str, path: str) -> dict[str, Any]:
    """A text among the files of a skill.

    Raises:
        NotFound: there is no such skill, or no such text in it.
    """
    found = await session.harness.resources.workshop.read_file(USER, name, path)
    return {"path": path, "content": found.content, "sha256": found.sha256}


async def delete_custom_skill(session: Session, name: str, path: str | None = None) -> None:
    """Take a skill away, or one of its files; a rollback brings it back until the history is cleared.

    Raises:
        NotFound: there is no such skill or file.
    """
    if path is None:
        await session.harness.resources.workshop.delete(USER, name, PERSON)
    else:
        await session.harness.resources.workshop.remove_file(USER, name, path, PERSON)


async def get_skill_history(session: Session, name: str) -> dict[str, Any]:
    """What became of a skill, oldest first, with diffs; also of one that was deleted.

    Raises:
        NotFound: there never was such a skill.
    """
    entries = await session.harness.resources.workshop.history(USER, name)
    shown = await asyncio.to_thread(lambda: [show_change(index, entry) for index, entry in enumerate(entries)])
    return {"history": shown}


async def clear_skill_history(session: Session, name: str) -> None:
    """Forget what became of a skill; what was deleted is gone for good."""
    await session.harness.resources.workshop.clear_history(USER, name)


async def rollback_skill(session: Session, name: str, history_index: int = -1) -> dict[str, Any]:
    """Undo a change: that file, or the whole skill after it was deleted, is as it was before.

    Raises:
        NotFound: there is no such change.
        Conflict: it cannot be undone.
    """
    return show(await session.harness.resources.workshop.rollback(USER, name, PERSON, history_index))


def show(skill: StoredSkill) -> dict[str, Any]:
    """A custom skill in the shape of the HTTP API."""
    return {
        **asdict(skill),
        "files": [asdict(file) for file in skill.files],
        "changed_outside": [*skill.changed_outside],
    }


def show_change(index: int, entry: HistoryEntry) -> dict[str, Any]:
    """A change in the shape of the HTTP API."""
    return {"history_index": index, "diff": entry.diff, **entry.model_dump(mode="json", exclude={"id", "kept"})}

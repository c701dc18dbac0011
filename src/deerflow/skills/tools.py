"""The `describe_skill` and `skill_manage` tools, and the editor that a run provides to them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from langchain.tools import ToolRuntime

from deerflow.agent_support.tools import require_run_context
from deerflow.domain.context import RunContext
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.skills import SkillEditor
from deerflow.domain.tools import read_only
from deerflow.domain.usage import ModelBudget
from deerflow.skills.authoring.store import Author

if TYPE_CHECKING:
    from deerflow.skills.authoring.custom_skills import CustomSkillService


@read_only
async def describe_skill(name: str, runtime: ToolRuntime[RunContext]) -> str:
    """Find out what a skill is for and where its file is.

    Args:
        name: Its name as it is listed.
    """
    skills = require_run_context(runtime).skills
    skill = skills.find(name.strip()) if skills is not None else None
    if skill is None:
        return f"Error: there is no skill {name!r}; use a name from the list of skills."
    return f"{skill.name} {skill.mark}\n{skill.description}\n\nTo use it, read {skill.location}"


SKILL_MANAGE = "skill_manage"
SUCCESS_TEXTS = {
    "create": "The skill {name!r} is made.",
    "edit": "SKILL.md of {name!r} is replaced.",
    "patch": "{path!r} of {name!r} is changed.",
    "delete": "The skill {name!r} is deleted; the user can bring it back.",
    "write_file": "{path!r} of {name!r} is written.",
    "remove_file": "{path!r} of {name!r} is removed.",
}
REQUIRED_ARGUMENTS = {"create": ("content",), "edit": ("content",), "patch": ("find", "replace"), "delete": (),
          "write_file": ("path", "content"), "remove_file": ("path",)}  # fmt: skip


async def skill_manage(
    action: Literal["create", "edit", "patch", "delete", "write_file", "remove_file"],
    name: str,
    runtime: ToolRuntime[RunContext],
    content: str | None = None,
    path: str | None = None,
    find: str | None = None,
    replace: str | None = None,
    expected_count: int = 1,
) -> str:
    """Make, change or delete a custom skill of the user. Built-in skills cannot be changed.

    A change is checked first and refused with a reason when it is not safe. It counts from the next run on.

    Args:
        action: `create` or `edit` the whole SKILL.md, `patch` a piece of a file, `delete` the skill,
            `write_file` or `remove_file` a file beside SKILL.md.
        name: The skill's name: small letters, digits and hyphens.
        content: For create and edit the whole SKILL.md, with `name` and `description` in its header; for write_file
            the whole file.
        path: For write_file, remove_file and patch: a file in references/, templates/, scripts/ or assets/. A patch
            without it changes SKILL.md.
        find: For patch: the exact piece to replace.
        replace: For patch: what to put in its place.
        expected_count: For patch: how often the piece is in the file.
    """
    editor = require_run_context(runtime).skill_editor
    if editor is None:
        raise InvalidRequest("skills cannot be changed in this run")
    arguments = {"content": content, "path": path, "find": find, "replace": replace}
    if missing := [key for key in REQUIRED_ARGUMENTS[action] if arguments[key] is None]:
        raise InvalidRequest(f"{action} needs {' and '.join(missing)}")
    await apply_action(editor, action, name, {key: value or "" for key, value in arguments.items()}, expected_count)
    return SUCCESS_TEXTS[action].format(name=name, path=path or "SKILL.md")


async def apply_action(
    editor: SkillEditor, action: str, name: str, arguments: dict[str, str], expected_count: int
) -> None:
    """Perform the action that the model requested."""
    match action:
        case "create":
            await editor.create(name, arguments["content"])
        case "edit":
            await editor.edit(name, arguments["content"])
        case "patch":
            await editor.patch(name, arguments["find"], arguments["replace"], arguments["path"] or None, expected_count)
        case "delete":
            await editor.delete(name)
        case "write_file":
            await editor.write_file(name, arguments["path"], arguments["content"])
        case "remove_file":
            await editor.remove_file(name, arguments["path"])


@dataclass(frozen=True, slots=True)
class RunSkillEditor:
    """Editor for the custom skills of the owner of a run."""

    open_service: Callable[[], "CustomSkillService"]
    """Factory, called on the first change because few runs make one."""
    owner: str
    thread_id: str
    budget: ModelBudget | None = None

    @property
    def _author(self) -> Author:
        return Author("agent", self.thread_id, self.budget)

    async def create(self, name: str, content: str) -> None:
        await self.open_service().create(self.owner, content, self._author, name)

    async def edit(self, name: str, content: str) -> None:
        await self.open_service().edit(self.owner, name, content, self._author)

    async def patch(self, name: str, find: str, replace: str, path: str | None, expected_count: int) -> None:
        await self.open_service().patch(
            self.owner, name, find, replace, self._author, path=path, expected_count=expected_count
        )

    async def delete(self, name: str) -> None:
        await self.open_service().delete(self.owner, name, self._author)

    async def write_file(self, name: str, path: str, content: str) -> None:
        await self.open_service().write_file(self.owner, name, path, content, self._author)

    async def remove_file(self, name: str, path: str) -> None:
        await self.open_service().remove_file(self.owner, name, path, self._author)

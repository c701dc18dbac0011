"""`skill_manage`: an agent writes down what it has learned, as a custom skill."""

from typing import Literal

from langchain.tools import ToolRuntime

from deerflow.domain.context import RunContext
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.skills import SkillEditor
from deerflow.tools.run import current_run

SKILL_MANAGE = "skill_manage"
DONE = {
    "create": "The skill {name!r} is made.",
    "edit": "SKILL.md of {name!r} is replaced.",
    "patch": "{path!r} of {name!r} is changed.",
    "delete": "The skill {name!r} is deleted; the user can bring it back.",
    "write_file": "{path!r} of {name!r} is written.",
    "remove_file": "{path!r} of {name!r} is removed.",
}
NEEDED = {"create": ("content",), "edit": ("content",), "patch": ("find", "replace"), "delete": (),
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
    editor = current_run(runtime).skill_editor
    if editor is None:
        raise InvalidRequest("skills cannot be changed in this run")
    given = {"content": content, "path": path, "find": find, "replace": replace}
    if missing := [key for key in NEEDED[action] if given[key] is None]:
        raise InvalidRequest(f"{action} needs {' and '.join(missing)}")
    await carry_out(editor, action, name, {key: value or "" for key, value in given.items()}, expected_count)
    return DONE[action].format(name=name, path=path or "SKILL.md")


async def carry_out(editor: SkillEditor, action: str, name: str, given: dict[str, str], expected_count: int) -> None:
    """Do what the model asks for."""
    match action:
        case "create":
            await editor.create(name, given["content"])
        case "edit":
            await editor.edit(name, given["content"])
        case "patch":
            await editor.patch(name, given["find"], given["replace"], given["path"] or None, expected_count)
        case "delete":
            await editor.delete(name)
        case "write_file":
            await editor.write_file(name, given["path"], given["content"])
        case "remove_file":
            await editor.remove_file(name, given["path"])

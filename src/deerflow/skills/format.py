"""SKILL.md: a header between two lines of `---`, and below it what the agent is to know."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from deerflow.config.imports import load_object
from deerflow.domain.errors import SkillInvalid

SKILL_FILE = "SKILL.md"
SKILL_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_NAME, MAX_DESCRIPTION = 64, 1024
MAX_SKILL_BYTES = 512 * 1024
READ_FIELDS = "deerflow.skills.header_fields:read_fields"
"""By name: the server can be there before the first skill is read."""
OPEN_FIELDS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
OUR_FIELDS = frozenset({"version", "author", "required-secrets", "secrets-autonomous"})
FENCE = re.compile(r"\A\s*---[ \t]*\r?\n(?P<header>.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
TOOLS_ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "Bash": "bash",
        "Read": "read_file",
        "Write": "write_file",
        "Edit": "str_replace",
        "MultiEdit": "str_replace",
        "LS": "ls",
        "Glob": "glob",
        "Grep": "grep",
        "WebFetch": "web_fetch",
        "WebSearch": "web_search",
        "Task": "task",
        "TodoWrite": "write_todos",
    }
)
"""What other agents call the tools that ours have too."""


@dataclass(frozen=True, slots=True)
class SkillHeader:
    """What SKILL.md says of its skill above the second `---`."""

    name: str
    description: str
    license: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    """The tools it needs, by the names they have here; None: it does not say."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """All fields as they are written, also those nobody here knows; every plain value is text."""
    body: str = ""

    @property
    def unknown(self) -> tuple[str, ...]:
        """The fields that neither the open format nor this project knows."""
        return tuple(sorted(self.fields.keys() - OPEN_FIELDS - OUR_FIELDS))


def parse_skill(text: str, *, where: str = SKILL_FILE) -> SkillHeader:
    """The header and the body of a SKILL.md that errors call `where`. Fields that are not known are kept.

    Raises:
        SkillInvalid: It cannot be used; the text says why.
    """
    header, body = split_skill(text, where)
    fields = cast(Callable[[str, str], dict[str, Any]], load_object(READ_FIELDS))(header, where)
    return SkillHeader(
        name=check_skill_name(_text(fields, "name", where), where),
        description=_description(fields, where),
        license=_text(fields, "license", where) or None,
        allowed_tools=_tools(fields.get("allowed-tools"), where),
        fields=MappingProxyType(fields),
        body=body,
    )


def split_skill(text: str, where: str = SKILL_FILE) -> tuple[str, str]:
    """The YAML of the header, with its lines where they are in the file, and what follows it."""
    match = FENCE.match(text.removeprefix("\ufeff"))
    if match is None:
        remedy = "begin it with a line '---', then 'name:' and 'description:', then another line '---'"
        raise SkillInvalid(f"{where}: the header is missing or not closed; {remedy}")
    before = text.removeprefix("\ufeff")[: match.start("header")].count("\n")
    return "\n" * before + match["header"], text.removeprefix("\ufeff")[match.end() :]


def check_skill_name(name: str, where: str = "name") -> str:
    """Return `name`, or raise `SkillInvalid` when no skill can be called so."""
    if not name:
        raise SkillInvalid(f"{where}: 'name' is missing; write 'name: the-name-of-the-skill'")
    if len(name) > MAX_NAME or not SKILL_NAME.fullmatch(name):
        rule = f"1 to {MAX_NAME} small letters a-z, digits and single hyphens between them"
        raise SkillInvalid(f"{where}: a skill's name is {rule}, not {name[: MAX_NAME + 1]!r}")
    return name


def _text(fields: Mapping[str, Any], key: str, where: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise SkillInvalid(f"{where}: {key!r} must be text, not a list or a mapping")
    return value.strip()


def _description(fields: Mapping[str, Any], where: str) -> str:
    description = _text(fields, "description", where)
    if not description:
        raise SkillInvalid(f"{where}: 'description' is missing; say what the skill does and when to use it")
    if len(description) > MAX_DESCRIPTION:
        raise SkillInvalid(
            f"{where}: the description has {len(description):,} characters; at most {MAX_DESCRIPTION:,} are allowed, "
            "the rest belongs below the header"
        )
    return description


def _tools(written: object, where: str) -> tuple[str, ...] | None:
    """The names of tools in a list, or in a text with blanks or commas between them."""
    if written is None:
        return None
    if isinstance(written, str):
        # `Bash(git add:*)` is one entry: what is in brackets narrows it for agents that judge commands by their text.
        written = re.findall(r"[^\s,(]+(?:\([^)]*\))?", written)
    if not isinstance(written, Sequence) or not all(isinstance(name, str) for name in written):
        raise SkillInvalid(f"{where}: 'allowed-tools' must be a list of names of tools")
    names = (name.partition("(")[0].strip() for name in written)
    return tuple(dict.fromkeys(TOOLS_ELSEWHERE.get(name, name) for name in names if name))

"""Data model of skills, and parser for SKILL.md: YAML front matter between two `---` lines, then instructions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from deerflow.domain.errors import SkillInvalid
from deerflow.domain.identity import SharedThing
from deerflow.domain.skills import SkillMetadata
from deerflow.skills.contract import Contract

if TYPE_CHECKING:
    import yaml


SKILLS_FOLDER = "/mnt/skills"
Category = Literal["public", "custom", "shared"]
"""`shared`: custom skills of other people, in one folder for each of them."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A valid skill folder with a SKILL.md."""

    name: str
    description: str
    category: Category
    folder: Path
    relative: PurePosixPath
    """Folder relative to the root of the category."""
    license: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    """Tools allowed while the skill is active; None means no restriction."""
    enabled: bool = True
    is_shared: bool = False
    """True for skills in the project folder, which belong to all users and cannot be changed by them."""
    share: SharedThing | None = None
    """Owner and access of a skill that another person shares."""
    contract: Contract | None = None
    """Parsed skill.toml, or None."""
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Front matter, including unknown fields."""
    fingerprint: str = ""
    """Hash that changes with every file of the folder."""
    metadata: SkillMetadata = field(init=False, repr=False, compare=False)
    """Metadata for agents, computed once: every run reads those of all skills before it asks the model."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", build_metadata(self))

    @property
    def directory(self) -> str:
        """Folder of the skill in the sandbox."""
        return f"{SKILLS_FOLDER}/{self.category}/{self.relative}"

    @property
    def location(self) -> str:
        """Path of SKILL.md in the sandbox."""
        return f"{self.directory}/{SKILL_FILE}"

    @property
    def editable(self) -> bool:
        """True if the owner may change the skill."""
        return self.category == "custom" and not self.is_shared


def build_metadata(skill: Skill) -> SkillMetadata:
    """Return the part of a skill that agents know."""
    contract = skill.contract
    tools = contract.restrict_tools(skill.allowed_tools) if contract else skill.allowed_tools
    terms = contract.terms if contract else None
    return SkillMetadata(skill.name, skill.description, skill.location, skill.editable, tools, terms)


@dataclass(frozen=True, slots=True)
class RejectedSkill:
    """A folder that is not a valid skill, with the reason."""

    category: Category
    path: str
    """Folder relative to the root of the category."""
    reason: str


@dataclass(frozen=True, slots=True)
class SkillSet:
    """Skills of one user at one time."""

    skills: Mapping[str, Skill] = field(default_factory=dict)
    """All skills by name, sorted, including disabled ones."""
    rejected: tuple[RejectedSkill, ...] = ()
    version: str = ""
    """Hash of all skills and their files."""

    @property
    def own(self) -> tuple[Skill, ...]:
        """Return the skills without those of other people."""
        return tuple(skill for skill in self.skills.values() if skill.share is None)

    @property
    def enabled(self) -> tuple[Skill, ...]:
        """The enabled skills."""
        return tuple(skill for skill in self.skills.values() if skill.enabled)


SKILL_FILE = "SKILL.md"
SKILL_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_NAME, MAX_DESCRIPTION = 64, 1024
MAX_SKILL_BYTES = 512 * 1024
MAX_HEADER_CHARACTERS = 16 * 1024
MAX_BRACKETS, MAX_DEPTH = 500, 20
"""Limits against quadratic parsing time: PyYAML takes five seconds for 16,000 nested brackets."""
FRONT_MATTER = re.compile(
    r"\A\s*---[ \t]*\r?\n(?P<header>.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
TOOL_ALIASES: Mapping[str, str] = MappingProxyType(
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
"""Our names of tools that other agents provide under different names."""


@dataclass(frozen=True, slots=True)
class SkillHeader:
    """Parsed SKILL.md."""

    name: str
    description: str
    license: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    """Allowed tools, by our names; None if not specified."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """All fields, including unknown ones. Scalars are strings."""
    body: str = ""


def parse_skill(text: str, *, where: str = SKILL_FILE, folder: str | None = None) -> SkillHeader:
    """Parse a SKILL.md. Unknown fields are kept; error messages name the file `where`.

    A name in another script, such as Chinese, becomes a title; the name is that of the `folder` then.

    Raises:
        SkillInvalid: The file is invalid.
    """
    header, body = split_skill(text, where)
    fields = parse_fields(header, where)
    title, description = _get_text(fields, "name", where), _get_description(fields, where)
    is_title = folder is not None and not title.isascii() and SKILL_NAME.fullmatch(folder) is not None
    return SkillHeader(
        name=check_skill_name(folder if is_title and folder is not None else title, where),
        description=f"{title[:MAX_NAME]}: {description}" if is_title else description,
        license=_get_text(fields, "license", where) or None,
        allowed_tools=_parse_tools(fields.get("allowed-tools"), where),
        fields=MappingProxyType(fields),
        body=body,
    )


def split_skill(text: str, where: str = SKILL_FILE) -> tuple[str, str]:
    """Return the YAML header and the body. Line numbers of the header are preserved for error messages."""
    match = FRONT_MATTER.match(text.removeprefix("\ufeff"))
    if match is None:
        remedy = "begin it with a line '---', then 'name:' and 'description:', then another line '---'"
        raise SkillInvalid(f"{where}: the header is missing or not closed; {remedy}")
    before = text.removeprefix("\ufeff")[: match.start("header")].count("\n")
    return "\n" * before + match["header"], text.removeprefix("\ufeff")[match.end() :]


def check_skill_name(name: str, where: str = "name") -> str:
    """Return `name` if it is valid, else raise `SkillInvalid`."""
    if not name:
        raise SkillInvalid(f"{where}: 'name' is missing; write 'name: the-name-of-the-skill'")
    if len(name) > MAX_NAME or not SKILL_NAME.fullmatch(name):
        rule = f"1 to {MAX_NAME} lower-case letters a-z, digits and single hyphens between them"
        raise SkillInvalid(f"{where}: skill name must be {rule}, not {name[: MAX_NAME + 1]!r}")
    return name


def _get_text(fields: Mapping[str, Any], key: str, where: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise SkillInvalid(f"{where}: {key!r} must be text, not a list or a mapping")
    return value.strip()


def _get_description(fields: Mapping[str, Any], where: str) -> str:
    description = _get_text(fields, "description", where)
    if not description:
        raise SkillInvalid(f"{where}: 'description' is missing; say what the skill does and when to use it")
    if len(description) > MAX_DESCRIPTION:
        raise SkillInvalid(
            f"{where}: the description has {len(description):,} characters; at most {MAX_DESCRIPTION:,} are allowed, "
            "the rest belongs below the header"
        )
    return description


def _parse_tools(value: object, where: str) -> tuple[str, ...] | None:
    """Return the tool names of a list, or of a string separated by blanks or commas."""
    if value is None:
        return None
    if isinstance(value, str):
        # `Bash(git add:*)` is one entry. The argument pattern in brackets is ignored.
        value = re.findall(r"[^\s,(]+(?:\([^)]*\))?", value)
    if not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise SkillInvalid(f"{where}: 'allowed-tools' must be a list of tool names")
    names = (name.partition("(")[0].strip() for name in value)
    return tuple(dict.fromkeys(TOOL_ALIASES.get(name, name) for name in names if name))


def parse_fields(header: str, where: str) -> dict[str, Any]:
    """Parse the fields of a header. Scalars are returned as strings."""
    import yaml

    if len(header) > MAX_HEADER_CHARACTERS:
        raise SkillInvalid(
            f"{where}: the header has {len(header):,} characters; at most {MAX_HEADER_CHARACTERS:,} are allowed"
        )
    if any(sum(map(header.count, signs)) > MAX_BRACKETS for signs in (("[", "{"), ("? ",), ("- -",))):
        raise SkillInvalid(f"{where}: the header has too many brackets; simplify it")
    try:
        root = yaml.compose(header, getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    except yaml.YAMLError:
        raise SkillInvalid(explain_error(header, where)) from None
    except RecursionError:
        raise SkillInvalid(f"{where}: the header is nested too deeply") from None
    if not isinstance(root, yaml.MappingNode):
        raise SkillInvalid(f"{where}: the header must be lines of the form 'key: value'")
    return _NodeConverter(where).mapping(root, 0)


def explain_error(header: str, where: str) -> str:
    """Return why a header is not valid YAML. Uses the pure Python loader, which is slow but has better messages."""
    import yaml

    from deerflow.config.loader.yaml import explain_yaml

    try:
        yaml.compose(header, yaml.BaseLoader)
    except yaml.YAMLError as error:
        return str(explain_yaml(error, header, where))
    return f"{where}: the header is not valid YAML"


class _NodeConverter:
    """Converter from YAML nodes to plain data. Rejects aliases, duplicate keys and deep nesting."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._seen: set[int] = set()

    def mapping(self, node: "yaml.MappingNode", depth: int) -> dict[str, Any]:
        import yaml

        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._refuse(key, "key must be a string")
            if key.value in found:
                raise self._refuse(key, f"duplicate key {key.value!r}")
            found[key.value] = self._value(value, depth + 1)
        return found

    def _value(self, node: "yaml.Node", depth: int) -> Any:
        import yaml

        if id(node) in self._seen:
            raise self._refuse(node, "YAML aliases ('*') are not supported; repeat the value")
        self._seen.add(id(node))
        if depth > MAX_DEPTH:
            raise self._refuse(node, "the header is nested too deeply")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, depth + 1) for item in node.value]
        return node.value

    def _refuse(self, node: "yaml.Node", sentence: str) -> SkillInvalid:
        return SkillInvalid(f"{self._where}:{node.start_mark.line + 1}: {sentence}")

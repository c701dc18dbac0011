"""Subagent types: built-in, from Markdown files, from the configuration and from code."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from deerflow.config.loader.files import FileStamp, parse_yaml, read_text
from deerflow.config.loader.validation import validate
from deerflow.config.sections.agents import (
    LEAD_AGENT_ONLY_TOOLS,
    SUBAGENT_TYPE_NAME,
    SUBAGENT_TYPE_NAME_RULE,
    CustomSubagent,
    SubagentOverride,
    SubagentsConfig,
)
from deerflow.config.sections.base import Section
from deerflow.domain.errors import ConfigError
from deerflow.domain.subagents import TASK

logger = logging.getLogger(__name__)

INHERIT = "inherit"


@dataclass(frozen=True, slots=True)
class SubagentConfig:
    """Settings of one subagent type."""

    name: str
    description: str
    """When the lead agent should delegate to it."""
    system_prompt: str
    tools: tuple[str, ...] | None = None
    """Allowed tools; None inherits the tools of the lead agent."""
    disallowed_tools: tuple[str, ...] = (TASK,)
    model: str = INHERIT
    skills: tuple[str, ...] | None = None
    """Allowed skills; None inherits the skills of the lead agent."""
    max_turns: int = 50
    timeout_seconds: float = 900.0

    def __post_init__(self) -> None:
        if not SUBAGENT_TYPE_NAME.fullmatch(self.name):
            raise ConfigError(f"{SUBAGENT_TYPE_NAME_RULE}, not {self.name!r}")
        if self.max_turns < 1 or self.timeout_seconds <= 0:
            raise ConfigError(
                f"subagent {self.name!r}: max_turns must be at least 1 and timeout_seconds greater than 0"
            )

    def allows(self, tool: str) -> bool:
        """Return True if the subagent may use a tool.

        Regardless of its settings, no subagent may delegate tasks, talk to the user or change the lead agent.
        """
        if tool in LEAD_AGENT_ONLY_TOOLS or tool in self.disallowed_tools:
            return False
        return self.tools is None or tool in self.tools


GENERAL_PURPOSE = SubagentConfig(
    name="general-purpose",
    description="Work of several steps that is independent of the rest: research, analysis, writing, code.",
    system_prompt=(
        "You do one piece of work for another agent, on your own. Nobody can answer questions meanwhile: where "
        "something is open, choose what is most sensible and say so in your answer.\n"
        "Your last message is all that is read of what you did. Begin it with the result, then name the files you made "
        "or changed (absolute paths), the sources you used as [citation:Title](URL), and what is left open."
    ),
    disallowed_tools=LEAD_AGENT_ONLY_TOOLS,
    max_turns=100,
)
BASH = SubagentConfig(
    name="bash",
    description="Commands whose output would clutter the conversation: builds, tests, installations, git.",
    system_prompt=(
        "You run commands for another agent. Do what is asked and nothing else, look at what each command says before "
        "the next, and stop when something fails in a way you cannot mend.\n"
        "Your last message is all that is read of what you did: what was run, how it ended, the few lines that matter, "
        "and where files were written."
    ),
    tools=("bash", "ls", "read_file", "write_file", "str_replace"),
    disallowed_tools=LEAD_AGENT_ONLY_TOOLS,
    max_turns=60,
)


def resolve_types(
    settings: SubagentsConfig,
    programmatic: Sequence[SubagentConfig] = (),
    from_files: Sequence[SubagentConfig] = (),
    *,
    runs_commands: bool,
) -> Mapping[str, SubagentConfig]:
    """Return all subagent types by name.

    Later definitions override earlier ones: built-in, files, configuration, code.
    """
    base = [GENERAL_PURPOSE, BASH] if runs_commands else [GENERAL_PURPOSE]
    builtins = [
        replace(config, timeout_seconds=settings.timeout_seconds, max_turns=settings.max_turns or config.max_turns)
        for config in base
    ]
    configured = [build_configured_type(name, entry, settings) for name, entry in settings.custom_agents.items()]
    known = {config.name: config for config in (*builtins, *from_files, *configured, *programmatic)}
    return {name: apply_override(config, settings.agents.get(name)) for name, config in known.items()}


def build_configured_type(name: str, entry: CustomSubagent, settings: SubagentsConfig) -> SubagentConfig:
    """Return the subagent type defined by an entry of the configuration."""
    return SubagentConfig(
        name=name,
        description=entry.description,
        system_prompt=entry.system_prompt,
        tools=entry.tools,
        disallowed_tools=entry.disallowed_tools,
        model=entry.model,
        skills=entry.skills,
        max_turns=entry.max_turns,
        timeout_seconds=entry.timeout_seconds or settings.timeout_seconds,
    )


def apply_override(config: SubagentConfig, override: SubagentOverride | None) -> SubagentConfig:
    """Return `config` with the overrides of the configuration applied."""
    return replace(config, **override.model_dump(exclude_none=True)) if override else config


def warn_about_unknown_tools(config: SubagentConfig, known: Collection[str]) -> None:
    """Log a warning for each configured tool that does not exist."""
    for name in config.tools or ():
        if name not in known and name not in LEAD_AGENT_ONLY_TOOLS:
            suggestions = ", ".join(get_close_matches(name.lower(), known, cutoff=0.5)) or "none"
            logger.warning("subagent %r: unknown tool %r is ignored; similar tools: %s", config.name, name, suggestions)


def warn_about_unknown_overrides(settings: SubagentsConfig, known: Collection[str]) -> None:
    """Log a warning for each override of a subagent type that does not exist."""
    for name in settings.agents:
        if name not in known and name not in (GENERAL_PURPOSE.name, BASH.name):
            logger.warning("subagents.agents.%s: unknown subagent type; available: %s", name, ", ".join(known))


DELIMITER = "---"
MAX_FILES = 200
MAX_BYTES = 256 * 1024


def split_names(value: object) -> object:
    """Return a comma-separated string as a list of names, and any other value unchanged."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(split_names), Field(strict=False)]


class FrontMatter(Section):
    """Front matter of a subagent file."""

    name: str | None = Field(default=None, description="Name; defaults to the file name.")
    description: str = Field(min_length=1, description="When the lead agent should delegate to it.")
    tools: Names | None = Field(default=None, description="Allowed tools; defaults to those of the lead agent.")
    disallowed_tools: Names = Field(default=LEAD_AGENT_ONLY_TOOLS, description="Denied tools.")
    model: str = Field(default=INHERIT, description='Model name; "inherit" uses the model of the lead agent.')
    max_turns: int = Field(default=50, ge=1, le=500, description="Maximum number of model calls.")
    timeout_seconds: float | None = Field(default=None, gt=0, description="Time limit in seconds.")
    skills: Names | None = Field(default=None, description="Allowed skills; defaults to those of the lead agent.")


@dataclass(frozen=True, slots=True)
class SubagentFile:
    """A subagent type defined by a Markdown file."""

    front_matter: FrontMatter
    name: str
    system_prompt: str

    def to_config(self, timeout_seconds: float) -> SubagentConfig:
        """Return the settings of the type, with the default time limit if the file sets none."""
        front_matter = self.front_matter
        return SubagentConfig(
            name=self.name,
            description=front_matter.description,
            system_prompt=self.system_prompt,
            tools=front_matter.tools,
            disallowed_tools=front_matter.disallowed_tools,
            model=front_matter.model,
            skills=front_matter.skills,
            max_turns=front_matter.max_turns,
            timeout_seconds=front_matter.timeout_seconds or timeout_seconds,
        )


class SubagentFiles:
    """Subagent types in a list of folders. Files are checked on each load and read again after a change."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._cache: dict[Path, tuple[FileStamp, SubagentFile | None]] = {}

    def load(self) -> tuple[SubagentFile, ...]:
        """Return all valid types. An invalid file is logged and skipped; later folders override earlier ones."""
        files = [file for folder in self._folders for file in list_subagent_files(folder)]
        self._cache = {file: self._read(file) for file in files}
        found = {file.name: file for _, file in self._cache.values() if file is not None}
        return tuple(found.values())

    def _read(self, file: Path) -> tuple[FileStamp, SubagentFile | None]:
        stamp, known = FileStamp.read(file), self._cache.get(file)
        if known is not None and known[0] == stamp:
            return known
        try:
            return stamp, read_subagent_file(file)
        except ConfigError as error:
            logger.warning("subagent file skipped: %s", error)
            return stamp, None


def list_subagent_files(folder: Path) -> list[Path]:
    """Return the Markdown files of a folder. Subfolders hold custom agents and are ignored."""
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix == ".md" and path.is_file())
    except OSError:
        return []
    return found[:MAX_FILES]


def read_subagent_file(file: Path) -> SubagentFile:
    """Return the subagent type defined by a file.

    Raises:
        ConfigError: The file is invalid; the message names the file and the problem.
    """
    name = f"{file.parent.name}/{file.name}"
    state = FileStamp.read(file).state
    if state is not None and state[1] > MAX_BYTES:
        raise ConfigError(f"{name}: file is larger than {MAX_BYTES} bytes")
    front_matter, prompt = split_front_matter(read_text(file, name), name)
    settings = validate(FrontMatter, parse_yaml(front_matter, name))
    chosen = settings.name or file.stem
    if not SUBAGENT_TYPE_NAME.fullmatch(chosen):
        raise ConfigError(f"{name}: {SUBAGENT_TYPE_NAME_RULE}, not {chosen!r}")
    if not prompt:
        raise ConfigError(f"{name}: no system prompt below the front matter")
    return SubagentFile(settings, chosen, prompt)


def split_front_matter(text: str, name: str) -> tuple[str, str]:
    """Return the front matter and the body. Line numbers are preserved for error messages."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != DELIMITER:
        raise ConfigError(
            f"{name}: must begin with front matter between two {DELIMITER!r} lines, followed by the system prompt"
        )
    end = next((at for at, line in enumerate(lines[1:], 1) if line.strip() == DELIMITER), None)
    if end is None:
        raise ConfigError(f"{name}: front matter is not closed by a {DELIMITER!r} line")
    return "\n".join(["", *lines[1:end]]), "\n".join(lines[end + 1 :]).strip()

"""Kinds of subagents that people describe in Markdown files: settings at the beginning, then the system prompt."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from deerflow.config.files import Stamp, read_text
from deerflow.config.reading.text import parse_yaml
from deerflow.config.reading.validation import validate
from deerflow.config.section import Section
from deerflow.config.subagents import KIND_NAME, KIND_NAME_RULE, NEVER_FOR_SUBAGENTS
from deerflow.domain.errors import ConfigError
from deerflow.subagents.kinds import INHERIT, SubagentConfig

logger = logging.getLogger(__name__)

FENCE = "---"
MAX_FILES = 200
MAX_BYTES = 256 * 1024


def as_names(given: object) -> object:
    """Names as a list; other programs write them into one line, separated by commas."""
    return [name.strip() for name in given.split(",") if name.strip()] if isinstance(given, str) else given


Names = Annotated[tuple[str, ...], BeforeValidator(as_names), Field(strict=False)]


class FrontMatter(Section):
    """What stands at the beginning of the file of a kind."""

    name: str | None = Field(default=None, description="That of the file by default.")
    description: str = Field(min_length=1, description="When the lead agent should give it work.")
    tools: Names | None = Field(default=None, description="The only tools it has; those of the lead agent by default.")
    disallowed_tools: Names = Field(default=NEVER_FOR_SUBAGENTS, description="Tools it does not have.")
    model: str = Field(default=INHERIT, description='The model that answers; "inherit": that of the lead agent.')
    max_turns: int = Field(default=50, ge=1, le=500, description="How often its model may be asked.")
    timeout_seconds: float | None = Field(default=None, gt=0, description="After how many seconds it is ended.")
    skills: Names | None = Field(
        default=None, description="The only skills it knows; all of the lead agent's by default."
    )


@dataclass(frozen=True, slots=True)
class FiledKind:
    """A kind as its file describes it."""

    front: FrontMatter
    name: str
    system_prompt: str

    def to_kind(self, timeout_seconds: float) -> SubagentConfig:
        """The kind, with the usual limit of time where it has none of its own."""
        front = self.front
        return SubagentConfig(
            name=self.name,
            description=front.description,
            system_prompt=self.system_prompt,
            tools=front.tools,
            disallowed_tools=front.disallowed_tools,
            model=front.model,
            skills=front.skills,
            max_turns=front.max_turns,
            timeout_seconds=front.timeout_seconds or timeout_seconds,
        )


class KindFiles:
    """The kinds in some folders. Looks at files whenever it is asked, and reads those that have changed."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._readings: dict[Path, tuple[Stamp, FiledKind | None]] = {}

    def kinds(self) -> tuple[FiledKind, ...]:
        """Every kind; one whose file is wrong is left out and told of. Of two with one name the later folder wins."""
        files = [file for folder in self._folders for file in files_in(folder)]
        self._readings = {file: self._reading(file) for file in files}
        found = {kind.name: kind for _, kind in self._readings.values() if kind is not None}
        return tuple(found.values())

    def _reading(self, file: Path) -> tuple[Stamp, FiledKind | None]:
        stamp, known = Stamp.of(file), self._readings.get(file)
        if known is not None and known[0] == stamp:
            return known
        try:
            return stamp, read_kind(file)
        except ConfigError as problem:
            logger.warning("a kind of subagent is left out: %s", problem)
            return stamp, None


def files_in(folder: Path) -> list[Path]:
    """The files in a folder that can describe a kind; folders are custom agents."""
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix == ".md" and path.is_file())
    except OSError:
        return []
    return found[:MAX_FILES]


def read_kind(file: Path) -> FiledKind:
    """The kind a file describes.

    Raises:
        ConfigError: It describes none; the text names the file and what is wrong.
    """
    name = f"{file.parent.name}/{file.name}"
    state = Stamp.of(file).state
    if state is not None and state[1] > MAX_BYTES:
        raise ConfigError(f"{name}: is larger than {MAX_BYTES} bytes")
    front, prompt = parts_of(read_text(file, name), name)
    settings = validate(FrontMatter, parse_yaml(front, name))
    chosen = settings.name or file.stem
    if not KIND_NAME.fullmatch(chosen):
        raise ConfigError(f"{name}: {KIND_NAME_RULE}, not {chosen!r}")
    if not prompt:
        raise ConfigError(f"{name}: there is no system prompt below the settings")
    return FiledKind(settings, chosen, prompt)


def parts_of(text: str, name: str) -> tuple[str, str]:
    """The settings between the fences, in their place so that errors name the right line, and what comes below."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != FENCE:
        raise ConfigError(
            f"{name}: begins with a line {FENCE!r}, then settings, then {FENCE!r}, then the system prompt"
        )
    end = next((at for at, line in enumerate(lines[1:], 1) if line.strip() == FENCE), None)
    if end is None:
        raise ConfigError(f"{name}: the settings do not end with a line {FENCE!r}")
    return "\n".join(["", *lines[1:end]]), "\n".join(lines[end + 1 :]).strip()

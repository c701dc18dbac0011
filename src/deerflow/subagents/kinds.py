"""The kinds of subagents: built in, in files, in the configuration and of a program."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from deerflow.config.subagents import (
    KIND_NAME,
    KIND_NAME_RULE,
    NEVER_FOR_SUBAGENTS,
    CustomSubagent,
    SubagentOverride,
    SubagentsConfig,
)
from deerflow.domain.errors import ConfigError

logger = logging.getLogger(__name__)

TASK, TASK_BATCH = "task", "task_batch"
INHERIT = "inherit"


@dataclass(frozen=True, slots=True)
class SubagentConfig:
    """One kind of subagent."""

    name: str
    description: str
    """When the lead agent should give it work."""
    system_prompt: str
    tools: tuple[str, ...] | None = None
    """The only tools it has; None: those of the lead agent."""
    disallowed_tools: tuple[str, ...] = (TASK,)
    model: str = INHERIT
    skills: tuple[str, ...] | None = None
    """The only skills it knows; None: those of the lead agent."""
    max_turns: int = 50
    timeout_seconds: float = 900.0

    def __post_init__(self) -> None:
        if not KIND_NAME.fullmatch(self.name):
            raise ConfigError(f"{KIND_NAME_RULE}, not {self.name!r}")
        if self.max_turns < 1 or self.timeout_seconds <= 0:
            raise ConfigError(f"subagent {self.name!r}: it needs at least one turn, and time")

    def allows(self, tool: str) -> bool:
        """Whether it has a tool.

        Whatever its settings say, none can give work to others, speak to people or change the agent it works for.
        """
        if tool in NEVER_FOR_SUBAGENTS or tool in self.disallowed_tools:
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
    disallowed_tools=NEVER_FOR_SUBAGENTS,
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
    disallowed_tools=NEVER_FOR_SUBAGENTS,
    max_turns=60,
)


def kinds_of(
    settings: SubagentsConfig,
    own: Sequence[SubagentConfig] = (),
    filed: Sequence[SubagentConfig] = (),
    *,
    runs_commands: bool,
) -> Mapping[str, SubagentConfig]:
    """Every kind by its name; of two with one name the later wins: built in, in files, configured, of the program."""
    builtin = [GENERAL_PURPOSE, BASH] if runs_commands else [GENERAL_PURPOSE]
    common = [
        replace(kind, timeout_seconds=settings.timeout_seconds, max_turns=settings.max_turns or kind.max_turns)
        for kind in builtin
    ]
    configured = [to_kind(name, entry, settings) for name, entry in settings.custom_agents.items()]
    known = {kind.name: kind for kind in (*common, *filed, *configured, *own)}
    return {name: changed(kind, settings.agents.get(name)) for name, kind in known.items()}


def to_kind(name: str, entry: CustomSubagent, settings: SubagentsConfig) -> SubagentConfig:
    """A kind as the configuration describes it."""
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


def changed(kind: SubagentConfig, override: SubagentOverride | None) -> SubagentConfig:
    """A kind with what the configuration has different for it."""
    return replace(kind, **override.model_dump(exclude_none=True)) if override else kind


def warn_of_tools(kind: SubagentConfig, known: Collection[str]) -> None:
    """Tell whoever wrote the settings of tools that do not exist here, as after a slip of the pen."""
    for name in kind.tools or ():
        if name not in known and name not in NEVER_FOR_SUBAGENTS:
            near = ", ".join(get_close_matches(name.lower(), known, cutoff=0.5)) or "nothing like it"
            logger.warning("subagent %r: there is no tool %r, so it goes without; there is %s", kind.name, name, near)


def warn_of_overrides(settings: SubagentsConfig, known: Collection[str]) -> None:
    """Tell whoever wrote the settings of changes to kinds that do not exist."""
    for name in settings.agents:
        if name not in known and name not in (GENERAL_PURPOSE.name, BASH.name):
            logger.warning("subagents.agents.%s: there is no such kind; there is %s", name, ", ".join(known))

"""What the lead agent is told about itself and its work.

The text depends on its parts alone, so it is the same in every request of a thread and providers can cache it; date,
memory and uploads come as messages. The words are in `prompt/*.md`, one file per section.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template
from types import MappingProxyType

from deerflow.agents.plan import BOOTSTRAP_SKILL
from deerflow.agents.settings import Computer
from deerflow.domain.skills import SkillCard

SECTIONS: Mapping[str, Template] = MappingProxyType(
    {
        path.stem: Template(path.read_text(encoding="utf-8").strip())
        for path in sorted((Path(__file__).parent / "prompt").glob("*.md"))
    }
)
NETWORKS = MappingProxyType(
    {
        "none": "There is no network",
        "allowlist": "The network reaches a few allowed hosts, through the proxy that is set",
        "full": "The network can be used",
    }
)
TOOLBOX = (
    "`python3` has numpy, pandas, matplotlib, openpyxl, python-docx, python-pptx, duckdb, pypdf, pdfplumber, "
    "reportlab, Pillow, beautifulsoup4 and lxml."
)


@dataclass(frozen=True, slots=True)
class SubagentKind:
    """A kind of subagent, and what it is good for."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Delegation:
    """To whom the agent may give work, and how many pieces at once."""

    kinds: tuple[SubagentKind, ...]
    limit: int = 3


@dataclass(frozen=True, slots=True)
class PromptParts:
    """What differs between agents. Parts that are absent leave no trace in the prompt."""

    name: str = "DeerFlow"
    soul: str = ""
    updates_itself: bool = False
    """Whether it has the tool `update_agent`."""
    is_bootstrap: bool = False
    """Whether it is there to make another agent."""
    new_agent: str | None = None
    """How that agent is to be called, if somebody has decided it."""
    asks: bool = True
    """Whether it has the tool `ask_clarification`."""
    has_files: bool = True
    """Whether it has tools for the files of the thread."""
    computer: Computer | None = None
    """What its commands can do; None: it runs none."""
    skills: tuple[SkillCard, ...] = ()
    names_only: bool = False
    """Whether there are too many skills to describe them all; then the tool `describe_skill` does."""
    skills_folder: str = "/mnt/skills"
    evolves_skills: bool = False
    """Whether it has the tool `skill_manage`."""
    remembers: bool = False
    """Whether it has the tools `memory_add`, `memory_update` and `memory_delete`."""
    deferred_tools: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The tools that have to be asked for, by the servers that offer them."""
    tool_hints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The tools that the configuration puts forward, and for which words."""
    delegation: Delegation | None = None


def apply_prompt_template(parts: PromptParts) -> str:
    """The system prompt; the same parts give the same bytes."""
    sections = bootstrap_sections(parts) if parts.is_bootstrap else work_sections(parts)
    return "\n\n".join(sections) + "\n"


def subagent_prompt(instructions: str, parts: PromptParts) -> str:
    """The prompt of an agent that works for another one; of `parts`, what it has at hand counts."""
    sections = [render("subagent", instructions=instructions.strip()), *skill_section(parts), *deferred_section(parts)]
    if parts.has_files:
        sections.append(render("subagent_files"))
    if parts.computer:
        sections.extend(show_computer(parts.computer))
    return "\n\n".join(sections) + "\n"


def work_sections(parts: PromptParts) -> Iterator[str]:
    """The prompt of an agent that works."""
    yield from identity(parts)
    yield render("thinking_style")
    if parts.asks:
        yield render("clarification")
    yield from capabilities(parts)
    if parts.has_files:
        yield render("working_directory")
    if parts.computer:
        yield from show_computer(parts.computer)
    for name in ("response_style", "citations", "reminders"):
        yield render(name)


def bootstrap_sections(parts: PromptParts) -> Iterator[str]:
    """The prompt of the agent that makes another one."""
    yield render("role", name=parts.name)
    yield render("bootstrap", named=f"is called {parts.new_agent}" if parts.new_agent else "has no name yet")
    yield from skill_list([skill for skill in parts.skills if skill.name == BOOTSTRAP_SKILL], parts.skills_folder)
    yield render("response_style")


def identity(parts: PromptParts) -> Iterator[str]:
    """Who the agent is."""
    yield render("role", name=parts.name)
    if parts.soul.strip():
        yield render("soul", soul=parts.soul.strip())
    if parts.updates_itself:
        yield render("self_update")


def capabilities(parts: PromptParts) -> Iterator[str]:
    """What the agent can draw on besides its tools."""
    yield from skill_section(parts)
    if parts.evolves_skills:
        yield render("skill_evolution")
    if parts.remembers:
        yield render("memory_tools")
    yield from deferred_section(parts)
    if parts.delegation:
        kinds = "\n".join(f"- {kind.name}: {one_paragraph(kind.description)}" for kind in parts.delegation.kinds)
        yield render("subagents", kinds=kinds, limit=str(parts.delegation.limit))


def deferred_section(parts: PromptParts) -> Iterator[str]:
    """The names of the tools that have to be asked for, one line for each server; and those that come first."""
    if parts.deferred_tools:
        lines = (f"{server}: {', '.join(sorted(names))}" for server, names in sorted(parts.deferred_tools.items()))
        yield render("deferred_tools", names="\n".join(lines))
    if parts.tool_hints:
        hints = (f"- {tools}{': ' if words else ''}{', '.join(words)}" for tools, words in parts.tool_hints.items())
        yield render("tool_hints", hints="\n".join(map(one_paragraph, hints)))


def show_computer(computer: Computer) -> Iterator[str]:
    """What commands can do and what not."""
    if not computer.is_isolated:
        yield render("computer_of_the_user")
        return
    packages = f" {TOOLBOX}" if computer.has_toolbox else ""
    yield render("computer", network=NETWORKS[computer.network], packages=packages)


def skill_section(parts: PromptParts) -> Iterator[str]:
    """What the agent can read up on."""
    if not parts.names_only:
        yield from skill_list(parts.skills, parts.skills_folder)
    elif parts.skills:
        yield render(
            "skill_index", folder=parts.skills_folder, names="\n".join(sorted(skill.name for skill in parts.skills))
        )


def skill_list(skills: Sequence[SkillCard], folder: str) -> Iterator[str]:
    """The section about skills, if there are any."""
    if skills:
        cards = "\n".join(show_skill(skill) for skill in sorted(skills, key=lambda skill: skill.name))
        yield SECTIONS["skills"].substitute(folder=escape(folder, quote=False), skills=cards)


def show_skill(skill: SkillCard) -> str:
    """A line of the list of skills."""
    mark = "[custom, editable]" if skill.editable else "[built-in]"
    texts = {"name": skill.name, "description": f"{skill.description} {mark}", "location": skill.location}
    fields = (f"<{tag}>{escape(one_paragraph(text), quote=False)}</{tag}>" for tag, text in texts.items())
    return f"<skill>{''.join(fields)}</skill>"


def render(section: str, **values: str) -> str:
    """A section with `values` in their places, where they cannot end it or begin another."""
    return SECTIONS[section].substitute({key: escape(value, quote=False) for key, value in values.items()})


def one_paragraph(text: str) -> str:
    """`text` without line breaks, which would make more of it than one item of a list."""
    return " ".join(text.split())

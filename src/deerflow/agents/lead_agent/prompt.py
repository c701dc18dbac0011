"""System prompt of the lead agent."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template
from types import MappingProxyType

from deerflow.agents.spec import BOOTSTRAP_SKILL, SandboxCapabilities
from deerflow.domain.skills import SkillMetadata

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
class SubagentSummary:
    """Subagent type and its purpose."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class DelegationInfo:
    """Available subagent types, and the number of concurrent tasks."""

    kinds: tuple[SubagentSummary, ...]
    limit: int = 3


@dataclass(frozen=True, slots=True)
class PromptParts:
    """Parts of the prompt that differ between agents. Absent parts leave nothing in the prompt."""

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
    computer: SandboxCapabilities | None = None
    """What its commands can do; None: it runs none."""
    skills: tuple[SkillMetadata, ...] = ()
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
    delegation: DelegationInfo | None = None


def apply_prompt_template(parts: PromptParts) -> str:
    """Return the system prompt; equal parts give equal bytes."""
    sections = bootstrap_sections(parts) if parts.is_bootstrap else agent_sections(parts)
    return "\n\n".join(sections) + "\n"


def subagent_prompt(instructions: str, parts: PromptParts) -> str:
    """Return the prompt of a subagent; only its resources are taken from `parts`."""
    sections = [render("subagent", instructions=instructions.strip()), *skill_section(parts), *deferred_section(parts)]
    if parts.has_files:
        sections.append(render("subagent_files"))
    if parts.computer:
        sections.extend(computer_section(parts.computer))
    return "\n\n".join(sections) + "\n"


def agent_sections(parts: PromptParts) -> Iterator[str]:
    """Return the sections for a working agent."""
    yield from identity_section(parts)
    yield render("thinking_style")
    if parts.asks:
        yield render("clarification")
    yield from capability_sections(parts)
    if parts.has_files:
        yield render("working_directory")
    if parts.computer:
        yield from computer_section(parts.computer)
    for name in ("response_style", "citations", "reminders"):
        yield render(name)


def bootstrap_sections(parts: PromptParts) -> Iterator[str]:
    """Return the sections for the agent that creates agents."""
    yield render("role", name=parts.name)
    yield render("bootstrap", named=f"is called {parts.new_agent}" if parts.new_agent else "has no name yet")
    yield from skill_list([skill for skill in parts.skills if skill.name == BOOTSTRAP_SKILL], parts.skills_folder)
    yield render("response_style")


def identity_section(parts: PromptParts) -> Iterator[str]:
    """Return the section about the identity of the agent."""
    yield render("role", name=parts.name)
    if parts.soul.strip():
        yield render("soul", soul=parts.soul.strip())
    if parts.updates_itself:
        yield render("self_update")


def capability_sections(parts: PromptParts) -> Iterator[str]:
    """Return the sections about resources besides tools."""
    yield from skill_section(parts)
    if parts.evolves_skills:
        yield render("skill_evolution")
    if parts.remembers:
        yield render("memory_tools")
    yield from deferred_section(parts)
    if parts.delegation:
        kinds = "\n".join(f"- {kind.name}: {join_lines(kind.description)}" for kind in parts.delegation.kinds)
        yield render("subagents", kinds=kinds, limit=str(parts.delegation.limit))


def deferred_section(parts: PromptParts) -> Iterator[str]:
    """Return the names of deferred tools, one line per server, and the preferred ones."""
    if parts.deferred_tools:
        lines = (f"{server}: {', '.join(sorted(names))}" for server, names in sorted(parts.deferred_tools.items()))
        yield render("deferred_tools", names="\n".join(lines))
    if parts.tool_hints:
        hints = (f"- {tools}{': ' if words else ''}{', '.join(words)}" for tools, words in parts.tool_hints.items())
        yield render("tool_hints", hints="\n".join(map(join_lines, hints)))


def computer_section(computer: SandboxCapabilities) -> Iterator[str]:
    """Return the section about the sandbox."""
    if not computer.is_isolated:
        yield render("computer_of_the_user")
        return
    packages = f" {TOOLBOX}" if computer.has_toolbox else ""
    yield render("computer", network=NETWORKS[computer.network], packages=packages)


def skill_section(parts: PromptParts) -> Iterator[str]:
    """Return the section about skills."""
    if not parts.names_only:
        yield from skill_list(parts.skills, parts.skills_folder)
    elif parts.skills:
        yield render(
            "skill_index", folder=parts.skills_folder, names="\n".join(sorted(skill.name for skill in parts.skills))
        )


def skill_list(skills: Sequence[SkillMetadata], folder: str) -> Iterator[str]:
    """Return the list of skills, if there are any."""
    if skills:
        cards = "\n".join(skill_line(skill) for skill in sorted(skills, key=lambda skill: skill.name))
        yield SECTIONS["skills"].substitute(folder=escape(folder, quote=False), skills=cards)


def skill_line(skill: SkillMetadata) -> str:
    """Return one line of the list of skills."""
    texts = {"name": skill.name, "description": f"{skill.description} {skill.mark}", "location": skill.location}
    fields = (f"<{tag}>{escape(join_lines(text), quote=False)}</{tag}>" for tag, text in texts.items())
    return f"<skill>{''.join(fields)}</skill>"


def render(section: str, **values: str) -> str:
    """Fill a section with `values`, escaped so that they cannot end it or begin another."""
    return SECTIONS[section].substitute({key: escape(value, quote=False) for key, value in values.items()})


def join_lines(text: str) -> str:
    """Return `text` without line breaks, which would split a list item."""
    return " ".join(text.split())

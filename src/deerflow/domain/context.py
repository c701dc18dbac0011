"""What one run carries to every middleware and tool."""

from collections.abc import Callable
from dataclasses import dataclass, field

from deerflow.domain.acp import AcpAgents
from deerflow.domain.budget import Budget
from deerflow.domain.files import ThreadFiles
from deerflow.domain.history import ThreadHistory
from deerflow.domain.inbox import Inbox
from deerflow.domain.ledger import ToolLedger
from deerflow.domain.pages import ThreadPages
from deerflow.domain.reading import Reading
from deerflow.domain.recall import RunMemory
from deerflow.domain.sandbox import SandboxLease
from deerflow.domain.skill_terms import SkillMeter
from deerflow.domain.skills import RunSkills, SkillEditor
from deerflow.domain.subagents import Subagents
from deerflow.domain.uploads import ThreadUploads
from deerflow.domain.usage import UsageMeter


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run a piece of work belongs to, and what it may use."""

    thread_id: str
    run_id: str
    user_id: str
    files: ThreadFiles
    history: ThreadHistory
    agent_name: str | None = None
    inbox: Inbox | None = None
    """None where nobody can say anything to a run under way."""
    ledger: ToolLedger | None = None
    """None where runs are not kept."""
    sandbox: SandboxLease | None = None
    """None where an agent has no computer."""
    subagents: Subagents | None = None
    """None where an agent cannot give work to others, as is so for those to whom it is given."""
    acp: AcpAgents | None = None
    """None where there are no agents of others."""
    meter: UsageMeter | None = None
    """None where nobody counts."""
    skills: RunSkills | None = None
    """None where there are no skills."""
    skill_meter: SkillMeter = field(default_factory=SkillMeter)
    """What the active skills have used of their budgets, subagents included."""
    skill_editor: SkillEditor | None = None
    """None where an agent may not change skills."""
    budget: Budget | None = None
    """None where a run may take what it likes."""
    uploads: ThreadUploads | None = None
    """None where nobody keeps track of what people upload."""
    channel: str | None = None
    """Where the message came from, if not from the page or the API."""
    reading: Reading = field(default_factory=Reading)
    """What was read in the run, subagents included."""
    pages: ThreadPages | None = None
    """None where nobody keeps the pages that are read."""
    hide: Callable[[str], str] = str
    """Takes secrets of the server out of a text."""
    profile: str = ""
    """What the user says about themselves."""
    memory: RunMemory | None = None
    """None where nothing is remembered of anybody, as is so for those to whom work is given."""


def run_in(context: object) -> RunContext | None:
    """The run, if a graph's context holds one: used bare it has none, and other servers put their own things there."""
    return context if isinstance(context, RunContext) else None

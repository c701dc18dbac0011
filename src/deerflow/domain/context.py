"""The run context that every middleware and tool receives."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from deerflow.domain.files import ThreadFiles, ThreadUploads
from deerflow.domain.memory import RunMemory
from deerflow.domain.projects import ProjectKnowledge
from deerflow.domain.sandbox import SandboxLease
from deerflow.domain.skills import RunSkills, SkillEditor, SkillMeter
from deerflow.domain.subagents import AcpAgents, Subagents
from deerflow.domain.taint import TaintTracker
from deerflow.domain.threads import ThreadHistory
from deerflow.domain.tools import ThreadPermissions, ToolAudit, ToolLedger
from deerflow.domain.usage import ModelBudget, PrefixTracker, UsageMeter
from deerflow.domain.web_pages import ThreadPages


@runtime_checkable  # LangChain validates the run context with isinstance
class Inbox(Protocol):
    """Messages that join an active run before the next model call."""

    async def take(self) -> Sequence[Any]:
        """Remove and return the messages that arrived since the last call; they are part of the run from now on."""
        ...


ModelSlot = Callable[[], AbstractAsyncContextManager[object]]


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run that a middleware or tool works for, and the services it may use."""

    thread_id: str
    run_id: str
    user_id: str
    files: ThreadFiles
    history: ThreadHistory
    agent_name: str | None = None
    trace_id: str = ""
    """The id in the log lines of the run and its subagents."""
    inbox: Inbox | None = None
    """None when the run cannot receive messages."""
    ledger: ToolLedger | None = None
    """None when runs are not stored."""
    audit: ToolAudit | None = None
    """None when calls are not audited."""
    sandbox: SandboxLease | None = None
    """None when the agent has no sandbox."""
    subagents: Subagents | None = None
    """None when the agent cannot delegate, which is always the case for a subagent."""
    acp: AcpAgents | None = None
    """None when no external agents are configured."""
    meter: UsageMeter | None = None
    """None when usage is not measured."""
    prefixes: PrefixTracker | None = None
    """None when requests are not compared."""
    skills: RunSkills | None = None
    """None when there are no skills."""
    skill_meter: SkillMeter = field(default_factory=SkillMeter)
    """Time and tool calls used by the active skills, including those of subagents."""
    skill_editor: SkillEditor | None = None
    """None when the agent may not change skills."""
    budget: ModelBudget | None = None
    """None when the run has no spending limit."""
    model_slot: ModelSlot | None = None
    """Returns a slot for a model call, which people share fairly when the server is busy; None for one user."""
    uploads: ThreadUploads | None = None
    """None when uploads are not tracked."""
    channel: str | None = None
    """The channel of the message; None for the web page and the API."""
    taint: TaintTracker = field(default_factory=TaintTracker)
    """Untrusted content read in the run, including that read by subagents."""
    pages: ThreadPages | None = None
    """None when fetched pages are not stored."""
    redact: Callable[[str], str] = str
    """Replaces the server's secrets in a text."""
    profile: str = ""
    """The user's own description of themselves."""
    instructions: str = ""
    """Instructions of the project that the thread is in."""
    knowledge: ProjectKnowledge | None = None
    """None when the thread is in no project with indexed files."""
    tool_threads: Executor | None = None
    """Threads for tools that block; None means the default executor of the event loop."""
    thread_owner: str | None = None
    """The owner of the thread, when another person has started the run. Files, sandbox and skills are the owner's."""
    permissions: ThreadPermissions | None = None
    """None when nothing can be allowed for the whole thread, which is always the case for a subagent."""
    memory: RunMemory | None = None
    """None when memory is off, which is always the case for a subagent."""

    @property
    def owner(self) -> str:
        """The owner of the thread."""
        return self.thread_owner or self.user_id


def find_run_context(context: object) -> RunContext | None:
    """Return `context` if it is a run context, else None.

    A graph that is used on its own has no context, and other LangGraph servers put their own objects there.
    """
    return context if isinstance(context, RunContext) else None

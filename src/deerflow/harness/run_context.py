"""Context of a run: everything that its middlewares and tools can use."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.graph.state import CompiledStateGraph

from deerflow.agent_support.tokens import count_text_tokens
from deerflow.agents.custom_agents import CustomAgents
from deerflow.agents.lead_agent.agent import LeadAgent
from deerflow.agents.spec import AgentGraph, AgentPlan, read_spec
from deerflow.budget.account import BudgetTracker
from deerflow.budget.model_calls import ConversationPrefix
from deerflow.config.sections.base import Settings
from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.context import RunContext
from deerflow.domain.identity import LOCAL_USER, check_thread_id, check_user_id, new_id
from deerflow.domain.runs import AgentSpec, CancelAction
from deerflow.domain.sandbox import OutputLimits
from deerflow.domain.subagents import BatchRequest, CancelHandler, InheritedState, ItemOutcome, TaskOutcome, TaskRequest
from deerflow.domain.taint import WEBHOOK, TaintTracker
from deerflow.domain.usage import ModelBudget
from deerflow.guardrails.policy import PolicyFile
from deerflow.harness.core import DEMO_MODEL, Core, agent_settings, merge_models, open_core, thread_snapshots
from deerflow.harness.memory import memory_scope, run_limit
from deerflow.harness.resources import Resources
from deerflow.memory.injection import LedgerRunMemory
from deerflow.models.detection import detect_models
from deerflow.models.factory import ModelCatalog
from deerflow.persistence.queries.search import is_temporary
from deerflow.runtime.journal.journal import RunLog
from deerflow.runtime.runs.job import Job, SteeringInbox
from deerflow.runtime.runs.records import RunMeter, RunReservationLog
from deerflow.runtime.runs.tool_ledger import RecordedCalls, RunLedger, RunTasks
from deerflow.runtime.stream_bridge import StreamBridge
from deerflow.runtime.threads.states import JournalHistory
from deerflow.sandbox.files.files import thread_files
from deerflow.sandbox.files.mounts import user_data_folder
from deerflow.sandbox.lease import RunLease, RunSnapshot, SnapshottedFiles
from deerflow.services.audit import RunAudit
from deerflow.skills.catalog import SelectedSkills
from deerflow.skills.contract import NO_ACCESS
from deerflow.skills.tools import RunSkillEditor
from deerflow.subagents.executor import ConcurrencyLimits, FairScheduler, RunSubagents, SubagentExecutor
from deerflow.uploads.uploads import RunUploads

TRACE_ID, TRACE_ID_CHARS = re.compile(r"[A-Za-z0-9._-]{1,64}"), 8


SERVED_MCP_WAIT_S = 15.0
"""Time for MCP servers that are started with each run to offer their tools."""


@asynccontextmanager
async def open_run_context(
    core: Core, resources: Resources, bridge: StreamBridge, subagents: SubagentExecutor, job: Job, log: RunLog
) -> AsyncIterator[RunContext]:
    """Open the context of a run; leaving it releases the sandbox."""
    run, request = job.run, job.request
    job.records.budget = create_budget(core, job, log)
    budget = await resources.daily_budgets.wrap(run.actor, job.records.budget)
    await core.mcp.prepare(run.actor)
    (lease, files), earlier = open_files(core, job), job.past.calls if job.past else RecordedCalls()
    context = RunContext(
        thread_id=run.thread_id,
        run_id=run.run_id,
        user_id=run.actor,
        thread_owner=run.owner if run.started_by else None,
        files=files,
        history=JournalHistory(core.database, run.thread_id),
        agent_name=request.agent.agent_name,
        trace_id=find_trace_id(request.metadata) or run.run_id[:TRACE_ID_CHARS],
        ledger=RunLedger(log, earlier),
        audit=RunAudit(lambda: resources.audit, run.actor, run.thread_id, run.run_id),
        sandbox=lease,
        redact=core.source.redact,
        meter=RunMeter(log, job.records.tally, core.metrics.count_model_call),
        prefixes=ConversationPrefix(run.run_id, core.sent_requests, (run.thread_id, request.agent.agent_name)),
        profile=await resources.profiles.get_for_run(run.actor),
        skills=await select_skills(core, job),
        skill_editor=create_skill_editor(resources, job, budget),
        acp=core.acp.for_thread(run.owner, run.thread_id),
        uploads=RunUploads(core.uploads, run.owner, run.thread_id),
        channel=find_channel(request.metadata),
        taint=TaintTracker(is_resumed=job.past is not None, sources=find_sources(request.metadata)),
        pages=resources.web_pages.for_thread(run.thread_id, run.owner),
        budget=budget,
        model_slot=job.records.model_slot,
        tool_threads=core.tool_threads,
    )
    context, spec = await join_project(core, resources, job, context)
    team = subagents.for_run(context, spec, RunTasks(log, earlier), core.agents.pinned(job.settings.agents))
    try:
        # Subagents get neither the messages that steer the run nor its memory, nor what the user has allowed.
        allowed = resources.permissions.for_thread(run.thread_id, run.owner)
        permissions = None if run.started_by else allowed  # the owner has allowed calls with their own logins
        inbox, memory = SteeringInbox(core.database, bridge, job, log), create_memory(resources, job)
        yield replace(context, inbox=inbox, subagents=team, memory=memory, permissions=permissions)
    finally:
        if job.records.budget is not None:
            job.records.budget.close()
        if job.signals.action is CancelAction.ROLLBACK:
            await lease.kill_started_processes()
        await lease.release()


def create_skill_editor(resources: Resources, job: Job, budget: ModelBudget | None) -> RunSkillEditor | None:
    """Return the editor of the owner's skills, or None if another person has started the run."""
    run = job.run
    return None if run.started_by else RunSkillEditor(lambda: resources.custom_skills, run.owner, run.thread_id, budget)


async def select_skills(core: Core, job: Job) -> SelectedSkills:
    """Return the skills of a run; without access if they have no contract and the configuration requires one."""
    await core.shares.refresh(job.run.owner)  # the sandbox of the thread has the owner's skills
    found = await core.agents.skills_for(job.request.agent, job.run.owner)
    return SelectedSkills(found, NO_ACCESS.terms if job.settings.requires_skill_contract else None)


async def join_project(core: Core, resources: Resources, job: Job, context: RunContext) -> tuple[RunContext, AgentSpec]:
    """Return the context with what the project of the thread adds, and the spec of the agent for it."""
    if job.records.is_temporary is None:
        query = partial(is_temporary, thread_id=job.run.thread_id, owner=job.run.owner)
        job.records.is_temporary = await core.database.look_up(query)
    project = await resources.projects.find_for_run(job.run.thread_id, job.run.owner)
    if project is None:
        return context, job.request.agent
    job.records.project_id = project.project_id
    knowledge = resources.projects.knowledge_of(project, job.run.owner)
    spec = replace(job.request.agent, searches_knowledge=knowledge is not None)
    return replace(context, instructions=project.instructions, knowledge=knowledge), spec


def open_files(core: Core, job: Job) -> tuple[RunLease, SnapshottedFiles]:
    """Return the lease of a run on its sandbox, and the files of its thread."""
    run, limits = job.run, output_limits(core.source.current.config.sandbox)
    snapshot = RunSnapshot(thread_snapshots(core.home, run), run.run_id)
    files = thread_files(user_data_folder(core.home, run.owner, run.thread_id))
    lease = RunLease(core.sandboxes, run.thread_id, run.owner, limits, core.file_locks, snapshot)
    return lease, SnapshottedFiles(files, snapshot)


def output_limits(settings: SandboxConfig) -> OutputLimits:
    """Return the configured limits of results."""
    return OutputLimits(
        settings.bash_output_max_chars, settings.read_file_output_max_chars, settings.ls_output_max_chars
    )


def create_memory(resources: Resources, job: Job) -> LedgerRunMemory | None:
    """Return the memory of a run, or None if memory is off, the thread is temporary or belongs to another person."""
    spec, run = job.request.agent, job.run
    if not job.settings.uses_memory or spec.is_bootstrap or run.started_by:
        return None
    if job.records.is_temporary:
        return None
    scope = memory_scope(spec, run.owner, job.records.project_id)
    return LedgerRunMemory(resources.memory, scope, run.thread_id, count_text_tokens)


def create_budget(core: Core, job: Job, log: RunLog) -> BudgetTracker | None:
    """Return the budget of a run, or None if it has no limit."""
    limit = run_limit(job)
    if limit is None:
        return None
    return BudgetTracker(
        limit,
        job.records.account,
        partial(core.agents.prices, job.run.actor),
        RunReservationLog(log),
        reserves_final_answer=True,
    )


def find_trace_id(metadata: Mapping[str, object]) -> str | None:
    """Return the trace id of a request, if its metadata has one that can be logged."""
    trace_id = metadata.get("trace_id")
    return trace_id if isinstance(trace_id, str) and TRACE_ID.fullmatch(trace_id) else None


def find_channel(metadata: Mapping[str, object]) -> str | None:
    """Return the channel that a request came from, as its metadata says."""
    channel = metadata.get("channel")
    return channel if isinstance(channel, str) else None


def find_sources(metadata: Mapping[str, object]) -> set[str]:
    """Return the sources of untrusted content in the first message of a run."""
    return {WEBHOOK} if find_channel(metadata) == WEBHOOK else set()


def build_served_lead_agent(config: RunnableConfig) -> AgentGraph:
    """Build the lead agent for a server with its own persistence, such as `langgraph dev`. Blocks."""
    # No process of ours stays to extract facts, so the agent adds them with its tools.
    source, found = open_source(overrides={"memory": {"mode": "tool"}}), read_spec(config)
    owner = check_user_id(found.owner or LOCAL_USER.user_id)
    spec = replace(found, owner=owner)
    loaded, agents = source.current, CustomAgents(source.current.home)
    policy = PolicyFile(loaded.folder).current(loaded.config.guardrails)
    models = merge_models(loaded.config.models, (), detect_models(loaded.environment) or [DEMO_MODEL])
    settings = agent_settings(loaded.config, models, policy=policy)
    custom = agents.load(owner, spec.agent_name) if spec.agent_name else None
    graph = LeadAgent(spec, settings, ModelCatalog(settings.models), agents, custom).build(None)
    # Any context is accepted: its keys select the agent, and the context of the run is created here.
    return ServedLeadAgent(source=source, spec=spec, **{**vars(graph), "context_schema": None})


class ServedLeadAgent(CompiledStateGraph[Any, Any, Any, Any]):
    """Lead agent that another server runs and records; it has everything that a run of ours has.

    Each run opens what it needs and closes it, because such a server does not report when it stops.
    """

    def __init__(self, *, source: ConfigSource, spec: AgentSpec, **parts: Any) -> None:
        super().__init__(**parts)
        self.source, self.spec = source, spec

    async def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncIterator[Any]:
        """Run the agent and yield the parts of its stream."""
        config = config or {}
        with allow_blocking():
            async with (
                open_core(self.source, AgentPlan()) as core,
                open_served_context(core, self.spec, config) as context,
            ):
                graph = await asyncio.to_thread(core.agents.build_part, self.spec, context.user_id)
                graph = graph.copy({"checkpointer": self.checkpointer, "store": self.store, "cache": self.cache})
                async for part in graph.astream(input, config, **{**options, "context": context}):
                    yield part


@contextmanager
def allow_blocking() -> Iterator[None]:
    """Switch off BlockBuster in this thread, with which `langgraph dev` refuses any read or write on its event loop.

    Code of ours blocks the loop for moments at most.
    """
    detector = sys.modules.get("blockbuster.blockbuster")
    skip = getattr(detector, "_skip", None)
    if skip is None:
        yield
        return
    skip.runs = getattr(skip, "runs", 0) + 1
    skip.value = True
    try:
        yield
    finally:
        skip.runs -= 1
        skip.value = skip.runs > 0


@asynccontextmanager
async def open_served_context(core: Core, spec: AgentSpec, config: RunnableConfig) -> AsyncIterator[RunContext]:
    """Open the context of a run that another server executes and records."""
    resources, owner = Resources(core), spec.owner or LOCAL_USER.user_id
    thread_id = check_thread_id(str(config.get("configurable", {}).get("thread_id") or new_id()))
    await core.mcp.prepare(owner, SERVED_MCP_WAIT_S)
    settings = core.source.current.config
    lease = RunLease(core.sandboxes, thread_id, owner, output_limits(settings.sandbox), core.file_locks)
    terms = NO_ACCESS.terms if settings.skills.require_contract else None
    context = RunContext(
        thread_id=thread_id,
        run_id=str(config.get("run_id") or new_id()),
        user_id=owner,
        files=thread_files(user_data_folder(core.home, owner, thread_id)),
        history=JournalHistory(core.database, thread_id),
        agent_name=spec.agent_name,
        sandbox=lease,
        redact=core.source.redact,
        profile=await resources.profiles.get_for_run(owner),
        skills=SelectedSkills(await core.agents.skills_for(spec, owner), terms),
        skill_editor=RunSkillEditor(lambda: resources.custom_skills, owner, thread_id, None),
        acp=core.acp.for_thread(owner, thread_id),
        tool_threads=core.tool_threads,
    )
    limits = ConcurrencyLimits(settings.subagents.max_concurrent, settings.subagents.max_concurrent_per_user)
    executor = SubagentExecutor(FairScheduler(Settings(lambda: limits)))
    team = ServedSubagents(executor.for_run(context, spec, StreamedTasks(), core.agents))
    memory = LedgerRunMemory(resources.memory, memory_scope(spec, owner), thread_id, count_text_tokens)
    try:
        yield replace(context, subagents=team, memory=memory if settings.memory.enabled else None)
    finally:
        await lease.release()


@dataclass(frozen=True, slots=True)
class ServedSubagents:
    """Subagents of a run that another server records; their events go to the stream of the tool call."""

    team: RunSubagents

    async def execute(self, order: TaskRequest, inherited: InheritedState) -> TaskOutcome:
        """Execute a task when a slot is free."""
        return await self._for_call().execute(order, inherited)

    async def execute_batch(
        self, order: BatchRequest, inherited: InheritedState, keep: CancelHandler
    ) -> Sequence[ItemOutcome]:
        """Execute a batch."""
        return await self._for_call().execute_batch(order, inherited, keep)

    def _for_call(self) -> RunSubagents:
        return replace(self.team, journal=StreamedTasks(get_stream_writer()))


@dataclass(frozen=True, slots=True)
class StreamedTasks:
    """Tasks of a run that another server records: their events are streamed, and nothing is resumed."""

    write: Callable[[Any], None] = lambda event: None

    def emit(self, event: Mapping[str, object]) -> None:
        self.write(event)

    def find_started_tools(self, task_id: str) -> Sequence[str]:
        return ()

    def find_outcome(self, task_id: str) -> TaskOutcome | None:
        return None

    def find_items(self, batch: str) -> Mapping[int, ItemOutcome]:
        return {}

    def record_item(self, batch: str, outcome: ItemOutcome) -> None:
        """Do nothing: an interrupted batch starts again."""

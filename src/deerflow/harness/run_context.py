"""Context of a run: everything that its middlewares and tools can use."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from deerflow.agent_support.tokens import count_text_tokens
from deerflow.budget.account import BudgetTracker
from deerflow.domain.context import RunContext
from deerflow.domain.runs import CancelAction
from deerflow.domain.sandbox import OutputLimits
from deerflow.domain.taint import TaintTracker
from deerflow.harness.core import Core, thread_snapshots
from deerflow.harness.resources import Resources, memory_scope, run_limit
from deerflow.memory.injection import LedgerRunMemory
from deerflow.runtime.journal.journal import RunLog
from deerflow.runtime.runs.job import Job, SteeringInbox
from deerflow.runtime.runs.records import RunMeter, RunReservationLog
from deerflow.runtime.runs.tool_ledger import RecordedCalls, RunLedger, RunTasks
from deerflow.runtime.stream_bridge import StreamBridge
from deerflow.runtime.threads.states import JournalHistory
from deerflow.sandbox.files.files import thread_files
from deerflow.sandbox.files.mounts import user_data_folder
from deerflow.sandbox.lease import RunLease, RunSnapshot, SnapshottedFiles
from deerflow.skills.catalog import SelectedSkills
from deerflow.skills.contract import NO_ACCESS
from deerflow.skills.tools import RunSkillEditor
from deerflow.subagents.executor import SubagentExecutor
from deerflow.uploads.uploads import RunUploads

TRACE_ID, TRACE_ID_CHARS = re.compile(r"[A-Za-z0-9._-]{1,64}"), 8


@asynccontextmanager
async def open_run_context(
    core: Core, resources: Resources, bridge: StreamBridge, subagents: SubagentExecutor, job: Job, log: RunLog
) -> AsyncIterator[RunContext]:
    """Open the context of a run; leaving it releases the sandbox."""
    run, request = job.run, job.request
    budget = job.records.budget = create_budget(core, job, log)
    await core.mcp.prepare(run.owner)
    lease, files = open_files(core, job)
    earlier = job.past.calls if job.past else RecordedCalls()
    context = RunContext(
        thread_id=run.thread_id,
        run_id=run.run_id,
        user_id=run.owner,
        files=files,
        history=JournalHistory(core.database, run.thread_id),
        agent_name=request.agent.agent_name,
        trace_id=find_trace_id(request.metadata) or run.run_id[:TRACE_ID_CHARS],
        ledger=RunLedger(log, earlier),
        sandbox=lease,
        redact=core.source.redact,
        meter=RunMeter(log, job.records.tally, core.metrics.count_model_call),
        profile=await resources.profiles.get_for_run(run.owner),
        skills=SelectedSkills(
            await core.agents.skills_for(request.agent, run.owner),
            NO_ACCESS.terms if job.settings.requires_skill_contract else None,
        ),
        skill_editor=RunSkillEditor(lambda: resources.custom_skills, run.owner, run.thread_id, budget),
        acp=core.acp.for_thread(run.owner, run.thread_id),
        uploads=RunUploads(core.uploads, run.owner, run.thread_id),
        channel=find_channel(request.metadata),
        taint=TaintTracker(is_resumed=job.past is not None),
        pages=resources.web_pages.for_thread(run.thread_id, run.owner),
        budget=budget,
        tool_threads=core.tool_threads,
    )
    factory = core.agents.pinned(job.settings.agents)
    team = subagents.for_run(context, request.agent, RunTasks(log, earlier), factory)
    try:
        # Subagents get neither the messages that steer the run nor its memory.
        inbox, memory = SteeringInbox(core.database, bridge, job, log), create_memory(resources, job)
        yield replace(context, inbox=inbox, subagents=team, memory=memory)
    finally:
        if budget is not None:
            budget.close()
        if job.signals.action is CancelAction.ROLLBACK:
            await lease.kill_started_processes()
        await lease.release()


def open_files(core: Core, job: Job) -> tuple[RunLease, SnapshottedFiles]:
    """Return the lease of a run on its sandbox, and the files of its thread."""
    run, settings = job.run, core.source.current.config.sandbox
    limits = OutputLimits(
        settings.bash_output_max_chars, settings.read_file_output_max_chars, settings.ls_output_max_chars
    )
    snapshot = RunSnapshot(thread_snapshots(core.home, run), run.run_id)
    files = thread_files(user_data_folder(core.home, run.owner, run.thread_id))
    lease = RunLease(core.sandboxes, run.thread_id, run.owner, limits, core.file_locks, snapshot)
    return lease, SnapshottedFiles(files, snapshot)


def create_memory(resources: Resources, job: Job) -> LedgerRunMemory | None:
    """Return the memory of a run, or None if memory is off."""
    spec, run = job.request.agent, job.run
    if not job.settings.uses_memory or spec.is_bootstrap:
        return None
    return LedgerRunMemory(resources.memory, memory_scope(spec, run.owner), run.thread_id, count_text_tokens)


def create_budget(core: Core, job: Job, log: RunLog) -> BudgetTracker | None:
    """Return the budget of a run, or None if it has no limit."""
    limit = run_limit(job)
    if limit is None:
        return None
    return BudgetTracker(
        limit, job.records.account, core.agents.prices, RunReservationLog(log), reserves_final_answer=True
    )


def find_trace_id(metadata: Mapping[str, object]) -> str | None:
    """Return the trace id of a request, if its metadata has one that can be logged."""
    trace_id = metadata.get("trace_id")
    return trace_id if isinstance(trace_id, str) and TRACE_ID.fullmatch(trace_id) else None


def find_channel(metadata: Mapping[str, object]) -> str | None:
    """Return the channel that a request came from, as its metadata says."""
    channel = metadata.get("channel")
    return channel if isinstance(channel, str) else None

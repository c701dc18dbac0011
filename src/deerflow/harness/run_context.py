"""What each run carries along."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from deerflow.agents.middlewares.tokens import text_tokens
from deerflow.config.root import Config
from deerflow.domain.context import RunContext
from deerflow.domain.reading import Reading
from deerflow.domain.runs import CancelAction
from deerflow.domain.sandbox import OutputLimits
from deerflow.domain.skill_terms import SkillTerms
from deerflow.harness.files import snapshots_of
from deerflow.harness.ground import Ground
from deerflow.harness.learning import limit_of, scope_of
from deerflow.memory.recall import MemoryOfRun
from deerflow.runtime.history import JournalHistory
from deerflow.runtime.journal import RunLog
from deerflow.runtime.runs.budget import BookedBudget, RunBook
from deerflow.runtime.runs.inbox import RunInbox
from deerflow.runtime.runs.job import Job
from deerflow.runtime.runs.ledger import Earlier, RunLedger, RunTasks
from deerflow.runtime.runs.records import RunMeter
from deerflow.runtime.stream_bridge import StreamBridge
from deerflow.sandbox.files import thread_files
from deerflow.sandbox.lease import RememberedFiles, RunLease, RunSnapshot
from deerflow.sandbox.places import user_data_folder
from deerflow.skills.chosen import ChosenSkills
from deerflow.skills.contract import NOTHING
from deerflow.skills.editor import RunSkillEditor
from deerflow.subagents.executor import SubagentExecutor
from deerflow.uploads.uploads import UploadsOfThread


@asynccontextmanager
async def prepare(
    ground: Ground, bridge: StreamBridge, subagents: SubagentExecutor, job: Job, log: RunLog
) -> AsyncIterator[RunContext]:
    """What `run` carries to every middleware and tool; its sandbox is given back in the end."""
    run, loaded, database = job.run, ground.loaded, ground.database
    budget = job.records.budget = budget_for(ground, job, log)
    await ground.mcp.settle(run.owner)
    settings = loaded.config.sandbox
    limits = OutputLimits(
        settings.bash_output_max_chars, settings.read_file_output_max_chars, settings.ls_output_max_chars
    )
    snapshot = RunSnapshot(snapshots_of(loaded.home, run), run.run_id)
    lease = RunLease(ground.sandboxes, run.thread_id, run.owner, limits, ground.locks, snapshot)
    files = thread_files(user_data_folder(loaded.home, run.owner, run.thread_id))
    shared = RunContext(
        thread_id=run.thread_id,
        run_id=run.run_id,
        user_id=run.owner,
        files=RememberedFiles(files, snapshot),
        history=JournalHistory(database, run.thread_id),
        agent_name=job.request.agent.agent_name,
        ledger=RunLedger(log, job.past.calls if job.past else Earlier()),
        sandbox=lease,
        hide=ground.source.hide,
        meter=RunMeter(log, job.records.tally, ground.metrics.count_model_call),
        profile=await ground.resources.profiles.for_run(run.owner),
        skills=ChosenSkills(await ground.agents.skills_for(job.request.agent, run.owner), uncontracted(loaded.config)),
        skill_editor=RunSkillEditor(lambda: ground.resources.workshop, run.owner, run.thread_id, budget),
        acp=ground.acp.for_thread(run.owner, run.thread_id),
        uploads=UploadsOfThread(ground.uploads, run.owner, run.thread_id),
        channel=channel_of(job.request.metadata),
        reading=Reading(is_resumed=job.past is not None),
        pages=ground.resources.web_pages.of_thread(run.thread_id, run.owner),
        budget=budget,
    )
    crew = subagents.for_run(shared, job.request.agent, RunTasks(log, job.past.calls if job.past else Earlier()))
    try:
        inbox, memory = RunInbox(database, bridge, job, log), memory_for(ground, job)
        yield replace(shared, inbox=inbox, subagents=crew, memory=memory)
    finally:
        if budget is not None:
            budget.close()
        if job.signals.action is CancelAction.ROLLBACK:
            await lease.end_started()
        await lease.release()


def memory_for(ground: Ground, job: Job) -> MemoryOfRun | None:
    """What a run remembers; None where memory is off."""
    source, spec, run = ground.source, job.request.agent, job.run
    if not source.refresh().config.memory.enabled or spec.is_bootstrap:
        return None
    return MemoryOfRun(ground.resources.memory, scope_of(spec, run.owner), run.thread_id, text_tokens)


def channel_of(metadata: Mapping[str, object]) -> str | None:
    """Where a request came from, as the way in that made it says."""
    channel = metadata.get("channel")
    return channel if isinstance(channel, str) else None


def uncontracted(config: Config) -> SkillTerms | None:
    """What skills without a contract are held to."""
    return NOTHING.terms if config.skills.require_contract else None


def budget_for(ground: Ground, job: Job, log: RunLog) -> BookedBudget | None:
    """What the models of a run may take; None: as much as they like."""
    limit = limit_of(ground.source, job)
    if limit is None:
        return None
    return BookedBudget(limit, job.records.purse, ground.agents.prices, RunBook(log), puts_by=True)

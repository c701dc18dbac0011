"""The composition root: builds every part from the configuration, bottom up, and closes them top down."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.agents.custom_agents import CustomAgents
from deerflow.agents.factory import AgentGraph
from deerflow.agents.features import RuntimeFeatures
from deerflow.agents.lead_agent.agent import AgentPlan, LeadAgent, read_spec
from deerflow.agents.pool import AgentPool
from deerflow.agents.settings import AgentSettings, ChainSettings, Computer
from deerflow.config.imports import load_class
from deerflow.config.load import Loaded
from deerflow.config.models import ModelConfig
from deerflow.config.root import Config
from deerflow.config.sandbox import LOCAL_PROVIDER, SandboxConfig
from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.context import RunContext
from deerflow.domain.errors import ConfigError
from deerflow.domain.events import StreamEvent
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import CancelAction, RunRecord
from deerflow.domain.sandbox import OutputLimits
from deerflow.domain.threads import ThreadRecord
from deerflow.models.detection import detect_models, find_local_servers
from deerflow.models.factory import ModelCatalog
from deerflow.persistence.checkpoints import open_checkpointer
from deerflow.persistence.database import Database, open_database
from deerflow.persistence.events import read_events
from deerflow.persistence.liveness import Liveness, Locks, leased, sign_of_life
from deerflow.persistence.runs import is_unfinished
from deerflow.runtime.history import JournalHistory
from deerflow.runtime.journal import Journal, RunLog
from deerflow.runtime.runs.inbox import RunInbox
from deerflow.runtime.runs.job import Job
from deerflow.runtime.runs.ledger import Earlier, RunLedger
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.runs.timeline import Timeline
from deerflow.runtime.runs.watch import Watch, keeping_watch
from deerflow.runtime.runs.worker import Limits, RunWorker
from deerflow.runtime.serialization import to_json
from deerflow.runtime.store import Store
from deerflow.runtime.stream_bridge import StreamBridge, open_bridge
from deerflow.runtime.stream_bridge.bridge import EVERYBODY
from deerflow.runtime.threads import FilesOfThreads, Threads, open_questions
from deerflow.runtime.titles import Namer
from deerflow.sandbox.files import LocalThreadFiles, thread_files
from deerflow.sandbox.lease import RememberedFiles, RunLease, RunSnapshot, bring_back
from deerflow.sandbox.places import thread_folder, user_data_folder
from deerflow.sandbox.removal import remove_folder
from deerflow.sandbox.sandbox_provider import SandboxPlaces, SandboxProvider, SandboxReport
from deerflow.sandbox.snapshots import Snapshots
from deerflow.subagents.executor import SubagentExecutor
from deerflow.subagents.kinds import SubagentConfig
from deerflow.subagents.turns import FairTurns, Places

DEMO_MODEL = ModelConfig(
    name="demo",
    use="deerflow.models.demo:DemoChatModel",
    model="demo",
    display_name="Demo (scripted)",
    description="Plays scripts; needs no key and no network.",
    supports_thinking=True,
)


@dataclass(frozen=True, slots=True)
class Harness:
    """Everything a way in needs."""

    source: ConfigSource
    agents: AgentPool
    custom_agents: CustomAgents
    threads: Threads
    runs: RunManager
    timeline: Timeline
    store: Store
    sandboxes: SandboxProvider
    sandbox_report: SandboxReport

    def files_of(self, thread: ThreadRecord) -> LocalThreadFiles:
        """The files of a thread."""
        return thread_files(user_data_folder(self.source.current.home, thread.owner, thread.thread_id))


@asynccontextmanager
async def open_harness(
    source: ConfigSource,
    model: BaseChatModel | None = None,
    *,
    features: RuntimeFeatures | None = None,
    extra_middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
    subagents: Sequence[SubagentConfig] = (),
) -> AsyncIterator[Harness]:
    """Open everything `source` asks for. `model`, when given, answers in place of every configured one."""
    loaded = source.current
    # Conversations and files are nobody else's business, whoever else has an account here.
    loaded.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = loaded.config.database.place(loaded.home)
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(open_database(place))
        checkpointer = await stack.enter_async_context(open_checkpointer(place))
        fallback = await find_fallback_models(loaded)
        sandboxes = create_sandboxes(loaded)
        stack.push_async_callback(sandboxes.aclose)
        report = await sandboxes.open()
        computer = describe_computer(loaded.config.sandbox, report)
        custom_agents = CustomAgents(loaded.home)
        agents = AgentPool(
            lambda: agent_settings(source.refresh().config, fallback, computer),
            checkpointer,
            custom_agents,
            AgentPlan(model, features, extra_middleware, subagents),
        )
        stack.push_async_callback(agents.aclose)
        process, liveness, bridge = await stack.enter_async_context(join_others(database, loaded))
        journal = Journal(database, bridge)
        stack.push_async_callback(journal.aclose)
        executor = SubagentExecutor(agents, FairTurns(lambda: subagent_places(source.refresh().config)))
        worker = RunWorker(
            agents,
            partial(open_context, database, bridge, loaded, sandboxes, executor),
            lambda: run_limits(source.refresh().config),
            partial(undo_run, checkpointer, loaded.home),
        )
        namer = Namer(database, agents.state_graph, lambda: source.refresh().config.title, agents.catalog_model)
        runs = RunManager(database, journal, bridge, worker, namer, partial(open_questions, checkpointer), process)
        stack.push_async_callback(runs.aclose)
        await stack.enter_async_context(keeping_watch(Watch(database, bridge, runs, liveness, process)))
        files = FilesOfThreads(partial(forget_thread, sandboxes, loaded.home), partial(copy_files, loaded.home))
        threads = Threads(database, checkpointer, agents, files)
        timeline = Timeline(database)
        yield Harness(source, agents, custom_agents, threads, runs, timeline, Store(database), sandboxes, report)


@asynccontextmanager
async def join_others(database: Database, loaded: Loaded) -> AsyncIterator[tuple[str, Liveness, StreamBridge]]:
    """The name of this process among those on one database, how it knows of them, and how they wake each other."""
    settings, place = loaded.config.database, loaded.config.database.place(loaded.home)
    folder = (place.parent if isinstance(place, Path) else loaded.home / "data") / "processes"
    with sign_of_life(folder) as process:
        log = partial(read_log, database), partial(may_grow, database)
        async with open_bridge(loaded.config.stream_bridge, process, *log) as bridge:
            if isinstance(place, Path):
                yield process, Locks(folder, settings.lease_seconds), bridge
                return
            async with leased(database, folder, process, settings.lease_seconds) as liveness:
                yield process, liveness, bridge
            bridge.tell(EVERYBODY)  # what we leave unfinished can be gone on with


def build_bare_lead_agent(config: RunnableConfig) -> AgentGraph:
    """The lead agent for a server of somebody else's, which remembers and carries out runs in its own way."""
    loaded = open_source().current
    settings = agent_settings(loaded.config, detect_models(loaded.environment) or [DEMO_MODEL])
    shelf, spec = CustomAgents(loaded.home), read_spec(config)
    custom = shelf.load(spec.owner or LOCAL_USER.user_id, spec.agent_name) if spec.agent_name else None
    return LeadAgent(spec, settings, ModelCatalog(settings.models), shelf, custom).build(
        checkpointer=None, is_bare=True
    )


async def find_fallback_models(loaded: Loaded) -> Sequence[ModelConfig]:
    """What answers when no model is configured: keys in the environment, then local servers, then the demo model."""
    detected = detect_models(loaded.environment)
    if detected or loaded.config.models:
        return detected or [DEMO_MODEL]
    return await find_local_servers(loaded.environment) or [DEMO_MODEL]


def create_sandboxes(loaded: Loaded) -> SandboxProvider:
    """Whoever the configuration names as the provider of sandboxes.

    Raises:
        ConfigError: The name leads to no provider.
    """
    config = loaded.config.sandbox
    try:
        make = load_class(config.use, SandboxProvider)  # type: ignore[type-abstract]
    except ConfigError as problem:
        raise ConfigError(f"sandbox.use: {problem}") from problem
    return make(config, SandboxPlaces(loaded.home, loaded.cache, environment=loaded.environment))


def describe_computer(config: SandboxConfig, report: SandboxReport) -> Computer:
    """What agents can do with their sandboxes."""
    return Computer(
        report.runs_commands,
        is_isolated=report.tier != "host",
        network=config.network,
        has_toolbox=config.use == LOCAL_PROVIDER and config.toolbox.enabled,
    )


def agent_settings(config: Config, fallback: Sequence[ModelConfig], computer: Computer | None = None) -> AgentSettings:
    """What agents are built from."""
    return AgentSettings(
        models=tuple(config.models or fallback),
        tools=config.tools,
        chain=ChainSettings(
            llm_call=config.llm_call,
            loop_detection=config.loop_detection,
            summarization=config.summarization,
            guardrails=config.guardrails,
            tool_output=config.tool_output,
            read_before_write=config.read_before_write,
            title=config.title,
        ),
        computer=computer,
        subagents=config.subagents,
    )


def subagent_places(config: Config) -> Places:
    """How many subagents may work at once."""
    return Places(config.subagents.max_concurrent, config.subagents.max_concurrent_per_user)


@asynccontextmanager
async def open_context(
    database: Database,
    bridge: StreamBridge,
    loaded: Loaded,
    sandboxes: SandboxProvider,
    subagents: SubagentExecutor,
    job: Job,
    log: RunLog,
) -> AsyncIterator[RunContext]:
    """What `run` carries to every middleware and tool; its sandbox is given back in the end."""
    run, settings = job.run, loaded.config.sandbox
    limits = OutputLimits(
        settings.bash_output_max_chars, settings.read_file_output_max_chars, settings.ls_output_max_chars
    )
    snapshot = RunSnapshot(snapshots_of(loaded.home, run), run.run_id)
    lease = RunLease(sandboxes, run.thread_id, run.owner, limits, snapshot)
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
    )
    crew = subagents.for_run(shared, job.request.agent, lambda event: log.append("custom", to_json(event)))
    try:
        yield replace(shared, inbox=RunInbox(database, bridge, job, log), subagents=crew)
    finally:
        if job.signals.action is CancelAction.ROLLBACK:
            await lease.end_started()
        await lease.release()


async def undo_run(checkpointer: BaseCheckpointSaver[str], home: Path, run: RunRecord) -> None:
    """Have a thread's state and files be what they were before a run."""
    await bring_back(snapshots_of(home, run), run.run_id)
    await checkpointer.adelete_for_runs([run.run_id])


def snapshots_of(home: Path, run: RunRecord) -> Snapshots:
    """What remembers the files of a run's thread."""
    folder = thread_folder(home, run.owner, run.thread_id) / "snapshots"
    return Snapshots(folder, user_data_folder(home, run.owner, run.thread_id))


async def forget_thread(sandboxes: SandboxProvider, home: Path, thread_id: str, user_id: str) -> None:
    """End what runs for a thread, and remove its files."""
    await sandboxes.discard(thread_id, user_id)
    await asyncio.to_thread(remove_folder, thread_folder(home, user_id, thread_id))


async def copy_files(home: Path, thread_id: str, copy_id: str, user_id: str) -> None:
    """Give a thread the files of another."""
    source, copy = (thread_files(user_data_folder(home, user_id, each)) for each in (thread_id, copy_id))
    for area in (WORKSPACE, UPLOADS, OUTPUTS):
        for file in await source.list(area):
            await copy.write(file.path, await source.read(file.path))


async def read_log(database: Database, run_id: str, after: int, limit: int) -> Sequence[StreamEvent]:
    """A piece of a run's log."""
    return await database.read(partial(read_events, run_id=run_id, after=after, limit=limit))


async def may_grow(database: Database, run_id: str) -> bool:
    """Whether more may come of a run."""
    return await database.read(partial(is_unfinished, run_id=run_id))


def run_limits(config: Config) -> Limits:
    """How far a run may go."""
    return Limits(config.runs.timeout_seconds, config.runs.recursion_limit)

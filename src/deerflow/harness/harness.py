"""Builds every part from the configuration, bottom up, and closes them top down."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel

from deerflow.agents.custom_agents import CustomAgents
from deerflow.agents.features import RuntimeFeatures
from deerflow.agents.lead_agent.agent import AgentPlan
from deerflow.agents.pool import AgentPool
from deerflow.config.source import ConfigSource
from deerflow.domain.files import ThreadFiles
from deerflow.domain.threads import ThreadRecord
from deerflow.harness.agents import agent_settings, create_sandboxes, describe_computer, find_fallback_models
from deerflow.harness.files import all_files, copy_files, open_uploads, shelf_of, snapshots_of
from deerflow.harness.ground import Ground
from deerflow.harness.running import carrying_out_runs
from deerflow.persistence.checkpoints import open_checkpointer
from deerflow.persistence.database import Database, open_database
from deerflow.runtime.artifacts import Artifacts
from deerflow.runtime.deletion import Deletions
from deerflow.runtime.export import Exporter
from deerflow.runtime.features import Features, describe, enabled_features
from deerflow.runtime.feedback import Feedbacks
from deerflow.runtime.input_polish import InputPolish
from deerflow.runtime.profiles import Profiles
from deerflow.runtime.resources import Resources
from deerflow.runtime.retention import Retention
from deerflow.runtime.runs.file_changes import FileChanges
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.runs.timeline import Timeline
from deerflow.runtime.search import Search, catching_up
from deerflow.runtime.side_calls import SideCalls
from deerflow.runtime.store import Store
from deerflow.runtime.suggestions import Suggestions
from deerflow.runtime.threads import Threads
from deerflow.runtime.upkeep import keeping_up
from deerflow.runtime.usage import Usage
from deerflow.runtime.vitals import MeasuredDatabase, Vitals
from deerflow.sandbox.chores import Chores
from deerflow.sandbox.files import thread_files
from deerflow.sandbox.locks import FileLocks
from deerflow.sandbox.places import user_data_folder
from deerflow.sandbox.sandbox_provider import SandboxProvider, SandboxReport
from deerflow.subagents.kinds import SubagentConfig
from deerflow.tracing.metrics import Metrics
from deerflow.uploads.uploads import Uploads


@dataclass(frozen=True, slots=True)
class Harness:
    """Everything a way in needs."""

    source: ConfigSource
    agents: AgentPool
    custom_agents: CustomAgents
    threads: Threads
    deletions: Deletions
    retention: Retention
    runs: RunManager
    timeline: Timeline
    store: Store
    sandboxes: SandboxProvider
    sandbox_report: SandboxReport
    resources: Resources
    uploads: Uploads
    artifacts: Artifacts
    vitals: Vitals

    def files_of(self, thread: ThreadRecord) -> ThreadFiles:
        """The files of a thread."""
        return thread_files(user_data_folder(self.source.current.home, thread.owner, thread.thread_id))

    def features(self) -> Features:
        """What is on."""
        config = self.source.refresh().config
        sections = ("suggestions", "input_polish", "title", "summarization", "guardrails", "loop_detection")
        parts = (*Harness.__slots__, *Resources.__slots__)
        enabled = enabled_features(parts, {name: getattr(config, name).enabled for name in sections})
        sandbox = config.sandbox
        cards = self.agents.model_cards()
        return describe(enabled, self.sandbox_report, sandbox.network, sandbox.allow_host_bash, cards)


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
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        database: Database = MeasuredDatabase(await stack.enter_async_context(open_database(place)), metrics)
        checkpointer = await stack.enter_async_context(open_checkpointer(place))
        fallback = await find_fallback_models(loaded)
        sandboxes = create_sandboxes(loaded)
        stack.push_async_callback(sandboxes.aclose)
        report = await sandboxes.open()
        chores = Chores(sandboxes, report)
        uploads = await stack.enter_async_context(open_uploads(source, chores))
        computer = describe_computer(loaded.config.sandbox, report)
        custom_agents = CustomAgents(loaded.home)
        agents = AgentPool(
            lambda: agent_settings(source.refresh().config, fallback, computer),
            checkpointer,
            custom_agents,
            AgentPlan(model, features, extra_middleware, subagents),
        )
        stack.push_async_callback(agents.aclose)
        resources = make_resources(database, source, agents)
        file_changes, locks = FileChanges(database, partial(snapshots_of, loaded.home)), FileLocks()
        ground = Ground(
            source, loaded, database, checkpointer, sandboxes, uploads, file_changes, locks, resources, metrics
        )
        runs, deletions = await stack.enter_async_context(carrying_out_runs(ground, agents))
        retention = Retention(database, deletions, lambda: source.refresh().config.retention)
        await stack.enter_async_context(keeping_up(deletions, retention))
        await stack.enter_async_context(catching_up(database))
        threads = Threads(database, checkpointer, agents, partial(copy_files, uploads, loaded.home), deletions)
        yield Harness(
            source=source,
            agents=agents,
            custom_agents=custom_agents,
            threads=threads,
            deletions=deletions,
            retention=retention,
            runs=runs,
            timeline=Timeline(database),
            store=Store(database),
            sandboxes=sandboxes,
            sandbox_report=report,
            resources=resources,
            uploads=uploads,
            artifacts=Artifacts(threads, partial(shelf_of, loaded.home, chores), locks, file_changes),
            vitals=Vitals(database, sandboxes, report, loaded.home, metrics, loaded.config.gateway.min_free_disk_mb),
        )


def make_resources(database: Database, source: ConfigSource, agents: AgentPool) -> Resources:
    """What people and programs use beside threads and runs."""
    usage = Usage(database, agents.prices, agents.window)
    side_calls = SideCalls(database, agents.side_model, usage.note)
    return Resources(
        usage=usage,
        search=Search(database),
        feedback=Feedbacks(database),
        exporter=Exporter(database, partial(all_files, source.current.home)),
        suggestions=Suggestions(side_calls, agents.state_graph, lambda: source.refresh().config.suggestions),
        input_polish=InputPolish(side_calls, lambda: source.refresh().config.input_polish),
        profiles=Profiles(database),
    )

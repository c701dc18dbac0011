"""What everything else stands on: the database, sandboxes, agents and what runs share."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.acp.desk import AcpDesk
from deerflow.agents.custom_agents import CustomAgents
from deerflow.agents.plan import AgentPlan
from deerflow.agents.pool import AgentPool
from deerflow.agents.settings import AgentSettings, Computer
from deerflow.config.load import Loaded
from deerflow.config.models import ModelConfig
from deerflow.config.source import ConfigSource
from deerflow.harness.acp import open_acp
from deerflow.harness.agents import (
    agent_settings,
    create_sandboxes,
    describe_computer,
    find_fallback_models,
    kind_files,
)
from deerflow.harness.files import all_files, open_uploads, snapshots_of
from deerflow.harness.mcp import open_mcp
from deerflow.harness.memory import make_memories
from deerflow.harness.policy import PolicyFile, reach_of
from deerflow.harness.skills import open_skill_index, switch_skill
from deerflow.mcp.lazy_servers import LazyServers
from deerflow.persistence.checkpoints import open_checkpointer
from deerflow.persistence.database import Database, open_database
from deerflow.runtime.late import Recipe
from deerflow.runtime.profiles import Profiles
from deerflow.runtime.resources import Resources
from deerflow.runtime.runs.file_changes import FileChanges
from deerflow.runtime.search import Search
from deerflow.runtime.side_calls import SideCalls
from deerflow.runtime.usage import Usage
from deerflow.runtime.vitals import MeasuredDatabase
from deerflow.sandbox.chores import Chores
from deerflow.sandbox.locks import FileLocks
from deerflow.sandbox.sandbox_provider import SandboxProvider, SandboxReport
from deerflow.skills.catalog import Skills
from deerflow.skills.index import SkillIndex
from deerflow.skills.view import SkillViews
from deerflow.subagents.files import KindFiles
from deerflow.tracing.metrics import Metrics
from deerflow.uploads.uploads import Uploads


@dataclass(frozen=True, slots=True)
class Ground:
    """What everything else stands on."""

    source: ConfigSource
    loaded: Loaded
    database: Database
    checkpointer: BaseCheckpointSaver[str]
    sandboxes: SandboxProvider
    report: SandboxReport
    chores: Chores
    uploads: Uploads
    custom_agents: CustomAgents
    skills: Skills
    mcp: LazyServers
    acp: AcpDesk
    agents: AgentPool
    resources: Resources
    metrics: Metrics
    file_changes: FileChanges
    locks: FileLocks


@asynccontextmanager
async def open_ground(source: ConfigSource, plan: AgentPlan) -> AsyncIterator[Ground]:
    """Open what nothing else can do without."""
    loaded = source.current
    # Conversations and files are nobody else's business, whoever else has an account here.
    loaded.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = loaded.config.database.place(loaded.home)
    metrics = Metrics()
    policy = PolicyFile()
    policy.check(loaded)
    async with AsyncExitStack() as stack:
        database: Database = MeasuredDatabase(await stack.enter_async_context(open_database(place)), metrics)
        checkpointer = await stack.enter_async_context(open_checkpointer(place))
        fallback = await find_fallback_models(loaded)
        index = open_skill_index(source)
        stack.callback(index.close)
        sandboxes = create_sandboxes(loaded, SkillViews(loaded.home, index))
        stack.push_async_callback(sandboxes.aclose)
        report = await sandboxes.open()
        chores = Chores(sandboxes, report)
        uploads = await stack.enter_async_context(open_uploads(source, chores))
        computer = describe_computer(loaded.config.sandbox, report)
        custom_agents = CustomAgents(loaded.home)
        settings = partial(current_settings, source, fallback, computer, kind_files(loaded), policy)
        mcp = await stack.enter_async_context(open_mcp(source, sandboxes, database))
        agents = AgentPool(settings, checkpointer, custom_agents, plan, index, loaded.environment, mcp)
        stack.push_async_callback(agents.aclose)
        yield Ground(
            source=source,
            loaded=loaded,
            database=database,
            checkpointer=checkpointer,
            sandboxes=sandboxes,
            report=report,
            chores=chores,
            uploads=uploads,
            custom_agents=custom_agents,
            skills=Skills(index, loaded.home, partial(switch_skill, source)),
            mcp=mcp,
            acp=await stack.enter_async_context(open_acp(source, sandboxes)),
            agents=agents,
            resources=make_resources(database, source, agents, index, mcp),
            metrics=metrics,
            file_changes=FileChanges(database, partial(snapshots_of, loaded.home)),
            locks=FileLocks(),
        )


def current_settings(
    source: ConfigSource, fallback: Sequence[ModelConfig], computer: Computer, files: KindFiles, policy: PolicyFile
) -> AgentSettings:
    """What agents are built from, as the configuration is now."""
    loaded = source.refresh()
    reach = reach_of(computer, loaded.extensions.mcp_servers)
    return agent_settings(loaded.config, fallback, computer, files.kinds(), policy.current(loaded), reach)


def make_resources(
    database: Database, source: ConfigSource, agents: AgentPool, skills: SkillIndex, mcp: LazyServers
) -> Resources:
    """What people and programs use beside threads and runs."""
    usage = Usage(database, agents.prices, agents.window)
    side_calls = SideCalls(database, agents.side_model, usage.note)
    return Resources(
        usage=usage,
        search=Search(database),
        profiles=Profiles(database),
        memory=make_memories(database, source),
        mcp=mcp,
        feedback=Recipe("deerflow.runtime.feedback:Feedbacks", database),
        exporter=Recipe("deerflow.runtime.export:Exporter", database, partial(all_files, source.current.home)),
        suggestions=Recipe(
            "deerflow.runtime.suggestions:Suggestions",
            side_calls,
            agents.state_graph,
            lambda: source.refresh().config.suggestions,
        ),
        input_polish=Recipe(
            "deerflow.runtime.input_polish:InputPolish", side_calls, lambda: source.refresh().config.input_polish
        ),
        sharing=Recipe(
            "deerflow.runtime.sharing:Sharing", database, lambda: source.refresh().config.sharing, source.hide
        ),
        web_pages=Recipe("deerflow.runtime.pages:WebPages", database),
        workshop=Recipe("deerflow.harness.workshop:make_workshop", source, side_calls, skills),
    )

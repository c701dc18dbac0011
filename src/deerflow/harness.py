"""The composition root: builds every part from the configuration, bottom up, and closes them top down."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig

from deerflow.agents.custom_agents import CustomAgents
from deerflow.agents.factory import AgentGraph
from deerflow.agents.features import RuntimeFeatures
from deerflow.agents.lead_agent.agent import AgentPlan, LeadAgent, read_spec
from deerflow.agents.pool import AgentPool
from deerflow.agents.settings import AgentSettings, ChainSettings
from deerflow.config.load import Loaded
from deerflow.config.models import ModelConfig
from deerflow.config.root import Config
from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.context import RunContext
from deerflow.domain.events import StreamEvent
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRecord
from deerflow.models.detection import detect_models, find_local_servers
from deerflow.models.factory import ModelCatalog
from deerflow.persistence.checkpoints import open_checkpointer
from deerflow.persistence.database import Database, open_database
from deerflow.persistence.events import read_events
from deerflow.persistence.liveness import is_alive, sign_of_life
from deerflow.runtime.history import JournalHistory
from deerflow.runtime.journal import Journal
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.runs.recovery import end_unfinished_runs
from deerflow.runtime.runs.worker import Limits, RunWorker
from deerflow.runtime.stream_bridge import MemoryStreamBridge
from deerflow.runtime.threads import Threads
from deerflow.runtime.titles import Namer
from deerflow.sandbox.files import LocalThreadFiles, user_data_folder

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
    threads: Threads
    runs: RunManager


@asynccontextmanager
async def open_harness(
    source: ConfigSource,
    model: BaseChatModel | None = None,
    *,
    features: RuntimeFeatures | None = None,
    extra_middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
) -> AsyncIterator[Harness]:
    """Open everything `source` asks for. `model`, when given, answers in place of every configured one."""
    loaded = source.current
    file = loaded.config.database.sqlite_file(loaded.home)
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(open_database(file))
        processes = file.parent / "processes"
        process = stack.enter_context(sign_of_life(processes))
        checkpointer = await stack.enter_async_context(open_checkpointer(file.with_name("checkpoints.db")))
        fallback = await find_fallback_models(loaded)
        agents = AgentPool(
            lambda: agent_settings(source.refresh().config, fallback),
            checkpointer,
            CustomAgents(loaded.home),
            AgentPlan(model, features, extra_middleware),
        )
        stack.push_async_callback(agents.aclose)
        bridge = MemoryStreamBridge(partial(read_log, database))
        journal = Journal(database, bridge)
        stack.push_async_callback(journal.aclose)
        worker = RunWorker(
            agents, partial(open_context, database, loaded.home), lambda: run_limits(source.refresh().config)
        )
        await end_unfinished_runs(database, journal, worker, partial(is_alive, processes))
        namer = Namer(database, agents.state_graph, lambda: source.refresh().config.title, agents.catalog_model)
        runs = RunManager(database, journal, bridge, worker, namer, process)
        stack.push_async_callback(runs.aclose)
        yield Harness(source, agents, Threads(database, checkpointer, agents.state_graph), runs)


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


def agent_settings(config: Config, fallback: Sequence[ModelConfig]) -> AgentSettings:
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
    )


def open_context(database: Database, home: Path, run: RunRecord, spec: AgentSpec) -> RunContext:
    """What `run` carries to every middleware and tool."""
    return RunContext(
        thread_id=run.thread_id,
        run_id=run.run_id,
        user_id=run.owner,
        files=LocalThreadFiles(user_data_folder(home, run.owner, run.thread_id)),
        history=JournalHistory(database, run.thread_id),
        agent_name=spec.agent_name,
    )


async def read_log(database: Database, run_id: str, after: int, limit: int) -> Sequence[StreamEvent]:
    """A piece of a run's log."""
    return await database.read(partial(read_events, run_id=run_id, after=after, limit=limit))


def run_limits(config: Config) -> Limits:
    """How far a run may go."""
    return Limits(config.runs.timeout_seconds, config.runs.recursion_limit)

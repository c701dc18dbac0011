"""The composition root: builds every part from the configuration, bottom up, and closes them top down."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.agents.lead_agent.agent import AgentGraph, build_lead_agent, read_system_prompt
from deerflow.config.load import Loaded
from deerflow.config.models import ModelConfig
from deerflow.config.root import Config
from deerflow.config.source import ConfigSource
from deerflow.domain.events import StreamEvent
from deerflow.domain.runs import AgentSpec
from deerflow.models.demo.scripts import Starter, starters
from deerflow.models.detection import detect_models, find_local_servers
from deerflow.models.factory import ModelCatalog
from deerflow.persistence.checkpoints import open_checkpointer
from deerflow.persistence.database import Database, open_database
from deerflow.persistence.events import read_events
from deerflow.runtime.journal import Journal
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.runs.recovery import end_unfinished_runs
from deerflow.runtime.runs.worker import Limits, RunWorker
from deerflow.runtime.stream_bridge import MemoryStreamBridge
from deerflow.runtime.threads import Threads

logger = logging.getLogger(__name__)

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
    agents: "Agents"
    threads: Threads
    runs: RunManager


@asynccontextmanager
async def open_harness(source: ConfigSource, model: BaseChatModel | None = None) -> AsyncIterator[Harness]:
    """Open everything `source` asks for. `model`, when given, answers in place of every configured one."""
    loaded = source.current
    file = loaded.config.database.sqlite_file(loaded.home)
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(open_database(file))
        checkpointer = await stack.enter_async_context(open_checkpointer(file.with_name("checkpoints.db")))
        agents = Agents(source, checkpointer, await find_fallback_models(loaded), model)
        stack.push_async_callback(agents.aclose)
        bridge = MemoryStreamBridge(partial(read_log, database))
        journal = Journal(database, bridge)
        stack.push_async_callback(journal.aclose)
        worker = RunWorker(agents, lambda: run_limits(source.refresh().config))
        await end_unfinished_runs(database, journal, worker)
        runs = RunManager(database, journal, bridge, worker, lambda: title_chars(source.refresh().config))
        stack.push_async_callback(runs.aclose)
        yield Harness(source, agents, Threads(database, checkpointer), runs)


class Agents:
    """Graphs and models for the configuration of the moment; equal specs share one graph."""

    def __init__(
        self,
        source: ConfigSource,
        checkpointer: BaseCheckpointSaver[str],
        fallback: Sequence[ModelConfig],
        model: BaseChatModel | None,
    ) -> None:
        self._source = source
        self._checkpointer = checkpointer
        self._fallback = fallback
        self._model = model
        self._prompt = read_system_prompt()
        self._configured = source.current.config.models
        self._catalog = ModelCatalog(self._configured or fallback)
        self._graphs: dict[AgentSpec, AgentGraph] = {}

    @property
    def catalog(self) -> ModelCatalog:
        """The models of the moment."""
        configured = self._source.refresh().config.models
        if configured != self._configured:
            # Runs under way keep the models they have; these close their connections when nobody holds them.
            self._configured, self._graphs = configured, {}
            self._catalog = ModelCatalog(configured or self._fallback)
            logger.info("models are now %s", ", ".join(model.name for model in self._catalog.models))
        return self._catalog

    def graph_for(self, spec: AgentSpec) -> AgentGraph:
        catalog = self.catalog
        graph = self._graphs.get(spec)
        if graph is None:
            model = self._model or create_model(catalog, spec)
            graph = self._graphs[spec] = build_lead_agent(model, self._checkpointer, self._prompt)
        return graph

    def starters(self) -> list[Starter]:
        """Requests that show what the agent can do."""
        return starters(tools=())

    async def aclose(self) -> None:
        await self._catalog.aclose()


def create_model(catalog: ModelCatalog, spec: AgentSpec) -> BaseChatModel:
    """The model that answers for `spec`; one that can think does so unless told not to."""
    model = catalog.resolve(spec.model_name)
    thinks = model.supports_thinking if spec.thinking_enabled is None else spec.thinking_enabled
    return catalog.create(model.name, thinking_enabled=thinks, reasoning_effort=spec.reasoning_effort)


def is_scripted(model: ModelConfig) -> bool:
    """Whether the model only plays scripts, which people must be told."""
    return model.use == DEMO_MODEL.use


async def find_fallback_models(loaded: Loaded) -> Sequence[ModelConfig]:
    """What answers when no model is configured: keys in the environment, then local servers, then the demo model."""
    detected = detect_models(loaded.environment)
    if detected or loaded.config.models:
        return detected or [DEMO_MODEL]
    return await find_local_servers(loaded.environment) or [DEMO_MODEL]


async def read_log(database: Database, run_id: str, after: int, limit: int) -> Sequence[StreamEvent]:
    """A piece of a run's log."""
    return await database.read(partial(read_events, run_id=run_id, after=after, limit=limit))


def run_limits(config: Config) -> Limits:
    """How far a run may go."""
    return Limits(config.runs.timeout_seconds, config.runs.recursion_limit)


def title_chars(config: Config) -> int | None:
    """How long a title may be, None when there is to be none."""
    return config.title.max_chars if config.title.enabled else None

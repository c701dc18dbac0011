"""Services of a harness. Those that most servers never use are imported and created on first use."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from langchain_core.messages import HumanMessage, SystemMessage

from deerflow.agent_support.model_failures import get_model_name
from deerflow.agent_support.tokens import BYTES_PER_TOKEN, count_text_tokens
from deerflow.agents.pool import AgentPool, is_scripted
from deerflow.budget.account import (
    Account,
    BudgetTracker,
    ReservationEntry,
    effective_limit,
    extraction_limit,
    subtract_amount,
)
from deerflow.config.imports import load_class
from deerflow.config.loader.files import resolve_from
from deerflow.config.sections.memory import LEDGER_STORAGE, MemoryConfig
from deerflow.config.source import ConfigSource
from deerflow.domain.errors import ConfigError
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE, FileEntry
from deerflow.domain.identity import Principal
from deerflow.domain.memory import BilledRun, MemoryScope, PendingExtraction
from deerflow.domain.runs import AgentSpec
from deerflow.domain.threads import ThreadRecord
from deerflow.domain.usage import MEMORY, SKILL_REVIEW, BudgetSpent, ModelBudget, SpendingLimit
from deerflow.harness.core import Core, thread_snapshots
from deerflow.memory.ledger import Ledger
from deerflow.memory.queries.pending import enqueue_extraction, update_billing
from deerflow.memory.queue import ExtractionQueue
from deerflow.memory.service import MemoryService
from deerflow.memory.storage import JsonFileStorage, MemoryStorage, save_copy
from deerflow.memory.updater import ContextWindow, ExtractionRequest, ExtractionResponse, MemoryUpdater
from deerflow.persistence.engine.database import Database
from deerflow.persistence.engine.maintenance import Purger
from deerflow.persistence.queries.events import WriteFunction
from deerflow.runtime.background import log_task_exception
from deerflow.runtime.runs.job import Job
from deerflow.runtime.side_calls import SideCalls, SideRequest
from deerflow.sandbox.files.files import thread_files
from deerflow.sandbox.files.mounts import thread_folder, user_data_folder
from deerflow.services.saved_models import SavedModels
from deerflow.services.search import SearchService
from deerflow.services.usage import UsageService
from deerflow.services.user_data import ProfileService

if TYPE_CHECKING:
    from deerflow.mcp.servers import McpServerManager
    from deerflow.runtime.threads.threads import Threads
    from deerflow.services.artifacts import ArtifactService, ThreadArtifacts
    from deerflow.services.export import ThreadExporter
    from deerflow.services.model_connections import ModelConnections
    from deerflow.services.prompt_assistance import InputPolisher, SuggestionService
    from deerflow.services.sharing import SharingService
    from deerflow.services.skill_download import SkillDownloader
    from deerflow.services.user_data import FeedbackService, KeyValueStore
    from deerflow.services.web_pages import WebPageService
    from deerflow.skills.authoring.custom_skills import CustomSkillService, ReviewPolicy
    from deerflow.skills.authoring.review import ReviewReply, ReviewRequest


def create_memories(database: Database, source: ConfigSource) -> MemoryService:
    """Create the memory service, with a copy in the configured storage if there is one."""
    loaded = source.current
    place = loaded.config.database.get_location(loaded.home)
    elsewhere = find_storage(loaded.config.memory, loaded.home)
    keep = partial(save_copy, elsewhere) if elsewhere else None
    return MemoryService(
        Ledger(database, Purger(place).purge, keep), source.settings(lambda loaded: loaded.config.memory), elsewhere
    )


def find_storage(settings: MemoryConfig, home: Path) -> MemoryStorage | None:
    """Return the configured storage, or None for the ledger alone.

    Raises:
        ConfigError: It is not a class of storages, or cannot be created.
    """
    if settings.storage_path is not None:
        return JsonFileStorage(home, resolve_from(home, Path(settings.storage_path)))
    if settings.storage_class == LEDGER_STORAGE:
        return None
    try:
        storage_class = load_class(settings.storage_class, MemoryStorage)  # type: ignore[type-abstract]  # nothing abstract is created
        return cast(Callable[[Path], MemoryStorage], storage_class)(home)
    except (ConfigError, TypeError, ValueError, OSError) as problem:
        raise ConfigError(f"memory.storage_class: {problem}") from problem


@dataclass(frozen=True, slots=True)
class ExtractionReservations:
    """Reservations of an extraction, in its pending row."""

    database: Database
    lesson: PendingExtraction
    payer: BilledRun
    limit: SpendingLimit

    async def reserve(self, entry: ReservationEntry) -> None:
        payer = replace(self.payer, limit=subtract_amount(self.limit, entry.committed))
        if not await self.database.write(partial(update_billing, extraction=replace(self.lesson, payer=payer))):
            raise BudgetSpent("another run pays for it by now, or somebody else is learning from it")

    def settle(self, entry: ReservationEntry) -> None:
        """Do nothing: the rest is stored with the outcome of the extraction."""


def extraction_budget(database: Database, agents: AgentPool, lesson: PendingExtraction) -> BudgetTracker | None:
    """Return the budget of an extraction, or None if it has no limit."""
    if lesson.payer is None or lesson.payer.limit is None:
        return None
    book = ExtractionReservations(database, lesson, lesson.payer, lesson.payer.limit)
    return BudgetTracker(lesson.payer.limit, Account(), partial(agents.prices, lesson.scope.owner), book)


def create_extraction_queue(core: Core, memories: MemoryService, calls: SideCalls) -> ExtractionQueue:
    """Create the queue that extracts facts from conversations."""
    source, agents = core.source, core.agents
    reader = ContextWindow(partial(context_window, source, agents), count_text_tokens)
    updater = MemoryUpdater(partial(ask_model, source, calls), reader)
    open_budget = partial(extraction_budget, core.database, agents)
    return ExtractionQueue(memories, updater, partial(is_extracting, source, agents), open_budget)


def is_extracting(source: ConfigSource, agents: AgentPool) -> bool:
    """Return whether memory is on and a real model is available."""
    settings, plan = source.refresh().config.memory, agents.plan
    if not settings.is_extraction_enabled or (plan.features is not None and plan.features.memory is not True):
        return False
    return plan.model is not None or not is_scripted(agents.catalog.resolve(settings.model_name))


def context_window(source: ConfigSource, agents: AgentPool, budget: ModelBudget | None) -> int | None:
    """Return the context window of the extraction model, limited by `budget`; None if unknown.

    Raises:
        ConfigError: The price of the model is unknown.
    """
    if agents.plan.model is not None:
        name, window = (
            get_model_name(agents.plan.model, None),
            (agents.plan.model.profile or {}).get("max_input_tokens"),
        )
    else:
        entry = agents.catalog.resolve(source.refresh().config.memory.model_name)
        name, window = entry.name, entry.context_window
    room = budget.get_final_call_limits(name) if budget is not None else None
    paid = [room[0] // BYTES_PER_TOKEN] if room is not None else []
    return min([*paid, *([] if window is None else [window])], default=None)


async def ask_model(source: ConfigSource, calls: SideCalls, question: ExtractionRequest) -> ExtractionResponse:
    """Send a question to the extraction model."""
    settings = source.refresh().config.memory
    messages = [SystemMessage(question.instructions), HumanMessage(question.conversation)]
    who = Principal(question.owner)
    asked = SideRequest(MEMORY, messages, settings.model_name, settings.timeout_seconds, who, question.thread_id)
    answer = await calls.ask(replace(asked, run_id=question.run_id, budget=question.budget))
    return ExtractionResponse(answer.text, answer.reason, answer.is_unpaid)


@asynccontextmanager
async def extract_in_background(queue: ExtractionQueue) -> AsyncIterator[None]:
    """Extract in the background; pending extractions stay in the database for the next process."""
    task = asyncio.create_task(queue.run(), name="memory")
    task.add_done_callback(log_task_exception)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def pending_extraction(queue: ExtractionQueue, job: Job) -> WriteFunction[None] | None:
    """Return the change that enqueues the extraction from an ended run, or None if there is nothing to extract."""
    spec, said = job.request.agent, job.records.transcript
    if spec.is_bootstrap:
        return None
    scope, messages = memory_scope(spec, job.run.owner), list(said.messages.values())
    found = queue.build_extraction(scope, job.run.thread_id, messages, said.steps, billed_run(job))
    return None if found is None else partial(enqueue_extraction, extraction=found[0], wait=found[1])


def billed_run(job: Job) -> BilledRun:
    """Return an ended run and the budget it leaves for the extraction."""
    records = job.records
    if records.budget is not None:
        return BilledRun(job.run.run_id, records.budget.close())
    limit = run_limit(job)
    return BilledRun(job.run.run_id, extraction_limit(limit, records.account.committed) if limit is not None else None)


def run_limit(job: Job) -> SpendingLimit | None:
    """Return the spending limit of a run, or None if it has none."""
    return effective_limit(job.settings.budget, job.request.budget)


def memory_scope(spec: AgentSpec, owner: str) -> MemoryScope:
    """Return the scope of an agent's memory."""
    return MemoryScope(owner, spec.agent_name or None)


class Resources:
    """One attribute for each resource of the API."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.usage = UsageService(core.database, core.agents.prices, core.agents.window)
        self.search = SearchService(core.database)
        self.profiles = ProfileService(core.database)
        self.memory = create_memories(core.database, core.source)
        self.side_calls = SideCalls(core.database, core.agents.side_model, self.usage.record)

    @cached_property
    def feedback(self) -> "FeedbackService":
        """Ratings of answers."""
        from deerflow.services.user_data import FeedbackService

        return FeedbackService(self._core.database)

    @cached_property
    def exporter(self) -> "ThreadExporter":
        """Export of threads."""
        from deerflow.services.export import ThreadExporter

        return ThreadExporter(self._core.database, partial(list_thread_files, self._core.home))

    @cached_property
    def suggestions(self) -> "SuggestionService":
        """Follow-up questions."""
        from deerflow.services.prompt_assistance import SuggestionService

        source = self._core.source
        return SuggestionService(
            self.side_calls, self._core.agents.state_graph, source.settings(lambda loaded: loaded.config.suggestions)
        )

    @cached_property
    def input_polish(self) -> "InputPolisher":
        """Rewriting of prompts before they are sent."""
        from deerflow.services.prompt_assistance import InputPolisher

        return InputPolisher(self.side_calls, self._core.source.settings(lambda loaded: loaded.config.input_polish))

    @cached_property
    def sharing(self) -> "SharingService":
        """Public share links."""
        from deerflow.services.sharing import SharingService

        source = self._core.source
        return SharingService(self._core.database, source.settings(lambda loaded: loaded.config.sharing), source.redact)

    @cached_property
    def web_pages(self) -> "WebPageService":
        """Web pages that threads have read."""
        from deerflow.services.web_pages import WebPageService

        return WebPageService(self._core.database)

    @cached_property
    def store(self) -> "KeyValueStore":
        """Key-value store of clients."""
        from deerflow.services.user_data import KeyValueStore

        return KeyValueStore(self._core.database)

    @cached_property
    def custom_skills(self) -> "CustomSkillService":
        """Custom skills."""
        from deerflow.skills.authoring.custom_skills import CustomSkillService
        from deerflow.skills.authoring.review import SkillReviewer
        from deerflow.skills.authoring.store import SkillStore
        from deerflow.skills.authoring.test_runner import SkillTestProcess
        from deerflow.skills.scanner.scanner import SkillScanner

        core, loaded = self._core, self._core.source.current
        store = SkillStore(loaded.home, lambda owner: tuple(core.skill_index.read(owner).skills.values()))
        tests = SkillTestProcess(loaded.config.sandbox.toolbox, loaded.environment)
        reviewer = SkillReviewer(partial(review_skill, core.source, self.side_calls))
        return CustomSkillService(store, SkillScanner(), reviewer, partial(review_rules, core.source), tests)

    @cached_property
    def skill_downloader(self) -> "SkillDownloader":
        """Downloads of skills from the web."""
        from deerflow.services.skill_download import SkillDownloader

        return SkillDownloader(certificates=self._core.source.current.environment.get("SSL_CERT_FILE"))

    @cached_property
    def model_connections(self) -> "ModelConnections":
        """Connections to model providers that users save."""
        return create_model_connections(self._core.source, self._core.saved_models)

    @property
    def mcp_servers(self) -> "McpServerManager":
        """MCP servers, for those who manage them."""
        return self._core.mcp.servers

    def create_artifacts(self, threads: "Threads") -> "ArtifactService":
        """Create the service for files of threads."""
        from deerflow.services.artifacts import ArtifactService

        core = self._core
        return ArtifactService(threads, self._thread_files, core.file_locks, core.file_changes, core.disk_quota)

    def _thread_files(self, thread: ThreadRecord) -> "ThreadArtifacts":
        from deerflow.sandbox.thumbnails import Thumbnails
        from deerflow.services.artifacts import ThreadArtifacts

        home, owner, thread_id = self._core.home, thread.owner, thread.thread_id
        folder = thread_folder(home, owner, thread_id) / "thumbnails"
        thumbnails = Thumbnails(folder, self._core.sandbox_jobs, thread_id, owner)
        return ThreadArtifacts(
            thread_files(user_data_folder(home, owner, thread_id)), thread_snapshots(home, thread), thumbnails
        )


async def list_thread_files(home: Path, thread: ThreadRecord) -> list[FileEntry]:
    """Return all files of a thread."""
    files = thread_files(user_data_folder(home, thread.owner, thread.thread_id))
    return [file for area in (UPLOADS, WORKSPACE, OUTPUTS) for file in await files.list(area)]


def create_model_connections(source: ConfigSource, saved: SavedModels) -> "ModelConnections":
    """Create the service for connections to model providers."""
    from deerflow.services.model_connections import ModelConnections

    return ModelConnections(
        saved.database,
        saved.cipher,
        saved,
        source.current.environment,
        lambda: frozenset(model.name for model in source.refresh().config.models),
    )


def review_rules(source: ConfigSource) -> "ReviewPolicy":
    """Return the review rules for custom skills as the configuration is now."""
    from deerflow.skills.authoring.custom_skills import ReviewPolicy

    config = source.refresh().config
    return ReviewPolicy(scans=config.skill_scan.enabled, fails_closed=config.skill_evolution.security_fail_closed)


async def review_skill(source: ConfigSource, calls: SideCalls, question: "ReviewRequest") -> "ReviewReply":
    """Ask the model that reviews skills."""
    from deerflow.skills.authoring.review import ReviewReply

    settings = source.refresh().config.skill_evolution
    answer = await calls.ask(
        SideRequest(
            SKILL_REVIEW,
            [SystemMessage(question.instructions), HumanMessage(question.skill)],
            settings.moderation_model_name,
            settings.timeout_seconds,
            Principal(question.owner),
            question.thread_id,
            budget=question.budget,
        )
    )
    return ReviewReply(answer.text, answer.reason)

"""Memory and projects of a harness: extraction within budgets, and the index of project files."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import cast

from langchain_core.messages import HumanMessage, SystemMessage

from deerflow.accounts.quotas import Quotas
from deerflow.agent_support.model_failures import get_model_name
from deerflow.agent_support.tokens import BYTES_PER_TOKEN, count_text_tokens
from deerflow.agents.pool import AgentPool, is_scripted
from deerflow.budget.account import (
    Account,
    Amount,
    BudgetTracker,
    ReservationEntry,
    effective_limit,
    extraction_limit,
    subtract_amount,
)
from deerflow.budget.daily import DailyBudgets
from deerflow.config.imports import load_class
from deerflow.config.loader.files import resolve_from
from deerflow.config.sections.base import Settings
from deerflow.config.sections.memory import LEDGER_STORAGE, MemoryConfig
from deerflow.config.source import ConfigSource
from deerflow.domain.errors import ConfigError
from deerflow.domain.identity import Principal
from deerflow.domain.memory import BilledRun, MemoryScope, PendingExtraction
from deerflow.domain.projects import project_scope
from deerflow.domain.runs import AgentSpec
from deerflow.domain.usage import MEMORY, BudgetSpent, ModelBudget, SpendingLimit
from deerflow.harness.core import Core
from deerflow.memory.ledger import Ledger
from deerflow.memory.queries.pending import enqueue_extraction, update_billing
from deerflow.memory.queue import ExtractionQueue
from deerflow.memory.service import JsonFileStorage, MemoryService, MemoryStorage, save_copy
from deerflow.memory.updater import ContextWindow, ExtractionRequest, ExtractionResponse, MemoryUpdater
from deerflow.persistence.engine.database import Database
from deerflow.persistence.engine.maintenance import Purger
from deerflow.persistence.queries.events import WriteFunction
from deerflow.persistence.queries.usage import add_daily_spending
from deerflow.projects.files import PassageExtractor, ProjectFileStore
from deerflow.projects.indexer import Indexer
from deerflow.projects.service import ProjectService
from deerflow.runtime.background import log_task_exception
from deerflow.runtime.runs.job import Job
from deerflow.runtime.side_calls import SideCalls, SideRequest


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
    extraction: PendingExtraction
    payer: BilledRun
    limit: SpendingLimit

    async def reserve(self, entry: ReservationEntry) -> None:
        payer = replace(self.payer, limit=subtract_amount(self.limit, entry.committed))
        if not await self.database.write(partial(update_billing, extraction=replace(self.extraction, payer=payer))):
            raise BudgetSpent("another run pays for the extraction by now, or another process has claimed it")

    def settle(self, entry: ReservationEntry) -> None:
        """Do nothing: the rest is stored with the outcome of the extraction."""


@dataclass(frozen=True, slots=True)
class SpendingByDay:
    """Spending of people by day, in the database."""

    database: Database

    async def add(
        self, owner: str, day: date, released: Amount, wanted: Amount, limit: SpendingLimit
    ) -> tuple[bool, Amount]:
        limits = (limit.max_tokens, None if limit.max_cost is None else Amount.from_limit(limit).cost)
        change = partial(add_daily_spending, owner=owner, day=day.isoformat(), limits=limits)
        amounts = {"released": (released.tokens, released.cost), "wanted": (wanted.tokens, wanted.cost)}
        is_added, total = await self.database.write(partial(change, **amounts))
        return is_added, Amount(*total)


def create_daily_budgets(core: Core, quotas: Quotas) -> DailyBudgets:
    """Create the accounts of people for tokens and money."""
    return DailyBudgets(SpendingByDay(core.database), quotas.find_spending_limit, core.agents.prices)


def extraction_budget(database: Database, agents: AgentPool, extraction: PendingExtraction) -> BudgetTracker | None:
    """Return the budget of an extraction, or None if it has no limit."""
    if extraction.payer is None or extraction.payer.limit is None:
        return None
    book = ExtractionReservations(database, extraction, extraction.payer, extraction.payer.limit)
    return BudgetTracker(extraction.payer.limit, Account(), partial(agents.prices, extraction.scope.owner), book)


def create_extraction_queue(core: Core, memories: MemoryService, calls: SideCalls) -> ExtractionQueue:
    """Create the queue that extracts facts from conversations."""
    settings, agents = core.source.settings(lambda loaded: loaded.config.memory), core.agents
    reader = ContextWindow(partial(context_window, settings, agents), count_text_tokens)
    updater = MemoryUpdater(partial(ask_model, settings, calls), reader)
    open_budget = partial(extraction_budget, core.database, agents)
    return ExtractionQueue(memories, updater, partial(is_extracting, settings, agents), open_budget)


def is_extracting(settings: Settings[MemoryConfig], agents: AgentPool) -> bool:
    """Return whether memory is on and a real model is available."""
    current, plan = settings.current, agents.plan
    if not current.is_extraction_enabled or (plan.features is not None and plan.features.memory is not True):
        return False
    return plan.model is not None or not is_scripted(agents.catalog.resolve(current.model_name))


def context_window(settings: Settings[MemoryConfig], agents: AgentPool, budget: ModelBudget | None) -> int | None:
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
        entry = agents.catalog.resolve(settings.current.model_name)
        name, window = entry.name, entry.context_window
    room = budget.get_final_call_limits(name) if budget is not None else None
    paid = [room[0] // BYTES_PER_TOKEN] if room is not None else []
    return min([*paid, *([] if window is None else [window])], default=None)


async def ask_model(
    settings: Settings[MemoryConfig], calls: SideCalls, question: ExtractionRequest
) -> ExtractionResponse:
    """Send a question to the extraction model."""
    current = settings.current
    messages = [SystemMessage(question.instructions), HumanMessage(question.conversation)]
    who = Principal(question.owner)
    asked = SideRequest(MEMORY, messages, current.model_name, current.timeout_seconds, who, question.thread_id)
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
    if spec.is_bootstrap or job.run.started_by:  # words of others do not become memories of the owner
        return None
    scope, messages = memory_scope(spec, job.run.owner, job.records.project_id), list(said.messages.values())
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


def memory_scope(spec: AgentSpec, owner: str, project_id: str | None = None) -> MemoryScope:
    """Return the scope of the memory of a run: that of its project, or that of its agent."""
    if project_id is not None:
        return project_scope(owner, project_id)
    return MemoryScope(owner, spec.agent_name or None)


def create_projects(core: Core) -> ProjectService:
    """Create the service for projects."""
    source, files = core.source, ProjectFileStore(core.home, core.disk_quota)
    limits = source.settings(lambda loaded: loaded.config.projects)
    uploads = source.settings(lambda loaded: loaded.config.uploads)
    return ProjectService(core.database, files, limits, uploads, core.sandboxes.discard, core.embedder)


def create_indexer(core: Core, projects: ProjectService, memory: MemoryService) -> Indexer:
    """Create the indexer of project files."""

    async def purge_memory(project_id: str, owner: str) -> None:
        await memory.clear(project_scope(owner, project_id))

    settings = core.source.settings(lambda loaded: loaded.config.knowledge)
    extractor = PassageExtractor(core.sandbox_jobs)
    return Indexer(core.database, projects, extractor, settings, core.embedder, purge_memory)

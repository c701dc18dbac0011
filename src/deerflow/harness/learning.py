"""What agents remember: who learns it, and what each run is told."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from langchain_core.messages import HumanMessage, SystemMessage

from deerflow.agents.metering import name_of
from deerflow.agents.middlewares.tokens import BYTES_PER_TOKEN, text_tokens
from deerflow.agents.pool import AgentPool, is_scripted
from deerflow.config.source import ConfigSource
from deerflow.domain.budget import Budget, SpendingLimit
from deerflow.domain.learning import Payer
from deerflow.domain.memory import MemoryScope
from deerflow.domain.principal import Principal
from deerflow.domain.runs import AgentSpec
from deerflow.domain.search import LeftBehind
from deerflow.domain.usage import MEMORY
from deerflow.harness.ground import Ground
from deerflow.memory.queue import LessonQueue
from deerflow.memory.updater import MemoryAnswer, MemoryQuestion, MemoryUpdater, Reader
from deerflow.persistence.events import Change
from deerflow.persistence.memory_pending import keep_lesson
from deerflow.runtime.lesson_budget import lesson_budget
from deerflow.runtime.runs.budget import for_learning, run_limit
from deerflow.runtime.runs.job import Job
from deerflow.runtime.side_calls import SideCalls, SideQuestion
from deerflow.runtime.waiting import tell_of_failure

Closing = Callable[[Job, LeftBehind | None], Change[None]]


def make_lessons(ground: Ground) -> LessonQueue:
    """What learns from conversations."""
    source, agents, resources = ground.source, ground.agents, ground.resources
    calls = SideCalls(ground.database, agents.side_model, resources.usage.note)
    updater = MemoryUpdater(
        partial(ask_for_memory, source, calls), Reader(partial(window_of, source, agents), text_tokens)
    )
    open_budget = partial(lesson_budget, ground.database, agents.prices)
    return LessonQueue(resources.memory, updater, partial(is_learning, source, agents), open_budget)


def is_learning(source: ConfigSource, agents: AgentPool) -> bool:
    """Whether our own memory is on, and there is a model that can make sense of a conversation."""
    settings, plan = source.refresh().config.memory, agents.plan
    if not settings.learns or (plan.features is not None and plan.features.memory is not True):
        return False
    return plan.model is not None or not is_scripted(agents.catalog.resolve(settings.model_name))


def window_of(source: ConfigSource, agents: AgentPool, budget: Budget | None) -> int | None:
    """How many tokens the model that learns reads at most, as far as `budget` pays; None when that is not known.

    Raises:
        ConfigError: Nobody knows what the model costs.
    """
    if agents.plan.model is not None:
        name, window = name_of(agents.plan.model, None), (agents.plan.model.profile or {}).get("max_input_tokens")
    else:
        entry = agents.catalog.resolve(source.refresh().config.memory.model_name)
        name, window = entry.name, entry.context_window
    room = budget.last_room(name) if budget is not None else None
    paid = [room[0] // BYTES_PER_TOKEN] if room is not None else []
    return min([*paid, *([] if window is None else [window])], default=None)


async def ask_for_memory(source: ConfigSource, calls: SideCalls, question: MemoryQuestion) -> MemoryAnswer:
    """Put a question to the model that learns."""
    settings = source.refresh().config.memory
    messages = [SystemMessage(question.instructions), HumanMessage(question.conversation)]
    who = Principal(question.owner)
    asked = SideQuestion(MEMORY, messages, settings.model_name, settings.timeout_seconds, who, question.thread_id)
    answer = await calls.ask(replace(asked, run_id=question.run_id, budget=question.budget))
    return MemoryAnswer(answer.text, answer.reason, answer.is_unpaid)


@asynccontextmanager
async def learning(lessons: LessonQueue) -> AsyncIterator[None]:
    """Learn in the background; what is not learned by the end waits in the database for the next process."""
    task = asyncio.create_task(lessons.work(), name="memory")
    task.add_done_callback(tell_of_failure)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def closing_with_lesson(
    keep: Closing, source: ConfigSource, lessons: LessonQueue, job: Job, left: LeftBehind | None
) -> Change[None]:
    """What is kept with the end of a run, and with it what is to be learned from the run."""
    kept, spec, said = keep(job, left), job.request.agent, job.records.said
    if spec.is_bootstrap:
        return kept
    whose, messages = scope_of(spec, job.run.owner), list(said.messages.values())
    found = lessons.lesson_of(whose, job.run.thread_id, messages, said.steps, payer_of(source, job))
    return kept if found is None else partial(keep_lesson, keep=kept, lesson=found[0], wait=found[1])


def payer_of(source: ConfigSource, job: Job) -> Payer:
    """A run that has ended, and what learning from it may take."""
    records = job.records
    if records.budget is not None:
        return Payer(job.run.run_id, records.budget.close())
    limit = limit_of(source, job)
    return Payer(job.run.run_id, for_learning(limit, records.purse.gone) if limit is not None else None)


def limit_of(source: ConfigSource, job: Job) -> SpendingLimit | None:
    """What a run may take at most; None: as much as it likes."""
    allowed = source.refresh().config.budget
    return run_limit(SpendingLimit(allowed.max_tokens, allowed.max_cost, allowed.currency), job.request.budget)


def scope_of(spec: AgentSpec, owner: str) -> MemoryScope:
    """Whose memory an agent has."""
    return MemoryScope(owner, spec.agent_name or None)

"""Small questions to a model beside a run: bounded in time, never a failure for whoever waits."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from deerflow.agents.metering import name_of
from deerflow.agents.middlewares.spending import ask_paid
from deerflow.agents.middlewares.title_middleware import without_thoughts
from deerflow.domain.budget import Budget, BudgetSpent
from deerflow.domain.principal import Principal
from deerflow.domain.runs import RunRecord
from deerflow.domain.usage import TokenCounts, UsageOrigin
from deerflow.models.counting import counts_of
from deerflow.persistence.database import Database
from deerflow.persistence.runs import list_runs, read_claimed

logger = logging.getLogger(__name__)

LAST_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class SideQuestion:
    """What a model is asked, by whom and for how long."""

    caller: str
    messages: Sequence[BaseMessage]
    model_name: str | None
    timeout_s: float
    who: Principal
    thread_id: str | None = None
    run_id: str | None = None
    budget: Budget | None = None
    """What pays for it: the budget of that run; None: nobody minds."""


@dataclass(frozen=True, slots=True)
class SideAnswer:
    """What the model said, or why it said nothing; `is_unpaid`: it was not asked, nobody pays for it."""

    text: str
    reason: str | None = None
    is_unpaid: bool = False


@dataclass(frozen=True, slots=True)
class SideCalls:
    """Asks models."""

    database: Database
    model: Callable[[str | None], BaseChatModel]
    """The model of that name, or the default."""
    note: Callable[[UsageOrigin, str, str, TokenCounts], Awaitable[None]]
    """Keeps what a call took."""

    async def ask(self, question: SideQuestion) -> SideAnswer:
        """What the model says; when it fails or takes too long, why."""
        asking = asyncio.create_task(self._ask(question), name=question.caller)
        try:
            done, _ = await asyncio.wait({asking}, timeout=question.timeout_s)
        finally:
            asking.cancel()
        if not done:
            await asyncio.wait({asking}, timeout=LAST_GRACE_S)
            return SideAnswer("", f"the model took longer than {question.timeout_s:g} s")
        problem = asking.exception()
        if isinstance(problem, BudgetSpent):
            return SideAnswer("", str(problem), is_unpaid=True)
        if problem is not None:
            logger.warning("%s could not be had: %s", question.caller, problem)
            return SideAnswer("", f"the model failed: {type(problem).__name__}")
        said = without_thoughts(asking.result().text).strip()
        return SideAnswer(said, None if said else "the model said nothing")

    async def _ask(self, question: SideQuestion) -> AIMessage:
        # The first use of a model may load its vendor's library.
        model = await asyncio.to_thread(self.model, question.model_name)
        quiet: RunnableConfig = {"tags": ["nostream"]}
        said = await ask_paid(question.budget, question.caller, model, question.messages, quiet)
        origin = UsageOrigin(question.who.user_id, datetime.now(UTC), question.thread_id, question.run_id)
        await self.note(origin, question.caller, name_of(model, said), counts_of(said))
        return said

    async def model_of(self, thread_id: str, who: Principal) -> str | None:
        """The model that answered last in a thread; None when it was the default, or there is none yet."""
        query = partial(list_runs, thread_id=thread_id, owner=who.user_id, limit=1, offset=0)
        latest: Sequence[RunRecord] = await self.database.read(query)
        if not latest:
            return None
        found = await self.database.read(partial(read_claimed, run_id=latest[0].run_id))
        name = (found.request.get("agent") or {}).get("model_name")
        return str(name) if name else None

"""Model calls outside of runs: bounded in time, and never an error for the caller."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from deerflow.agent_support.model_failures import get_model_name
from deerflow.agent_support.replies import strip_reasoning
from deerflow.budget.model_calls import ask_within_budget
from deerflow.domain.identity import Principal
from deerflow.domain.runs import RunRecord
from deerflow.domain.usage import BudgetSpent, ModelBudget, TokenCounts, UsageOrigin
from deerflow.models.usage import read_counts
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.runs import list_runs, read_claimed_run

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

logger = logging.getLogger(__name__)

LAST_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class SideRequest:
    """Request to a model, with its owner, time limit and budget."""

    caller: str
    messages: Sequence[BaseMessage]
    model_name: str | None
    timeout_s: float
    who: Principal
    thread_id: str | None = None
    run_id: str | None = None
    budget: ModelBudget | None = None
    """Budget of the run that the call is charged to; None means no limit."""


@dataclass(frozen=True, slots=True)
class SideResponse:
    """Response of the model, or the reason why there is none; `is_unpaid`: the budget did not allow it."""

    text: str
    reason: str | None = None
    is_unpaid: bool = False


@dataclass(frozen=True, slots=True)
class SideCalls:
    """Calls models outside of runs."""

    database: Database
    model: "Callable[[str | None, str], BaseChatModel]"
    """Returns the model of that name, or the default, for a user."""
    note: Callable[[UsageOrigin, str, str, TokenCounts], Awaitable[None]]
    """Keeps what a call took."""
    charge: Callable[[str, ModelBudget | None], Awaitable[ModelBudget | None]]
    """Returns the budget of a call of a person, with their quota if they have one."""

    async def ask(self, question: SideRequest) -> SideResponse:
        """Return the response of the model; if it fails or takes too long, the reason."""
        asking = asyncio.create_task(self._ask(question), name=question.caller)
        try:
            done, _ = await asyncio.wait({asking}, timeout=question.timeout_s)
        finally:
            asking.cancel()
        if not done:
            await asyncio.wait({asking}, timeout=LAST_GRACE_S)
            return SideResponse("", f"the model took longer than {question.timeout_s:g} s")
        problem = asking.exception()
        if isinstance(problem, BudgetSpent):
            return SideResponse("", str(problem), is_unpaid=True)
        if problem is not None:
            logger.warning("%s failed: %s", question.caller, problem)
            return SideResponse("", f"the model failed: {type(problem).__name__}")
        said = strip_reasoning(asking.result().text).strip()
        return SideResponse(said, None if said else "the model said nothing")

    async def _ask(self, question: SideRequest) -> AIMessage:
        # The first use of a model may import its vendor's library.
        model = await asyncio.to_thread(self.model, question.model_name, question.who.user_id)
        quiet: RunnableConfig = {"tags": ["nostream"]}
        budget = await self.charge(question.who.user_id, question.budget)
        said = await ask_within_budget(budget, question.caller, model, question.messages, quiet)
        origin = UsageOrigin(question.who.user_id, datetime.now(UTC), question.thread_id, question.run_id)
        await self.note(origin, question.caller, get_model_name(model, said), read_counts(said))
        return said

    async def model_of(self, thread_id: str, who: Principal) -> str | None:
        """Return the model that answered last in a thread, or None for the default."""
        query = partial(list_runs, thread_id=thread_id, owner=who.user_id, limit=1, offset=0)
        latest: Sequence[RunRecord] = await self.database.read(query)
        if not latest:
            return None
        found = await self.database.read(partial(read_claimed_run, run_id=latest[0].run_id))
        name = (found.request.get("agent") or {}).get("model_name")
        return str(name) if name else None

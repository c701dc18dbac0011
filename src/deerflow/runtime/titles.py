"""Titles that a model thinks of, once the first answer is there."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from deerflow.agents.graph import AgentGraph
from deerflow.agents.metering import name_of
from deerflow.agents.middlewares.replies import NOTES, is_from_a_person
from deerflow.agents.middlewares.title_middleware import write_title
from deerflow.config.title import TitleConfig
from deerflow.domain.budget import Budget
from deerflow.domain.runs import RunRecord
from deerflow.domain.usage import TITLE, TokenCounts, UsageOrigin
from deerflow.models.counting import counts_of
from deerflow.persistence.database import Database
from deerflow.persistence.threads import rename_thread
from deerflow.runtime.states import config_of


@dataclass(frozen=True, slots=True)
class Namer:
    """Gives a thread a better name than its first words, where a model is configured for it."""

    database: Database
    graph: AgentGraph
    settings: Callable[[], TitleConfig]
    model: Callable[[str], BaseChatModel]
    """The model of that name."""
    note: Callable[[UsageOrigin, str, str, TokenCounts], Awaitable[None]]
    """Keeps what a call took: whose it was, what for, by which model."""

    async def name(self, run: RunRecord, budget: Budget | None = None) -> None:
        """Name the thread of `run` if its first exchange has just ended, with what is left of the run's budget."""
        settings = self.settings()
        if not settings.enabled or settings.model_name is None:
            return
        messages = (await self.graph.aget_state(config_of(run.thread_id))).values.get("messages", [])
        asked = [message.text for message in messages if is_from_a_person(message)]
        answers = [message.text for message in messages if isinstance(message, AIMessage) and message.text]
        is_shortened = any(NOTES in message.additional_kwargs for message in messages)
        if len(asked) != 1 or not answers or is_shortened:
            return
        model = self.model(settings.model_name)
        title = await write_title(model, asked[0], answers[-1], settings, partial(self._note, run, model), budget)
        await self.database.write(partial(rename_thread, thread_id=run.thread_id, owner=run.owner, title=title))

    async def _note(self, run: RunRecord, model: BaseChatModel, said: AIMessage) -> None:
        """Have what the title took be counted with the run it names the thread after."""
        origin = UsageOrigin(run.owner, datetime.now(UTC), run.thread_id, run.run_id)
        await self.note(origin, TITLE, name_of(model, said), counts_of(said))

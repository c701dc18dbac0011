"""Titles that a model thinks of, once the first answer is there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from deerflow.agents.factory import AgentGraph
from deerflow.agents.middlewares.replies import is_from_a_person
from deerflow.agents.middlewares.title_middleware import write_title
from deerflow.config.title import TitleConfig
from deerflow.domain.runs import RunRecord
from deerflow.persistence.database import Database
from deerflow.persistence.threads import rename_thread
from deerflow.runtime.threads import config_of


@dataclass(frozen=True, slots=True)
class Namer:
    """Gives a thread a better name than its first words, where a model is configured for it."""

    database: Database
    graph: AgentGraph
    settings: Callable[[], TitleConfig]
    model: Callable[[str], BaseChatModel]
    """The model of that name."""

    async def name(self, run: RunRecord) -> None:
        """Name the thread of `run` if its first exchange has just ended."""
        settings = self.settings()
        if not settings.enabled or settings.model_name is None:
            return
        messages = (await self.graph.aget_state(config_of(run.thread_id))).values.get("messages", [])
        asked = [message.text for message in messages if is_from_a_person(message)]
        answers = [message.text for message in messages if isinstance(message, AIMessage) and message.text]
        if len(asked) != 1 or not answers:
            return
        title = await write_title(self.model(settings.model_name), asked[0], answers[-1], settings)
        await self.database.write(partial(rename_thread, thread_id=run.thread_id, owner=run.owner, title=title))

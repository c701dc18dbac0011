"""Follow-up questions that somebody may want to ask after an answer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import Template

import orjson
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from deerflow.agents.graph import AgentGraph
from deerflow.agents.middlewares.replies import is_from_a_person
from deerflow.config.suggestions import SuggestionsConfig
from deerflow.domain.principal import Principal
from deerflow.domain.usage import SUGGESTIONS
from deerflow.persistence.threads import find_thread
from deerflow.runtime.side_calls import SideCalls, SideQuestion
from deerflow.runtime.states import config_of

READ_MESSAGES = 6
READ_CHARS = 2000
"""How much of the end of a conversation is read, and how much of each message."""
LONGEST = 200


@dataclass(frozen=True, slots=True)
class Suggested:
    """Follow-up questions, or why there are none."""

    suggestions: Sequence[str]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Thinks of follow-up questions."""

    calls: SideCalls
    graph: AgentGraph
    settings: Callable[[], SuggestionsConfig]

    async def suggest(
        self,
        thread_id: str,
        who: Principal,
        count: int,
        said: Sequence[Mapping[str, str]] | None = None,
        model_name: str | None = None,
    ) -> Suggested:
        """At most `count` questions; `said` in place of what the thread holds. A model that fails makes for none.

        Raises:
            NotFound: there is no such thread.
        """
        await self.calls.database.read(partial(find_thread, thread_id=thread_id, owner=who.user_id))
        settings = self.settings()
        if not settings.enabled:
            return Suggested((), "suggestions are switched off")
        conversation = "\n\n".join(self._given(said) if said is not None else await self._held(thread_id))
        if not conversation:
            return Suggested((), "nothing has been said yet")
        wanted = min(count, settings.max_suggestions)
        words = Template(Path(__file__).with_suffix(".md").read_text(encoding="utf-8")).substitute(count=wanted)
        name = model_name or settings.model_name or await self.calls.model_of(thread_id, who)
        messages = [SystemMessage(words), HumanMessage(conversation)]
        answer = await self.calls.ask(
            SideQuestion(SUGGESTIONS, messages, name, settings.timeout_seconds, who, thread_id)
        )
        found = read_suggestions(answer.text)[:wanted]
        return Suggested(found, answer.reason or (None if found else "the model gave no list of questions"))

    def _given(self, said: Sequence[Mapping[str, str]]) -> Iterator[str]:
        for message in said[-READ_MESSAGES:]:
            yield f"{message['role']}: {message['content'][:READ_CHARS]}"

    async def _held(self, thread_id: str) -> list[str]:
        messages = (await self.graph.aget_state(config_of(thread_id))).values.get("messages", [])
        told = [message for message in messages if is_from_a_person(message) or is_answer(message)]
        return [
            f"{'person' if is_from_a_person(message) else 'assistant'}: {message.text[:READ_CHARS]}"
            for message in told[-READ_MESSAGES:]
        ]


def is_answer(message: BaseMessage) -> bool:
    """Whether the agent says something in it."""
    return isinstance(message, AIMessage) and bool(message.text.strip())


def read_suggestions(text: str) -> list[str]:
    """The questions in a model's answer, which is a JSON array, perhaps with a few words around it; else none."""
    start, end = text.find("["), text.rfind("]")
    if start < 0 or end < start:
        return []
    try:
        found = orjson.loads(text[start : end + 1])
    except orjson.JSONDecodeError:
        return []
    lines = (" ".join(each.split()) for each in found if isinstance(each, str))
    return list(dict.fromkeys(line for line in lines if 0 < len(line) <= LONGEST))

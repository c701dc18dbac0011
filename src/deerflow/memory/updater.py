"""Has a model read what was said, and find what is worth remembering."""

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from deerflow.domain.learning import Heard, Lesson, Signs
from deerflow.domain.memory import MemoryState
from deerflow.memory.revision import NotUnderstood, Update, is_current, read_update

logger = logging.getLogger(__name__)

SPEAKERS = {"human": "user", "ai": "assistant"}
SHOWN_FACTS = 200
"""A model is shown so many of the facts that are known, the surest first."""
CORRECTED = "The user corrected the assistant here: find out what was wrong, and keep it as a `correction`."
APPROVED = "The user approved of how something was done here: if it holds beyond this task, keep how they want it."


@dataclass(frozen=True, slots=True)
class MemoryQuestion:
    """What a model is asked about a conversation, and on whose behalf."""

    owner: str
    thread_id: str
    instructions: str
    conversation: str


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """What it said, or why it said nothing."""

    text: str
    reason: str | None = None


Ask = Callable[[MemoryQuestion], Awaitable[MemoryAnswer]]


class ModelSilent(Exception):
    """The model could not be asked; it may be asked again later."""


class MemoryUpdater:
    """Reads what was said, by a model."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._instructions = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip()

    async def understand(self, lesson: Lesson, state: MemoryState, now: datetime) -> Update | None:
        """What is worth remembering of `lesson`; None when the model makes no sense, twice.

        Raises:
            ModelSilent: the model failed or took too long.
        """
        conversation = describe(state, lesson.messages, lesson.signs, now)
        said = await self._say(lesson, conversation)
        try:
            return read_update(said)
        except NotUnderstood as problem:
            again = f"{conversation}\n\n{repair_words(said, problem)}"
        try:
            return read_update(await self._say(lesson, again))
        except NotUnderstood as problem:
            # Not what it said: that quotes the conversation.
            logger.warning("nothing is remembered of thread %s: the model's answer: %s", lesson.thread_id, problem)
            return None

    async def _say(self, lesson: Lesson, conversation: str) -> str:
        question = MemoryQuestion(lesson.scope.owner, lesson.thread_id, self._instructions, conversation)
        answer = await self._ask(question)
        if answer.reason is not None:
            raise ModelSilent(answer.reason)
        return answer.text


def describe(state: MemoryState, messages: Sequence[Heard], signs: Signs, now: datetime) -> str:
    """What the model reads: what is known, and what was newly said."""
    current = sorted(
        (fact for fact in state.facts if is_current(fact, now)), key=lambda fact: fact.confidence, reverse=True
    )
    facts = [
        {"id": fact.id, "category": fact.category, "confidence": fact.confidence, "content": fact.content}
        for fact in current[:SHOWN_FACTS]
    ]
    known = {"summaries": {key: kept.summary for key, kept in state.summaries.items()}, "facts": facts}
    hints = [CORRECTED] * signs.correction + [APPROVED] * signs.reinforcement
    # As JSON, so that nothing anybody says can pass for a part of the question.
    told = [
        {"message": number, "from": SPEAKERS[message.role], "text": message.text}
        for number, message in enumerate(messages, start=1)
    ]
    parts = [f"# Known\n\n{_written(known)}", f"# Newly said\n\n{_written(told)}", *hints]
    return "\n\n".join(parts)


def repair_words(said: str, problem: NotUnderstood) -> str:
    """What a model is told whose answer could not be read."""
    return (
        f"Your last answer could not be read: {problem}. It began with {said[:200]!r}. "
        "Answer again with the JSON object alone."
    )


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)

"""Has a model read what was said, and find what is worth remembering."""

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from deerflow.domain.budget import Budget, BudgetSpent
from deerflow.domain.learning import Lesson
from deerflow.domain.memory import MemoryState
from deerflow.memory.revision import NotUnderstood, Update, is_current, read_update

logger = logging.getLogger(__name__)

SPEAKERS = {"human": "user", "ai": "assistant"}
SHOWN_FACTS = 200
"""A model is shown so many of the facts that are known, the surest first."""
USABLE = 0.9
"""The part of a model's window that is filled; the rest is for what vendors add."""
ANSWER_TOKENS = 1500
LEAST_ROOM = 1000
AROUND_TOKENS = 30
"""What each message and each fact takes besides its text."""
CORRECTED = "The user corrected the assistant here: find out what was wrong, and keep it as a `correction`."
APPROVED = "The user approved of how something was done here: if it holds beyond this task, keep how they want it."


@dataclass(frozen=True, slots=True)
class MemoryQuestion:
    """What a model is asked about a conversation, and on whose behalf."""

    owner: str
    thread_id: str
    instructions: str
    conversation: str
    run_id: str | None = None
    budget: Budget | None = None
    """What pays for it: the budget of that run; None: nobody minds."""


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """What it said, or why it said nothing; `is_unpaid`: it was not asked, nobody pays for it."""

    text: str
    reason: str | None = None
    is_unpaid: bool = False


Ask = Callable[[MemoryQuestion], Awaitable[MemoryAnswer]]


@dataclass(frozen=True, slots=True)
class Reader:
    """How much the model that learns can read at once."""

    window: Callable[[Budget | None], int | None]
    """Its window in tokens, or as much of it as a budget pays for; None when that is not known."""
    tokens: Callable[[str], int]
    """What a text takes of it."""

    def room_beside(self, text: str, budget: Budget | None) -> int | None:
        """What is left beside `text` and an answer; None when that is not known.

        Raises:
            BudgetSpent: So little is paid for that there is no use in reading it.
            ConfigError: Nobody knows what the model costs.
        """
        window = self.window(budget)
        if window is None:
            return None
        room = int(window * USABLE) - ANSWER_TOKENS - self.tokens(text)
        if budget is not None and room < LEAST_ROOM and window != self.window(None):
            raise BudgetSpent("what is left of the budget of the last run does not pay for it")
        return max(0, room)

    def fitting(self, texts: Iterable[str], room: int) -> Iterator[str]:
        """As many texts as there is room for."""
        for text in texts:
            room -= self.tokens(text) + AROUND_TOKENS
            if room < 0:
                return
            yield text


class ModelSilent(Exception):
    """The model could not be asked; it may be asked again later."""


class MemoryUpdater:
    """Reads what was said, by a model."""

    def __init__(self, ask: Ask, reader: Reader) -> None:
        self._ask = ask
        self._reader = reader
        self._instructions = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip()

    def as_much_as_fits(self, lesson: Lesson, budget: Budget | None = None) -> Lesson:
        """As much of `lesson` as the model can read beside what it is told; the rest stays to be learned.

        Raises:
            BudgetSpent: So little is paid for that there is no use in reading it.
            ConfigError: Nobody knows what the model costs.
        """
        room = self._reader.room_beside(self._instructions, budget)
        if room is None:
            return lesson
        room -= room // 3  # for what is known
        texts = list(self._reader.fitting((message.text for message in lesson.messages), room))
        if texts:
            return replace(lesson, messages=lesson.messages[: len(texts)])
        first = lesson.messages[0]  # too long by itself: its beginning has to do
        share = max(0, room - AROUND_TOKENS) / self._reader.tokens(first.text)
        return replace(lesson, messages=[replace(first, text=first.text[: int(len(first.text) * share)])])

    async def understand(
        self, lesson: Lesson, state: MemoryState, now: datetime, budget: Budget | None = None
    ) -> Update | None:
        """What is worth remembering of `lesson`; None when the model makes no sense, twice.

        Raises:
            ModelSilent: the model failed or took too long.
            BudgetSpent: `budget` does not pay for it.
        """
        conversation = "\n\n".join([f"# Known\n\n{self._known(state, now, budget)}", *newly_said(lesson)])
        said = await self._say(lesson, conversation, budget)
        try:
            return read_update(said)
        except NotUnderstood as problem:
            again = f"{conversation}\n\n{repair_words(said, problem)}"
        try:
            return read_update(await self._say(lesson, again, budget))
        except NotUnderstood as problem:
            # Not what it said: that quotes the conversation.
            logger.warning("nothing is remembered of thread %s: the model's answer: %s", lesson.thread_id, problem)
            return None

    def _known(self, state: MemoryState, now: datetime, budget: Budget | None) -> str:
        """What the model reads of what is known: the surest first."""
        summaries = {key: kept.summary for key, kept in state.summaries.items()}
        current = sorted(
            (fact for fact in state.facts if is_current(fact, now)), key=lambda fact: fact.confidence, reverse=True
        )[:SHOWN_FACTS]
        room = self._reader.room_beside(self._instructions, budget)
        if room is not None:
            rest = room // 3 - self._reader.tokens(_written(summaries))
            current = current[: len(list(self._reader.fitting((fact.content for fact in current), rest)))]
        facts = [
            {"id": fact.id, "category": fact.category, "confidence": fact.confidence, "content": fact.content}
            for fact in current
        ]
        return _written({"summaries": summaries, "facts": facts})

    async def _say(self, lesson: Lesson, conversation: str, budget: Budget | None) -> str:
        run_id = lesson.payer.run_id if lesson.payer is not None else None
        about = lesson.scope.owner, lesson.thread_id
        answer = await self._ask(MemoryQuestion(*about, self._instructions, conversation, run_id, budget))
        if answer.is_unpaid:
            raise BudgetSpent(answer.reason)
        if answer.reason is not None:
            raise ModelSilent(answer.reason)
        return answer.text


def newly_said(lesson: Lesson) -> Iterator[str]:
    """What the model reads of a conversation, and what to look out for in it."""
    # As JSON, so that nothing anybody says can pass for a part of the question.
    told = [
        {"message": number, "from": SPEAKERS[message.role], "text": message.text}
        for number, message in enumerate(lesson.messages, start=1)
    ]
    yield f"# Newly said\n\n{_written(told)}"
    yield from [CORRECTED] * lesson.signs.correction + [APPROVED] * lesson.signs.reinforcement


def repair_words(said: str, problem: NotUnderstood) -> str:
    """What a model is told whose answer could not be read."""
    return (
        f"Your last answer could not be read: {problem}. It began with {said[:200]!r}. "
        "Answer again with the JSON object alone."
    )


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)

"""How much a model that learns is given to read."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from deerflow.agents.middlewares.tokens import text_tokens
from deerflow.config.source import open_source
from deerflow.domain.budget import BudgetSpent, SpendingLimit
from deerflow.domain.learning import Heard, Lesson, Signs
from deerflow.domain.memory import MemoryState
from deerflow.harness import open_harness
from deerflow.harness.learning import window_of
from deerflow.memory.ledger import Ledger
from deerflow.memory.updater import MemoryAnswer, MemoryQuestion, MemoryUpdater, Reader
from deerflow.persistence import memory_pending as rows
from deerflow.runtime.runs.budget import BookedBudget, Purse
from tests.memory.answers import learned
from tests.memory.notes import fact
from tests.memory.test_pending import LEASE, MINE, NOW, WAIT, begin
from tests.runtime.test_shared_budget import Notebook

WINDOW = 8000


@dataclass
class Asked:
    """A model that notes what it is asked and learns nothing."""

    questions: list[MemoryQuestion] = field(default_factory=list)

    async def __call__(self, question: MemoryQuestion) -> MemoryAnswer:
        self.questions.append(question)
        return MemoryAnswer(learned())

    def most_tokens(self) -> int:
        return max(text_tokens(each.instructions) + text_tokens(each.conversation) for each in self.questions)


def updater(asked: Asked, window: int | None = WINDOW) -> MemoryUpdater:
    return MemoryUpdater(asked, Reader(lambda budget: window, text_tokens))


def lesson_of(texts: Sequence[str]) -> Lesson:
    messages = [Heard(f"m{number}", "human", text) for number, text in enumerate(texts)]
    return Lesson(MINE, "t", messages, Signs(), NOW + WAIT)


async def test_a_long_conversation_is_read_in_parts_that_fit_a_small_window_and_none_is_left_out(
    ledger: Ledger,
) -> None:
    texts = [f"{number}: " + "what was said " * 80 for number in range(60)]
    await begin(ledger)
    await ledger.database.write(partial(rows.add_lesson, lesson=lesson_of(texts), wait=WAIT))
    asked, read = Asked(), list[str]()
    learner, state = updater(asked), await ledger.state(MINE)
    claim = partial(rows.claim_lesson, now=NOW + WAIT, claim="a", lease=LEASE)
    while waiting := await ledger.database.write(claim):
        part = learner.as_much_as_fits(waiting)
        assert await learner.understand(part, state, NOW) is not None
        read += [message.text for message in part.messages]
        finish = partial(rows.finish_lesson, lesson=part, edits=lambda _: [], now=NOW)
        assert await ledger.database.write(finish) is not None
    assert read == texts and len(asked.questions) > 2
    assert asked.most_tokens() <= WINDOW * 0.9 - 1000


async def test_many_facts_leave_room_for_what_was_said() -> None:
    known = tuple(fact(f"Fact {number}: " + "a long story " * 30) for number in range(190))
    asked, state = Asked(), MemoryState(facts=known)
    part = updater(asked).as_much_as_fits(lesson_of(["what was said " * 80] * 60))
    assert len(part.messages) > 2
    assert await updater(asked).understand(part, state, NOW) is not None
    assert "Fact " in asked.questions[0].conversation and asked.most_tokens() <= WINDOW * 0.9 - 1000


async def test_of_one_message_that_does_not_fit_the_beginning_is_read() -> None:
    asked = Asked()
    part = updater(asked).as_much_as_fits(lesson_of(["好" * 30_000, "short"]))
    assert [message.message_id for message in part.messages] == ["m0"]
    assert 0 < len(part.messages[0].text) < 10_000
    await updater(asked).understand(part, MemoryState(), NOW)
    assert asked.most_tokens() <= WINDOW * 0.9 - 1000


def test_where_the_window_is_not_known_all_is_read_at_once() -> None:
    whole = lesson_of(["what was said " * 80] * 30)
    assert updater(Asked(), None).as_much_as_fits(whole) is whole


@pytest.mark.parametrize(
    ("tokens", "window", "is_paid"), [(30_000, None, True), (30_000, 6000, True), (9000, None, False)]
)
async def test_as_much_is_read_as_is_paid_for_and_nothing_where_that_is_too_little(
    tmp_path: Path, tokens: int, window: int | None, is_paid: bool
) -> None:
    model = {"name": "m", "use": "deerflow.testing:ScriptedModel", "model": "m", "context_window": window}
    source = open_source(directory=tmp_path, environment={}, overrides={"models": [model]})
    asked, whole = Asked(), lesson_of([f"{number}: " + "what was said " * 80 for number in range(30)])
    async with open_harness(source) as harness:
        learner = MemoryUpdater(asked, Reader(partial(window_of, source, harness.agents), text_tokens))
        pays = BookedBudget(SpendingLimit(tokens), Purse(), dict, Notebook())
        if tokens == 9000:
            with pytest.raises(BudgetSpent, match="of the last run does not pay"):
                learner.as_much_as_fits(whole, pays)
            return
        part = learner.as_much_as_fits(whole, pays)
        await learner.understand(part, MemoryState(), NOW, pays)
    assert 0 < len(part.messages) < 30 and asked.questions[0].budget is pays
    bytes_read = len((asked.questions[0].instructions + asked.questions[0].conversation).encode())
    assert bytes_read + 4096 < tokens

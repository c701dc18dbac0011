"""Size of the prompts for the extraction model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from deerflow.agent_support.tokens import count_text_tokens
from deerflow.budget.account import Account, BudgetTracker
from deerflow.config.source import open_source
from deerflow.domain.memory import ConversationMessage, FeedbackSignals, MemoryState, PendingExtraction
from deerflow.domain.usage import BudgetSpent, SpendingLimit
from deerflow.harness import open_harness
from deerflow.harness.memory import context_window
from deerflow.memory.ledger import Ledger
from deerflow.memory.queries import pending as rows
from deerflow.memory.updater import ContextWindow, ExtractionRequest, ExtractionResponse, MemoryUpdater
from tests.budget.support import MemoryReservationLog
from tests.memory.support import LEASE, LOCAL_SCOPE, NOW, WAIT, build_extraction_output, create_thread, make_fact

WINDOW = 8000


@dataclass
class RecordingModel:
    """A model that records its requests and extracts nothing."""

    questions: list[ExtractionRequest] = field(default_factory=list)

    async def __call__(self, question: ExtractionRequest) -> ExtractionResponse:
        self.questions.append(question)
        return ExtractionResponse(build_extraction_output())

    def most_tokens(self) -> int:
        return max(
            count_text_tokens(each.instructions) + count_text_tokens(each.conversation) for each in self.questions
        )


def create_updater(asked: RecordingModel, window: int | None = WINDOW) -> MemoryUpdater:
    return MemoryUpdater(asked, ContextWindow(lambda budget: window, count_text_tokens))


def build_extraction(texts: Sequence[str]) -> PendingExtraction:
    messages = [ConversationMessage(f"m{number}", "human", text) for number, text in enumerate(texts)]
    return PendingExtraction(LOCAL_SCOPE, "t", messages, FeedbackSignals(), NOW + WAIT)


async def test_splits_a_conversation_to_fit_a_small_window(
    ledger: Ledger,
) -> None:
    texts = [f"{number}: " + "what was said " * 80 for number in range(60)]
    await create_thread(ledger)
    await ledger.database.write(partial(rows.add_pending, extraction=build_extraction(texts), wait=WAIT))
    asked, read = RecordingModel(), list[str]()
    learner, state = create_updater(asked), await ledger.read_state(LOCAL_SCOPE)
    claim = partial(rows.claim_due, now=NOW + WAIT, claim="a", lease=LEASE)
    while waiting := await ledger.database.write(claim):
        part = learner.fit(waiting)
        assert await learner.extract(part, state, NOW) is not None
        read += [message.text for message in part.messages]
        finish = partial(rows.finish_extraction, extraction=part, edits=lambda _: [], now=NOW)
        assert await ledger.database.write(finish) is not None
    assert read == texts and len(asked.questions) > 2
    assert asked.most_tokens() <= WINDOW * 0.9 - 1000


async def test_known_facts_leave_room_for_the_conversation() -> None:
    known = tuple(make_fact(f"Fact {number}: " + "a long story " * 30) for number in range(190))
    asked, state = RecordingModel(), MemoryState(facts=known)
    part = create_updater(asked).fit(build_extraction(["what was said " * 80] * 60))
    assert len(part.messages) > 2
    assert await create_updater(asked).extract(part, state, NOW) is not None
    assert "Fact " in asked.questions[0].conversation and asked.most_tokens() <= WINDOW * 0.9 - 1000


async def test_truncates_a_message_that_does_not_fit() -> None:
    asked = RecordingModel()
    part = create_updater(asked).fit(build_extraction(["好" * 30_000, "short"]))
    assert [message.message_id for message in part.messages] == ["m0"]
    assert 0 < len(part.messages[0].text) < 10_000
    await create_updater(asked).extract(part, MemoryState(), NOW)
    assert asked.most_tokens() <= WINDOW * 0.9 - 1000


def test_does_not_split_when_the_window_is_unknown() -> None:
    whole = build_extraction(["what was said " * 80] * 30)
    assert create_updater(RecordingModel(), None).fit(whole) is whole


@pytest.mark.parametrize(
    ("tokens", "window", "is_paid"), [(30_000, None, True), (30_000, 6000, True), (9000, None, False)]
)
async def test_fits_the_conversation_to_the_budget(
    tmp_path: Path, tokens: int, window: int | None, is_paid: bool
) -> None:
    model = {"name": "m", "use": "deerflow.testing:ScriptedModel", "model": "m", "context_window": window}
    source = open_source(directory=tmp_path, environment={}, overrides={"models": [model]})
    asked, whole = RecordingModel(), build_extraction([f"{number}: " + "what was said " * 80 for number in range(30)])
    async with open_harness(source) as harness:
        learner = MemoryUpdater(
            asked,
            ContextWindow(
                partial(context_window, source.settings(lambda loaded: loaded.config.memory), harness.core.agents),
                count_text_tokens,
            ),
        )
        pays = BudgetTracker(SpendingLimit(tokens), Account(), dict, MemoryReservationLog())
        if tokens == 9000:
            with pytest.raises(BudgetSpent, match="remaining budget of the last run is too small"):
                learner.fit(whole, pays)
            return
        part = learner.fit(whole, pays)
        await learner.extract(part, MemoryState(), NOW, pays)
    assert 0 < len(part.messages) < 30 and asked.questions[0].budget is pays
    bytes_read = len((asked.questions[0].instructions + asked.questions[0].conversation).encode())
    assert bytes_read + 4096 < tokens

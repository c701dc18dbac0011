"""Extraction of facts from a conversation by a model."""

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from deerflow.domain.memory import MemoryState, PendingExtraction
from deerflow.domain.usage import BudgetSpent, ModelBudget
from deerflow.memory.extraction import InvalidModelOutput, MemoryUpdate, is_current, parse_update

logger = logging.getLogger(__name__)

ROLE_NAMES = {"human": "user", "ai": "assistant"}
MAX_SHOWN_FACTS = 200
"""Maximum number of known facts in the prompt, highest confidence first."""
USABLE_SHARE = 0.9
"""Share of the context window that is used; the rest is for what vendors add."""
ANSWER_TOKENS = 1500
MIN_ROOM_TOKENS = 1000
OVERHEAD_TOKENS = 30
"""Tokens of each message and fact besides its text."""
CORRECTION_HINT = "The user corrected the assistant here: find out what was wrong, and keep it as a `correction`."
APPROVAL_HINT = "The user approved of how something was done here: if it holds beyond this task, keep how they want it."


@dataclass(frozen=True, slots=True)
class ExtractionRequest:
    """Prompt for the model, and the user and run it is for."""

    owner: str
    thread_id: str
    instructions: str
    conversation: str
    run_id: str | None = None
    budget: ModelBudget | None = None
    """Budget of the run that pays for the call; None: unlimited."""


@dataclass(frozen=True, slots=True)
class ExtractionResponse:
    """Output of the model, or the reason of a failure; `is_over_budget`: the model was not called."""

    text: str
    reason: str | None = None
    is_over_budget: bool = False


AskModel = Callable[[ExtractionRequest], Awaitable[ExtractionResponse]]


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """Context window of the model that extracts."""

    find_window: Callable[[ModelBudget | None], int | None]
    """Returns the window in tokens, or what a budget pays for; None when it is not known."""
    count_tokens: Callable[[str], int]
    """Returns the tokens of a text."""

    def count_room(self, text: str, budget: ModelBudget | None) -> int | None:
        """Return the tokens left besides `text` and an answer; None when the window is not known.

        Raises:
            BudgetSpent: The budget leaves too little room.
            ConfigError: The price of the model is not known.
        """
        window = self.find_window(budget)
        if window is None:
            return None
        room = int(window * USABLE_SHARE) - ANSWER_TOKENS - self.count_tokens(text)
        if budget is not None and room < MIN_ROOM_TOKENS and window != self.find_window(None):
            raise BudgetSpent("the remaining budget of the last run is too small for memory extraction")
        return max(0, room)

    def select_fitting(self, texts: Iterable[str], room: int) -> Iterator[str]:
        """Yield texts until the room is used up."""
        for text in texts:
            room -= self.count_tokens(text) + OVERHEAD_TOKENS
            if room < 0:
                return
            yield text


class ExtractionUnavailable(Exception):
    """The model could not be called; the extraction can be retried later."""


class MemoryUpdater:
    """Extractor that calls a model."""

    def __init__(self, ask: AskModel, window: ContextWindow) -> None:
        self._ask = ask
        self._window = window
        self._instructions = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip()

    def fit(self, extraction: PendingExtraction, budget: ModelBudget | None = None) -> PendingExtraction:
        """Return the extraction with as many messages as fit into the context window; the rest stays pending.

        Raises:
            BudgetSpent: The budget leaves too little room.
            ConfigError: The price of the model is not known.
        """
        room = self._window.count_room(self._instructions, budget)
        if room is None:
            return extraction
        room -= room // 3  # reserved for known facts
        texts = list(self._window.select_fitting((message.text for message in extraction.messages), room))
        if texts:
            return replace(extraction, messages=extraction.messages[: len(texts)])
        first = extraction.messages[0]  # too long on its own: truncate it
        share = max(0, room - OVERHEAD_TOKENS) / self._window.count_tokens(first.text)
        return replace(extraction, messages=[replace(first, text=first.text[: int(len(first.text) * share)])])

    async def extract(
        self, extraction: PendingExtraction, state: MemoryState, now: datetime, budget: ModelBudget | None = None
    ) -> MemoryUpdate | None:
        """Return the update that the model extracts from the messages; None when its output is invalid twice.

        Raises:
            ModelUnavailable: The model failed or timed out.
            BudgetSpent: `budget` does not pay for the call.
        """
        conversation = "\n\n".join(
            [f"# Known\n\n{self._render_known(state, now, budget)}", *render_conversation(extraction)]
        )
        output = await self._ask_model(extraction, conversation, budget)
        try:
            return parse_update(output)
        except InvalidModelOutput as problem:
            again = f"{conversation}\n\n{build_repair_prompt(output, problem)}"
        try:
            return parse_update(await self._ask_model(extraction, again, budget))
        except InvalidModelOutput as problem:
            # The output itself is not logged: it quotes the conversation.
            logger.warning(
                "no memory extracted from thread %s: invalid model output: %s", extraction.thread_id, problem
            )
            return None

    def _render_known(self, state: MemoryState, now: datetime, budget: ModelBudget | None) -> str:
        """Return known summaries and facts as JSON, highest confidence first."""
        summaries = {key: kept.summary for key, kept in state.summaries.items()}
        current = sorted(
            (fact for fact in state.facts if is_current(fact, now)), key=lambda fact: fact.confidence, reverse=True
        )[:MAX_SHOWN_FACTS]
        room = self._window.count_room(self._instructions, budget)
        if room is not None:
            rest = room // 3 - self._window.count_tokens(_to_json(summaries))
            current = current[: len(list(self._window.select_fitting((fact.content for fact in current), rest)))]
        facts = [
            {"id": fact.id, "category": fact.category, "confidence": fact.confidence, "content": fact.content}
            for fact in current
        ]
        return _to_json({"summaries": summaries, "facts": facts})

    async def _ask_model(self, extraction: PendingExtraction, conversation: str, budget: ModelBudget | None) -> str:
        run_id = extraction.payer.run_id if extraction.payer is not None else None
        about = extraction.scope.owner, extraction.thread_id
        answer = await self._ask(ExtractionRequest(*about, self._instructions, conversation, run_id, budget))
        if answer.is_over_budget:
            raise BudgetSpent(answer.reason)
        if answer.reason is not None:
            raise ExtractionUnavailable(answer.reason)
        return answer.text


def render_conversation(extraction: PendingExtraction) -> Iterator[str]:
    """Yield the parts of the prompt that hold the conversation and the feedback hints."""
    # As JSON, so that no message can pass for a part of the prompt.
    messages = [
        {"message": number, "from": ROLE_NAMES[message.role], "text": message.text}
        for number, message in enumerate(extraction.messages, start=1)
    ]
    yield f"# Newly said\n\n{_to_json(messages)}"
    yield from [CORRECTION_HINT] * extraction.signals.correction + [APPROVAL_HINT] * extraction.signals.reinforcement


def build_repair_prompt(output: str, problem: InvalidModelOutput) -> str:
    """Return the prompt after an output that could not be parsed."""
    return (
        f"Your last answer could not be read: {problem}. It began with {output[:200]!r}. "
        "Answer again with the JSON object alone."
    )


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)

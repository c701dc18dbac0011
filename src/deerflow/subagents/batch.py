"""The same done for many items: side by side, each with one outcome, also when the process dies in between."""

import asyncio
import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.subagents import BatchOrder, ItemOutcome, Keep, TaskJournal, TaskOrder, TaskOutcome, item_task

PLACE = re.compile(r"\{([^{}\n]{1,100})\}")
"""Where something of an item goes; columns of real tables have blanks and dots in their names."""
ITEM = "item"
WORTH_ANOTHER_TRY = ("failed", "timed_out")
OUT_OF_BUDGET = "token_capped"
PACE_S = 0.5
"""How often readers are told how far a batch has come."""
KEPT_CHARS = 20_000
"""How much of an answer is kept."""
MAX_PROMPT_CHARS = 1_000_000
"""No model reads more at once; items and templates multiply, and would be held in memory before one says so."""

KEEP_LIMIT_S = 1.0
"""How long a batch that is stopped may take to save what it has."""

Do = Callable[[TaskOrder], Awaitable[TaskOutcome]]


@dataclass(slots=True)
class Batch:
    """A batch under way."""

    order: BatchOrder
    journal: TaskJournal
    do: Do
    model_name: str
    keep: Keep
    outcomes: dict[int, ItemOutcome] = field(default_factory=dict)
    spent: str | None = None
    """Why nothing more is begun: the budget does not pay for it."""
    told_at: float = 0.0

    async def carry_out(self) -> Sequence[ItemOutcome]:
        """Do what is left to do; the outcomes of all items, in their order."""
        order, count = self.order, len(self.order.items)
        known = self.journal.items_of(order.task_id)
        self.outcomes = {index: done for index, done in known.items() if index < count and self._is_of(index, done)}
        self._tell("batch_started", concurrency=order.concurrency, resumed=len(self.outcomes))
        left = iter([index for index in range(count) if index not in self.outcomes])
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(order.concurrency):
                    group.create_task(self._work_off(left))
        except asyncio.CancelledError:
            self._tell("batch_cancelled")
            # Nobody waits for long who stops something, but what was paid for is not thrown away either.
            with suppress(TimeoutError):
                async with asyncio.timeout(KEEP_LIMIT_S):
                    await self.keep([self.outcomes[index] for index in sorted(self.outcomes)])
            raise
        self._tell("batch_completed")
        return [self.outcomes[index] for index in range(count)]

    def _is_of(self, index: int, done: ItemOutcome) -> bool:
        """Whether an outcome is that of what is to be done now, and not of what stood there before."""
        try:
            return done.digest == digest_of(self.order.kind, self._prompt(index))
        except InvalidRequest:
            return False

    def _prompt(self, index: int) -> str:
        """What is to be done for an item: made when it is needed, for thousands of them may be large."""
        return filled(self.order.prompt, self.order.items[index])

    async def _work_off(self, left: Iterator[int]) -> None:
        for index in left:
            try:
                outcome = await self._settle(index, self._prompt(index))
            except InvalidRequest as problem:
                outcome = ItemOutcome(index, "", "failed", error=str(problem), attempts=0)
            self.outcomes[index] = outcome
            self.journal.note_item(self.order.task_id, outcome)
            if time.monotonic() - self.told_at >= PACE_S:
                self._tell("batch_progress")

    async def _settle(self, index: int, prompt: str) -> ItemOutcome:
        """Try until it works, or is not worth another try."""
        order, tokens, attempt = self.order, 0, 0
        digest = digest_of(order.kind, prompt)
        item = TaskOrder(item_task(order.task_id, index), order.description, prompt, order.kind, order.max_turns)
        while True:
            if self.spent is not None:
                return ItemOutcome(index, digest, "skipped", error=self.spent, attempts=attempt, tokens=tokens)
            attempt += 1
            outcome = await self.do(item)
            tokens += outcome.usage.total_tokens
            if outcome.stop_reason == OUT_OF_BUDGET:
                self.spent = outcome.error
            elif outcome.status in WORTH_ANOTHER_TRY and attempt <= order.retries:
                continue
            return ItemOutcome(index, digest, outcome.status, kept(outcome.result), outcome.error, attempt, tokens)

    def _tell(self, event: str, **more: object) -> None:
        self.told_at = time.monotonic()
        counts = Counter(outcome.status for outcome in self.outcomes.values())
        self.journal.tell(
            {
                "type": event,
                "task_id": self.order.task_id,
                "description": self.order.description,
                "subagent_type": self.order.kind,
                "model_name": self.model_name,
                "total": len(self.order.items),
                "done": len(self.outcomes),
                "outcomes": dict(counts),
                "usage": {"total_tokens": sum(outcome.tokens for outcome in self.outcomes.values())},
                **more,
            }
        )


def digest_of(kind: str, prompt: str) -> str:
    """A short name of what is to be done."""
    return hashlib.sha256(f"{kind}\n{prompt}".encode("utf-8", "replace")).hexdigest()


def kept(answer: str) -> str:
    """What is kept of an answer; one that is cut says so."""
    rest = len(answer) - KEPT_CHARS
    return answer if rest <= 0 else f"{answer[:KEPT_CHARS]}\n[… {rest} more characters]"


def filled(template: str, item: object) -> str:
    """What is to be done for `item`; it goes to the end of a template that has no place for it.

    Raises:
        InvalidRequest: That would be more than any model reads.
    """
    values = {**item, ITEM: item} if isinstance(item, Mapping) else {ITEM: item}
    places = [match[1] for match in PLACE.finditer(template) if match[1] in values]
    texts = {name: as_text(values[name]) for name in places or [ITEM]}
    if len(template) + sum(len(texts[name]) for name in places or [ITEM]) > MAX_PROMPT_CHARS:
        raise InvalidRequest(f"with the item the prompt has more than {MAX_PROMPT_CHARS:,} characters")
    if not places:
        return f"{template}\n\n{texts[ITEM]}"
    return PLACE.sub(lambda match: texts.get(match[1], match[0]), template)


def as_text(value: object) -> str:
    """A value as it stands in a sentence."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

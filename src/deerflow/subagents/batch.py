"""The same done for many items: side by side, each with one outcome, also when the process dies in between."""

import asyncio
import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deerflow.domain.subagents import BatchOrder, ItemOutcome, TaskJournal, TaskOrder, TaskOutcome, item_task

PLACE = re.compile(r"\{(\w{1,64})\}")
ITEM = "item"
WORTH_ANOTHER_TRY = ("failed", "timed_out")
OUT_OF_BUDGET = "token_capped"
PACE_S = 0.5
"""How often readers are told how far a batch has come."""
KEPT_CHARS = 20_000
"""How much of an answer is kept."""

Do = Callable[[TaskOrder], Awaitable[TaskOutcome]]


@dataclass(slots=True)
class Batch:
    """A batch under way."""

    order: BatchOrder
    journal: TaskJournal
    do: Do
    model_name: str
    outcomes: dict[int, ItemOutcome] = field(default_factory=dict)
    spent: str | None = None
    """Why nothing more is begun: the budget does not pay for it."""
    told_at: float = 0.0

    async def carry_out(self) -> Sequence[ItemOutcome]:
        """Do what is left to do; the outcomes of all items, in their order."""
        order = self.order
        prompts = [filled(order.prompt, item) for item in order.items]
        digests = [
            hashlib.sha256(f"{order.kind}\n{prompt}".encode("utf-8", "replace")).hexdigest() for prompt in prompts
        ]
        known = self.journal.items_of(order.task_id)
        self.outcomes = {at: done for at, done in known.items() if at < len(digests) and digests[at] == done.digest}
        self._tell("batch_started", concurrency=order.concurrency, resumed=len(self.outcomes))
        left = iter([index for index in range(len(prompts)) if index not in self.outcomes])
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(order.concurrency):
                    group.create_task(self._work_off(left, prompts, digests))
        except asyncio.CancelledError:
            self._tell("batch_cancelled")
            raise
        self._tell("batch_completed")
        return [self.outcomes[index] for index in range(len(prompts))]

    async def _work_off(self, left: Iterator[int], prompts: Sequence[str], digests: Sequence[str]) -> None:
        for index in left:
            outcome = await self._settle(index, prompts[index], digests[index])
            self.outcomes[index] = outcome
            self.journal.note_item(self.order.task_id, outcome)
            if time.monotonic() - self.told_at >= PACE_S:
                self._tell("batch_progress")

    async def _settle(self, index: int, prompt: str, digest: str) -> ItemOutcome:
        """Try until it works, or is not worth another try."""
        order, tokens, attempt = self.order, 0, 0
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
            result = outcome.result[:KEPT_CHARS]
            return ItemOutcome(index, digest, outcome.status, result, outcome.error, attempt, tokens)

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


def filled(template: str, item: object) -> str:
    """What is to be done for `item`; it goes to the end of a template that has no place for it."""
    values = {**item, ITEM: item} if isinstance(item, Mapping) else {ITEM: item}
    found = False

    def put(match: "re.Match[str]") -> str:
        nonlocal found
        name = match[1]
        if name not in values:
            return match[0]
        found = True
        return as_text(values[name])

    text = PLACE.sub(put, template)
    return text if found else f"{text}\n\n{as_text(item)}"


def as_text(value: object) -> str:
    """A value as it stands in a sentence."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

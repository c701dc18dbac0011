"""Budgets: what a call may take is in a book before a model is asked, so that they hold when a process dies."""

import asyncio
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any, Protocol

import orjson

from deerflow.config.models import PricingConfig
from deerflow.domain.budget import Answered, Asking, BudgetSpent, Grant, SpendingLimit
from deerflow.domain.errors import ConfigError
from deerflow.domain.events import StreamEvent
from deerflow.domain.usage import TokenCounts
from deerflow.models.pricing import UNIT, amount, cost_of, dearest
from deerflow.persistence.events import nothing_else
from deerflow.runtime.journal import RunLog
from deerflow.runtime.pricing import Prices
from deerflow.runtime.runs.gauge import Gauge, is_credible
from deerflow.runtime.serialization import to_json

COMFORTABLE_OUTPUT = 4096
"""Rather than with less than this for its answer, a call waits for others to give back what they did not need."""
LAST_PROMPT, LAST_OUTPUT = 32_768, 8_192
"""What is put by for the answer that ends the run: a quarter of the limit, and no more than these in tokens."""
LAST_SHARE = 4
TITLE_TOKENS = 8_192
TITLE_SHARE = 4
"""What a title may take of what a run has left: a quarter, and no more than this. The rest is for learning."""


@dataclass(frozen=True, slots=True)
class Sum:
    """An amount of tokens and money."""

    tokens: int = 0
    cost: int = 0

    def __add__(self, other: "Sum") -> "Sum":
        return Sum(self.tokens + other.tokens, self.cost + other.cost)

    @classmethod
    def of(cls, limit: SpendingLimit) -> "Sum":
        """The most that a limit allows."""
        return cls(limit.max_tokens or 0, int((limit.max_cost or 0) * UNIT))


@dataclass(slots=True)
class Purse:
    """What was taken so far, and what is set aside for calls under way."""

    spent: Sum = Sum()
    held: dict[int, Sum] = field(default_factory=dict)
    calls: int = 0
    has_concluded: bool = False

    @property
    def gone(self) -> Sum:
        return sum(self.held.values(), self.spent)

    @classmethod
    def read(cls, events: Iterable[StreamEvent]) -> "Purse":
        """What the log of earlier attempts says; calls that nobody saw the end of have taken all they could."""
        purse = cls()
        for event in events:
            if event.event == "budget":
                data: dict[str, Any] = orjson.loads(event.data)
                purse.held[data["call"]] = Sum(data["tokens"], data["cost"])
                purse.calls = max(purse.calls, data["call"])
                purse.has_concluded = purse.has_concluded or data["is_last"]
        purse.spent, purse.held = purse.gone, {}
        return purse


@dataclass(frozen=True, slots=True)
class Entry:
    """What is noted of a call: what was set aside for it, or what it took, and with that all there is."""

    grant: Grant
    taken: Sum
    gone: Sum


class Book(Protocol):
    """Where a budget is kept."""

    async def set_aside(self, entry: Entry) -> None:
        """Have it be kept, whatever happens, before a model is asked."""
        ...

    def settle(self, entry: Entry) -> None:
        """Have it be kept some time: until then, what was set aside counts."""
        ...


@dataclass(frozen=True, slots=True)
class RunBook:
    """The log of a run."""

    log: RunLog

    async def set_aside(self, entry: Entry) -> None:
        await self.log.commit("budget", to_event(entry), nothing_else)

    def settle(self, entry: Entry) -> None:
        self.log.append("budget", to_event(entry))


class BookedBudget:
    """Sets aside before every model call what it may take, and settles afterwards."""

    def __init__(
        self, limit: SpendingLimit, purse: Purse, prices: Prices, book: Book, *, puts_by: bool = False
    ) -> None:
        """`puts_by`: whether a part is kept for a call that is the last."""
        self._limit = limit
        self._purse = purse
        self._prices = prices
        self._book: Book | None = book
        self._puts_by = puts_by
        self._gauge = Gauge()
        self._settled = asyncio.Event()
        self._for_learning: SpendingLimit | None = None

    def close(self) -> SpendingLimit:
        """The run has ended, and its log with it: what learning from it may take; a title gets by on the rest of it.

        What is asked for the sake of the title is only counted here: nobody asks for it again in another process.
        """
        if self._for_learning is None:
            self._book, self._puts_by = None, False
            self._for_learning = for_learning(self._limit, self._purse.gone)
            self._limit = left_of(self._limit, Sum.of(self._for_learning))
        return self._for_learning

    def rest(self) -> SpendingLimit:
        """What is neither spent nor set aside."""
        return left_of(self._limit, self._purse.gone)

    async def reserve(self, asking: Asking) -> Grant:
        """Set aside what a call may take at most."""
        while (grant := self._fitting(asking)) is None:
            if not self._purse.held:
                limit = described(self._limit)
                raise BudgetSpent(f"the budget of this run ({limit}) does not pay for another model call")
            settled = self._settled
            await settled.wait()
        self._purse.calls = grant.number
        self._purse.held[grant.number] = set_aside = Sum(grant.prompt_tokens + grant.output_tokens, grant.cost or 0)
        self._purse.has_concluded = self._purse.has_concluded or asking.is_last
        if self._book is not None:
            try:
                await self._book.set_aside(Entry(grant, set_aside, self._purse.gone))
            except BaseException:
                self._take(grant, Sum())  # nothing was asked
                raise
        return grant

    def settle(self, grant: Grant, answered: Answered | None, *, is_refused: bool = False) -> None:
        """Take what a call has really taken."""
        taken = Sum(grant.prompt_tokens + grant.output_tokens, grant.cost or 0)
        if is_refused:
            taken = Sum()
        elif answered is not None and is_credible(grant, answered):
            taken = Sum(answered.counts.total_tokens, self._cost(grant, answered.counts))
            self._gauge.learn(grant.asking, answered)
        self._take(grant, taken)
        if self._book is not None:
            self._book.settle(Entry(grant, taken, self._purse.gone))

    def last_room(self, model: str) -> tuple[int, int] | None:
        """How long the last request and answer may be."""
        if self._purse.has_concluded:
            return None
        tokens = self._left_tokens(is_last=True)
        prompt, output = LAST_PROMPT, LAST_OUTPUT
        if tokens is not None:
            output = min(output, tokens // LAST_SHARE)
            prompt = min(prompt, tokens - output)
        cost = self._left_cost(is_last=True, model=model)
        if cost is not None:
            reading, writing = dearest(self._price(model))
            output = min(output, cost // 2 // writing) if writing else output
            prompt = min(prompt, (cost - output * writing) // reading) if reading else prompt
        return max(0, prompt), max(0, output)

    def _fitting(self, asking: Asking) -> Grant | None:
        """What can be granted; None when that is too little, for now or for good."""
        prompt, output = self._gauge.most_tokens(asking), asking.most_output
        tokens = self._left_tokens(is_last=asking.is_last)
        if tokens is not None:
            output = min(output, tokens - prompt)
        cost = self._left_cost(is_last=asking.is_last, model=asking.model)
        if cost is not None:
            reading, writing = dearest(self._price(asking.model))
            left = cost - prompt * reading
            output = min(output, left // writing if writing else output if left >= 0 else -1)
        least = min(asking.most_output, COMFORTABLE_OUTPUT) if self._purse.held else 0
        if output < max(asking.least_output, least):
            return None
        return Grant(self._purse.calls + 1, asking, prompt, output, self._most_cost(asking.model, prompt, output))

    def _left_tokens(self, *, is_last: bool) -> int | None:
        if self._limit.max_tokens is None:
            return None
        put_by = min(LAST_PROMPT + LAST_OUTPUT, self._limit.max_tokens // LAST_SHARE) if self._keeps(is_last) else 0
        return self._limit.max_tokens - self._purse.gone.tokens - put_by

    def _left_cost(self, *, is_last: bool, model: str) -> int | None:
        if self._limit.max_cost is None:
            return None
        most, dear = int(self._limit.max_cost * UNIT), self._most_cost(model, LAST_PROMPT, LAST_OUTPUT) or 0
        put_by = min(dear, most // LAST_SHARE) if self._keeps(is_last) else 0
        return most - self._purse.gone.cost - put_by

    def _keeps(self, is_last: bool) -> bool:
        """Whether something is kept back from a call."""
        return self._puts_by and not is_last

    def _most_cost(self, model: str, prompt: int, output: int) -> int | None:
        if self._limit.max_cost is None:
            return None
        reading, writing = dearest(self._price(model))
        return prompt * reading + output * writing

    def _price(self, model: str) -> PricingConfig:
        price: PricingConfig | None = self._prices().get(model)
        if price is None or price.currency != self._limit.currency:
            known = f"has no pricing in {self._limit.currency}"
            raise ConfigError(f"model {model!r} {known}, so budget.max_cost cannot be kept; add it to its entry")
        return price

    def _cost(self, grant: Grant, counts: TokenCounts) -> int:
        if grant.cost is None:
            return 0
        return min(grant.cost, cost_of(counts, self._price(grant.asking.model)))

    def _take(self, grant: Grant, taken: Sum) -> None:
        if self._purse.held.pop(grant.number, None) is not None:
            self._purse.spent += taken
        self._settled.set()
        self._settled = asyncio.Event()


def run_limit(operators: SpendingLimit, wanted: SpendingLimit | None) -> SpendingLimit | None:
    """The limit of a run: what the operator allows, or less where less is wanted; None: there is none."""
    limit = operators.lowered_to(wanted)
    return limit if limit.is_set else None


def left_of(limit: SpendingLimit, gone: Sum) -> SpendingLimit:
    """What is left of a limit."""
    tokens = None if limit.max_tokens is None else max(0, limit.max_tokens - gone.tokens)
    cost = None if limit.max_cost is None else max(Decimal(0), limit.max_cost - amount(gone.cost))
    return SpendingLimit(tokens, cost, limit.currency)


def for_learning(limit: SpendingLimit, gone: Sum) -> SpendingLimit:
    """What learning from a run may take that has ended."""
    left = left_of(limit, gone)
    most = Sum.of(left)
    return left_of(left, Sum(min(TITLE_TOKENS, most.tokens // TITLE_SHARE), most.cost // TITLE_SHARE))


def described(limit: SpendingLimit) -> str:
    """A limit in words."""
    tokens = [f"{limit.max_tokens} tokens"] if limit.max_tokens is not None else []
    money = [f"{amount(int(limit.max_cost * UNIT))} {limit.currency}"] if limit.max_cost is not None else []
    return ", ".join([*tokens, *money])


def to_event(entry: Entry) -> bytes:
    """An entry as a log has it."""
    number, asking = entry.grant.number, entry.grant.asking
    about = {"call": number, "caller": asking.caller, "model": asking.model, "is_last": asking.is_last}
    return to_json({**about, **asdict(entry.taken), "spent": asdict(entry.gone)})

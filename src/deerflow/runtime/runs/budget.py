"""The budget of a run: in its log before a model is asked, so that it holds also when its process dies."""

import asyncio
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

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
from deerflow.runtime.serialization import to_json

COMFORTABLE_OUTPUT = 4096
"""Rather than with less than this for its answer, a call waits for others to give back what they did not need."""
LAST_PROMPT, LAST_OUTPUT = 32_768, 8_192
"""What is put by for the answer that ends the run: a quarter of the limit, and no more than these in tokens."""
LAST_SHARE = 4


@dataclass(frozen=True, slots=True)
class Sum:
    """An amount of tokens and money."""

    tokens: int = 0
    cost: int = 0

    def __add__(self, other: "Sum") -> "Sum":
        return Sum(self.tokens + other.tokens, self.cost + other.cost)


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


class RunBudget:
    """Sets aside before every model call of a run what it may take, and settles afterwards."""

    def __init__(self, log: RunLog, limit: SpendingLimit, purse: Purse, prices: Prices) -> None:
        self._log = log
        self._limit = limit
        self._purse = purse
        self._prices = prices
        self._gauge = Gauge()
        self._settled = asyncio.Event()
        self._is_over = False

    def close(self) -> None:
        """The run has ended, and its log with it; what is asked for its sake from now on is only counted here."""
        self._is_over = True

    async def reserve(self, asking: Asking) -> Grant:
        """Set aside what a call may take at most."""
        while (grant := self._fitting(asking)) is None:
            if not self._purse.held:
                raise BudgetSpent(f"the budget of this run ({self._described()}) does not pay for another model call")
            settled = self._settled
            await settled.wait()
        self._purse.calls = grant.number
        self._purse.held[grant.number] = set_aside = Sum(grant.prompt_tokens + grant.output_tokens, grant.cost or 0)
        self._purse.has_concluded = self._purse.has_concluded or asking.is_last
        if not self._is_over:
            try:
                await self._log.commit("budget", self._entry(grant, set_aside), nothing_else)
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
        if not self._is_over:
            self._log.append("budget", self._entry(grant, taken))

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
        put_by = 0 if is_last else min(LAST_PROMPT + LAST_OUTPUT, self._limit.max_tokens // LAST_SHARE)
        return self._limit.max_tokens - self._purse.gone.tokens - put_by

    def _left_cost(self, *, is_last: bool, model: str) -> int | None:
        if self._limit.max_cost is None:
            return None
        most = int(self._limit.max_cost * UNIT)
        put_by = 0 if is_last else min(self._most_cost(model, LAST_PROMPT, LAST_OUTPUT) or 0, most // LAST_SHARE)
        return most - self._purse.gone.cost - put_by

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

    def _entry(self, grant: Grant, taken: Sum) -> bytes:
        asking = grant.asking
        about = {"call": grant.number, "caller": asking.caller, "model": asking.model, "is_last": asking.is_last}
        return to_json({**about, **asdict(taken), "spent": asdict(self._purse.gone)})

    def _described(self) -> str:
        tokens = [f"{self._limit.max_tokens} tokens"] if self._limit.max_tokens is not None else []
        most = self._limit.max_cost
        money = [f"{amount(int(most * UNIT))} {self._limit.currency}"] if most is not None else []
        return ", ".join([*tokens, *money])


def is_credible(grant: Grant, answered: Answered) -> bool:
    """Whether what a model says it took can be: it read what it was sent, and wrote what came."""
    counts, asking = answered.counts, grant.asking
    if counts.unmetered_calls:
        return False
    reads = asking.prompt.least_tokens <= counts.input_tokens <= grant.prompt_tokens
    return reads and answered.least_tokens <= counts.output_tokens <= grant.output_tokens


@dataclass(slots=True)
class Gauge:
    """Knows how many tokens a request can be at most: a byte is a token, but for what was counted before."""

    replies: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """For the ids of replies: the model, the bytes sent and received up to there, and its own count of them."""
    beginnings: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many tokens a request was, for the model and the fixed part it began with: that part is no more."""

    def most_tokens(self, asking: Asking) -> int:
        """What the model cannot count more than."""
        prompt = asking.prompt
        bounds = [prompt.bytes]
        beginning = self.beginnings.get((asking.model, prompt.fixed_key))
        if beginning is not None:
            bounds.append(beginning + prompt.messages)
        known = self.replies.get(prompt.after or "")
        if known is not None and known[0] == asking.model and known[1] <= prompt.bytes:
            bounds.append(known[2] + prompt.bytes - known[1])
        return min(bounds)

    def learn(self, asking: Asking, answered: Answered) -> None:
        """Take in what a model counted."""
        prompt, counts = asking.prompt, answered.counts
        key = (asking.model, prompt.fixed_key)
        self.beginnings[key] = min(self.beginnings.get(key, counts.input_tokens), counts.input_tokens)
        if answered.message_id is not None:
            whole = prompt.bytes + answered.bytes
            self.replies[answered.message_id] = (asking.model, whole, counts.total_tokens)


def run_limit(operators: SpendingLimit, wanted: SpendingLimit | None) -> SpendingLimit | None:
    """The limit of a run: what the operator allows, or less where less is wanted; None: there is none."""
    limit = operators.lowered_to(wanted)
    return limit if limit.is_set else None

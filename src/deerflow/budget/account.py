"""Run budgets: every model call is reserved in a log before it is made, so the limit holds across process restarts."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

import orjson

from deerflow.budget.pricing import Prices
from deerflow.config.sections.models import PricingConfig
from deerflow.domain.errors import ConfigError
from deerflow.domain.runs import RunEvent
from deerflow.domain.usage import BudgetSpent, ModelCallRequest, ModelCallUsage, Reservation, SpendingLimit, TokenCounts
from deerflow.models.usage import UNIT, compute_cost, get_max_prices, to_amount


def is_plausible(grant: Reservation, answered: ModelCallUsage) -> bool:
    """Return whether the reported usage lies between the minimum the texts imply and what was reserved."""
    counts, asking = answered.counts, grant.request
    if counts.unmetered_calls:
        return False
    reads = asking.prompt.min_tokens <= counts.input_tokens <= grant.prompt_tokens
    return reads and answered.min_tokens <= counts.output_tokens <= grant.output_tokens


@dataclass(slots=True)
class TokenEstimator:
    """Upper bound of the tokens of a request: one token per byte, lowered by counts that models have reported."""

    replies: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """By reply id: the model, the bytes sent and received up to the reply, and the tokens it counted for them."""
    prefixes: dict[tuple[str, str], int] = field(default_factory=dict)
    """By model and fixed prefix: the tokens of the smallest request so far, an upper bound for the prefix."""

    def estimate_max_tokens(self, asking: ModelCallRequest) -> int:
        """Return an upper bound of the tokens the model can count for the request."""
        prompt = asking.prompt
        bounds = [prompt.bytes]
        prefix = self.prefixes.get((asking.model, prompt.fixed_key))
        if prefix is not None:
            bounds.append(prefix + prompt.messages)
        known = self.replies.get(prompt.after or "")
        if known is not None and known[0] == asking.model and known[1] <= prompt.bytes:
            bounds.append(known[2] + prompt.bytes - known[1])
        return min(bounds)

    def record(self, asking: ModelCallRequest, answered: ModelCallUsage) -> None:
        """Record the counts reported for a call."""
        prompt, counts = asking.prompt, answered.counts
        key = (asking.model, prompt.fixed_key)
        self.prefixes[key] = min(self.prefixes.get(key, counts.input_tokens), counts.input_tokens)
        if answered.message_id is not None:
            whole = prompt.bytes + answered.bytes
            self.replies[answered.message_id] = (asking.model, whole, counts.total_tokens)


PREFERRED_MIN_OUTPUT = 4096
"""While other calls are in progress, a call with less output than this waits for them to settle."""
FINAL_PROMPT, FINAL_OUTPUT = 32_768, 8_192
"""Reserve for the final answer in tokens: a quarter of the limit, at most these."""
FINAL_SHARE = 4
TITLE_TOKENS = 8_192
TITLE_SHARE = 4
"""Share of the remaining budget for the title: a quarter, at most `TITLE_TOKENS`. The rest is for memory extraction."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Amount of tokens and money."""

    tokens: int = 0
    cost: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.tokens + other.tokens, self.cost + other.cost)

    @classmethod
    def from_limit(cls, limit: SpendingLimit) -> "Amount":
        """Return the maximum a limit allows."""
        return cls(limit.max_tokens or 0, int((limit.max_cost or 0) * UNIT))


@dataclass(slots=True)
class Account:
    """Amounts spent so far, and amounts reserved for calls in progress."""

    spent: Amount = Amount()
    reserved: dict[int, Amount] = field(default_factory=dict)
    calls: int = 0
    has_final_answer: bool = False

    @property
    def committed(self) -> Amount:
        return sum(self.reserved.values(), self.spent)

    @classmethod
    def from_events(cls, events: Iterable[RunEvent]) -> "Account":
        """Restore the account from the log of earlier attempts. Calls without a recorded end count as fully spent."""
        account = cls()
        for event in events:
            if event.event == "budget":
                data: dict[str, Any] = orjson.loads(event.data)
                account.reserved[data["call"]] = Amount(data["tokens"], data["cost"])
                account.calls = max(account.calls, data["call"])
                account.has_final_answer = account.has_final_answer or data["is_last"]
        account.spent, account.reserved = account.committed, {}
        return account


@dataclass(frozen=True, slots=True)
class ReservationEntry:
    """Log entry of a call: the amount reserved or really used, and the total committed with it."""

    grant: Reservation
    amount: Amount
    committed: Amount


class ReservationLog(Protocol):
    """Persistent log of reservations."""

    async def reserve(self, entry: ReservationEntry) -> None:
        """Store the entry durably before the model is called."""
        ...

    def settle(self, entry: ReservationEntry) -> None:
        """Store the entry eventually. Until then the reserved amount counts."""
        ...


class BudgetTracker:
    """Reserves the maximum before every model call and settles the real usage afterwards."""

    def __init__(
        self,
        limit: SpendingLimit,
        account: Account,
        prices: Prices,
        log: ReservationLog,
        *,
        reserves_final_answer: bool = False,
    ) -> None:
        """Track `account` against `limit`. `reserves_final_answer` keeps a share for the final answer."""
        self._limit = limit
        self._account = account
        self._prices = prices
        self._log: ReservationLog | None = log
        self._reserves_final_answer = reserves_final_answer
        self._estimator = TokenEstimator()
        self._settled = asyncio.Event()
        self._extraction_limit: SpendingLimit | None = None

    def close(self) -> SpendingLimit:
        """End the run and return the limit for memory extraction; the remainder pays for the title.

        Later calls for the title are counted in memory only, because no other process repeats them.
        """
        if self._extraction_limit is None:
            self._log, self._reserves_final_answer = None, False
            self._extraction_limit = extraction_limit(self._limit, self._account.committed)
            self._limit = subtract_amount(self._limit, Amount.from_limit(self._extraction_limit))
        return self._extraction_limit

    def get_remaining(self) -> SpendingLimit:
        """Return what is neither spent nor reserved."""
        return subtract_amount(self._limit, self._account.committed)

    async def reserve(self, asking: ModelCallRequest) -> Reservation:
        """Reserve the maximum a call may use."""
        while (grant := self._try_reserve(asking)) is None:
            if not self._account.reserved:
                limit = format_limit(self._limit)
                raise BudgetSpent(f"the budget of this run ({limit}) does not pay for another model call")
            settled = self._settled
            await settled.wait()
        self._account.calls = grant.number
        reserved = Amount(grant.prompt_tokens + grant.output_tokens, grant.cost or 0)
        self._account.reserved[grant.number] = reserved
        self._account.has_final_answer = self._account.has_final_answer or asking.is_last
        if self._log is not None:
            try:
                await self._log.reserve(ReservationEntry(grant, reserved, self._account.committed))
            except BaseException:
                self._release(grant, Amount())  # the model was not called
                raise
        return grant

    def settle(self, grant: Reservation, answered: ModelCallUsage | None, *, is_rejected: bool = False) -> None:
        """Replace the reservation of a call by its real usage."""
        used = Amount(grant.prompt_tokens + grant.output_tokens, grant.cost or 0)
        if is_rejected:
            used = Amount()
        elif answered is not None and is_plausible(grant, answered):
            used = Amount(answered.counts.total_tokens, self._cost(grant, answered.counts))
            self._estimator.record(grant.request, answered)
        self._release(grant, used)
        if self._log is not None:
            self._log.settle(ReservationEntry(grant, used, self._account.committed))

    def get_final_call_limits(self, model: str) -> tuple[int, int] | None:
        """Return the maximum size of the final request and answer."""
        if self._account.has_final_answer:
            return None
        tokens = self._available_tokens(is_last=True)
        prompt, output = FINAL_PROMPT, FINAL_OUTPUT
        if tokens is not None:
            output = min(output, tokens // FINAL_SHARE)
            prompt = min(prompt, tokens - output)
        cost = self._available_cost(is_last=True, model=model)
        if cost is not None:
            reading, writing = get_max_prices(self._price(model))
            output = min(output, cost // 2 // writing) if writing else output
            prompt = min(prompt, (cost - output * writing) // reading) if reading else prompt
        return max(0, prompt), max(0, output)

    def _try_reserve(self, asking: ModelCallRequest) -> Reservation | None:
        """Return a reservation for the call; None when too little is left now or altogether."""
        prompt, output = self._estimator.estimate_max_tokens(asking), asking.max_output_tokens
        tokens = self._available_tokens(is_last=asking.is_last)
        if tokens is not None:
            output = min(output, tokens - prompt)
        cost = self._available_cost(is_last=asking.is_last, model=asking.model)
        if cost is not None:
            reading, writing = get_max_prices(self._price(asking.model))
            left = cost - prompt * reading
            output = min(output, left // writing if writing else output if left >= 0 else -1)
        least = min(asking.max_output_tokens, PREFERRED_MIN_OUTPUT) if self._account.reserved else 0
        if output < max(asking.min_output_tokens, least):
            return None
        return Reservation(
            self._account.calls + 1, asking, prompt, output, self._max_cost(asking.model, prompt, output)
        )

    def _available_tokens(self, *, is_last: bool) -> int | None:
        if self._limit.max_tokens is None:
            return None
        withheld = (
            min(FINAL_PROMPT + FINAL_OUTPUT, self._limit.max_tokens // FINAL_SHARE)
            if self._withholds_reserve(is_last)
            else 0
        )
        return self._limit.max_tokens - self._account.committed.tokens - withheld

    def _available_cost(self, *, is_last: bool, model: str) -> int | None:
        if self._limit.max_cost is None:
            return None
        most, dear = int(self._limit.max_cost * UNIT), self._max_cost(model, FINAL_PROMPT, FINAL_OUTPUT) or 0
        withheld = min(dear, most // FINAL_SHARE) if self._withholds_reserve(is_last) else 0
        return most - self._account.committed.cost - withheld

    def _withholds_reserve(self, is_last: bool) -> bool:
        """Return whether the reserve for the final answer is withheld from a call."""
        return self._reserves_final_answer and not is_last

    def _max_cost(self, model: str, prompt: int, output: int) -> int | None:
        if self._limit.max_cost is None:
            return None
        reading, writing = get_max_prices(self._price(model))
        return prompt * reading + output * writing

    def _price(self, model: str) -> PricingConfig:
        price: PricingConfig | None = self._prices().get(model)
        if price is None or price.currency != self._limit.currency:
            problem = f"has no pricing in {self._limit.currency}"
            raise ConfigError(f"model {model!r} {problem}; add pricing to its entry or remove budget.max_cost")
        return price

    def _cost(self, grant: Reservation, counts: TokenCounts) -> int:
        if grant.cost is None:
            return 0
        return min(grant.cost, compute_cost(counts, self._price(grant.request.model)))

    def _release(self, grant: Reservation, used: Amount) -> None:
        if self._account.reserved.pop(grant.number, None) is not None:
            self._account.spent += used
        self._settled.set()
        self._settled = asyncio.Event()


def effective_limit(operators: SpendingLimit, wanted: SpendingLimit | None) -> SpendingLimit | None:
    """Return the limit of a run: the operator's, lowered by the request; None when there is none."""
    limit = operators.cap(wanted)
    return limit if limit.is_set else None


def subtract_amount(limit: SpendingLimit, committed: Amount) -> SpendingLimit:
    """Return what is left of a limit."""
    tokens = None if limit.max_tokens is None else max(0, limit.max_tokens - committed.tokens)
    cost = None if limit.max_cost is None else max(Decimal(0), limit.max_cost - to_amount(committed.cost))
    return SpendingLimit(tokens, cost, limit.currency)


def extraction_limit(limit: SpendingLimit, committed: Amount) -> SpendingLimit:
    """Return the limit for memory extraction after a run."""
    left = subtract_amount(limit, committed)
    most = Amount.from_limit(left)
    return subtract_amount(left, Amount(min(TITLE_TOKENS, most.tokens // TITLE_SHARE), most.cost // TITLE_SHARE))


def format_limit(limit: SpendingLimit) -> str:
    """Return a limit as text."""
    tokens = [f"{limit.max_tokens} tokens"] if limit.max_tokens is not None else []
    money = [f"{to_amount(int(limit.max_cost * UNIT))} {limit.currency}"] if limit.max_cost is not None else []
    return ", ".join([*tokens, *money])

"""Run budgets: every model call is reserved in a log before it is made, so the limit holds across process restarts."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import ceil
from typing import Any, Protocol

import orjson

from deerflow.agent_support.tokens import BYTES_PER_TOKEN
from deerflow.config.sections.models import PricingConfig
from deerflow.domain.errors import ConfigError
from deerflow.domain.runs import RunEvent
from deerflow.domain.usage import BudgetSpent, ModelCallRequest, ModelCallUsage, Reservation, SpendingLimit, TokenCounts
from deerflow.models.usage import UNIT, compute_cost, get_max_prices, to_amount

Prices = Callable[[], Mapping[str, PricingConfig]]
"""Returns the current prices by model name."""
LIKELY_MARGIN = 0.9
"""Share of the reported bytes per token that is relied on. `BYTES_PER_TOKEN` is assumed until a count is reported."""
MAX_REPLIES = 5000
"""Number of replies whose counts are kept."""
DENSE_BYTES_PER_TOKEN = 2
"""Bytes per token of a whole request that no tokenizer in use falls below."""


def is_plausible(grant: Reservation, answered: ModelCallUsage) -> bool:
    """Return whether the reported usage lies between the minimum and the maximum that the texts imply."""
    counts, prompt = answered.counts, grant.request.prompt
    if counts.unmetered_calls:
        return False
    reads = prompt.min_tokens <= counts.input_tokens <= max(prompt.bytes, grant.prompt_tokens)
    # An endpoint that ignores the output limit can report more than was reserved, and is charged for it.
    return reads and answered.min_tokens <= counts.output_tokens <= max(grant.output_tokens, answered.bytes)


@dataclass(frozen=True, slots=True)
class PromptEstimate:
    """Tokens of a request: the likely number, the number for dense text, and an upper bound."""

    likely: int
    dense: int
    maximum: int


@dataclass(slots=True)
class TokenEstimator:
    """Estimates the tokens of requests from their bytes and from counts that models have reported."""

    replies: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """By reply id: the model, the bytes sent and received up to the reply, and the tokens it counted for them."""
    prefixes: dict[tuple[str, str], int] = field(default_factory=dict)
    """By model and fixed prefix: the tokens of the smallest request so far, an upper bound for the prefix."""
    ratios: dict[str, float] = field(default_factory=dict)
    """By model: the bytes per token of its densest request so far. 1 for a model that reported implausible usage."""

    def estimate(self, asking: ModelCallRequest) -> PromptEstimate:
        """Return the estimate for a request. The maximum counts one token per byte that the model has not counted."""
        prompt = asking.prompt
        parts = [(0, prompt.bytes)]
        prefix = self.prefixes.get((asking.model, prompt.fixed_key))
        if prefix is not None:
            parts.append((prefix, prompt.messages))
        known = self.replies.get(prompt.after or "")
        if known is not None and known[0] == asking.model and known[1] <= prompt.bytes:
            parts.append((known[2], prompt.bytes - known[1]))
        ratio = self.ratios.get(asking.model, BYTES_PER_TOKEN)
        likely = min(counted + ceil(size / ratio) for counted, size in parts)
        maximum = min(map(sum, parts))
        dense = maximum if len(parts) > 1 else ceil(maximum / DENSE_BYTES_PER_TOKEN)
        return PromptEstimate(likely, max(likely, dense), maximum)

    def record(self, asking: ModelCallRequest, answered: ModelCallUsage) -> None:
        """Record the counts reported for a call."""
        if len(self.replies) >= MAX_REPLIES:  # without them requests are estimated higher
            self.replies.clear()
            self.prefixes.clear()
        prompt, counts = asking.prompt, answered.counts
        key = (asking.model, prompt.fixed_key)
        self.prefixes[key] = min(self.prefixes.get(key, counts.input_tokens), counts.input_tokens)
        if counts.input_tokens:
            ratio = max(1.0, LIKELY_MARGIN * prompt.bytes / counts.input_tokens)
            self.ratios[asking.model] = min(self.ratios.get(asking.model, ratio), ratio)
        if answered.message_id is not None:
            whole = prompt.bytes + answered.bytes
            self.replies[answered.message_id] = (asking.model, whole, counts.total_tokens)

    def distrust(self, model: str) -> None:
        """Rely on the maximum for a model that reports no usage or implausible usage."""
        self.ratios[model] = 1.0


PREFERRED_MIN_OUTPUT = 4096
"""While other calls are in progress, a call with less output than this waits for them to settle."""
FINAL_PROMPT, FINAL_OUTPUT, FINAL_SHARE = 32_768, 8_192, 8
"""Reserve for the final answer in tokens: these, at most an eighth of the limit."""
FINAL_OUTPUT_SHARE = 4
"""Share of the answer in what is left for the final call."""
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


@dataclass(frozen=True, slots=True)
class SpendingRest:
    """Tokens and money that are left; None for no limit."""

    tokens: int | None
    cost: int | None


@dataclass(slots=True)
class Account:
    """Amounts spent so far, and amounts reserved for calls in progress."""

    spent: Amount = Amount()
    reserved: dict[int, Amount] = field(default_factory=dict)
    """By call number: the maximum of the call."""
    likely: dict[int, Amount] = field(default_factory=dict)
    """By call number: the likely usage of the call, if its answer is as long as allowed."""
    calls: int = 0
    has_final_answer: bool = False

    @property
    def committed(self) -> Amount:
        return sum(self.reserved.values(), self.spent)

    @property
    def expected(self) -> Amount:
        return sum(self.likely.values(), self.spent)

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
    """Reserves budget before every model call and settles the real usage afterwards.

    A call is made when its likely usage is left. Its output is limited so that its maximum does not exceed the limit.
    """

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

    def change_limit(self, limit: SpendingLimit) -> None:
        """Replace the limit for later calls."""
        self._limit = limit

    def get_remaining(self) -> SpendingLimit:
        """Return what is neither spent nor reserved."""
        return subtract_amount(self._limit, self._account.committed)

    async def reserve(self, asking: ModelCallRequest) -> Reservation:
        """Reserve budget for a call."""
        while (grant := self._try_reserve(asking)) is None:
            if not self._account.reserved:
                limit = format_limit(self._limit)
                raise BudgetSpent(f"the budget of this run ({limit}) does not pay for another model call")
            settled = self._settled
            await settled.wait()
        self._account.calls = grant.number
        reserved = Amount(grant.prompt_tokens + grant.output_tokens, grant.cost or 0)
        likely = Amount(
            grant.likely_prompt_tokens + grant.output_tokens,
            self._max_cost(asking.model, grant.likely_prompt_tokens, grant.output_tokens) or 0,
        )
        self._account.reserved[grant.number], self._account.likely[grant.number] = reserved, likely
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
        elif answered is not None:
            used = self._charge_implausible(grant, answered)
            self._estimator.distrust(grant.request.model)
        self._release(grant, used)
        if self._log is not None:
            self._log.settle(ReservationEntry(grant, used, self._account.committed))

    def _charge_implausible(self, grant: Reservation, answered: ModelCallUsage) -> Amount:
        """Return the whole reservation, or more if the endpoint ignored the output limit: what it sent is charged."""
        output = max(grant.output_tokens, answered.bytes // BYTES_PER_TOKEN)
        cost = self._max_cost(grant.request.model, grant.prompt_tokens, output)
        return Amount(grant.prompt_tokens + output, cost or 0)

    def get_final_call_limits(self, model: str) -> tuple[int, int] | None:
        """Return the maximum size of the final request and answer."""
        if self._account.has_final_answer:
            return None
        rest = self._get_rest(self._account.committed)
        prompt, output = FINAL_PROMPT, FINAL_OUTPUT
        if rest.tokens is not None:
            output = min(output, rest.tokens // FINAL_OUTPUT_SHARE)
            prompt = min(prompt, rest.tokens - output)
        if rest.cost is not None:
            reading, writing = get_max_prices(self._price(model))
            output = min(output, rest.cost // 2 // writing) if writing else output
            prompt = min(prompt, (rest.cost - output * writing) // reading) if reading else prompt
        return max(0, prompt), max(0, output)

    def _try_reserve(self, asking: ModelCallRequest) -> Reservation | None:
        """Return a reservation for the call; None when too little is left now or altogether.

        The likely usage leaves the reserve for the final answer alone. The maximum may use it, so that a wrong estimate
        does not exceed the limit.
        """
        estimate, is_busy = self._estimator.estimate(asking), bool(self._account.reserved)
        preferred = max(asking.min_output_tokens, min(asking.max_output_tokens, PREFERRED_MIN_OUTPUT))
        likely = estimate.maximum if asking.is_last else estimate.likely
        output = min(asking.max_output_tokens, self._affordable_output(asking, likely, self._expected_rest(asking)))
        if output < (preferred if is_busy else asking.min_output_tokens):
            return None
        rest = self._get_rest(self._account.committed)
        prompt, sure = estimate.maximum, self._affordable_output(asking, estimate.maximum, rest)
        if sure < min(output, preferred) and not is_busy and self._reserves_final_answer and not asking.is_last:
            prompt, sure = estimate.dense, self._affordable_output(asking, estimate.dense, rest)
        output = min(output, sure)
        if output < (preferred if is_busy else asking.min_output_tokens):
            return None
        cost = self._max_cost(asking.model, prompt, output)
        return Reservation(self._account.calls + 1, asking, prompt, output, min(likely, prompt), cost)

    def _affordable_output(self, asking: ModelCallRequest, prompt: int, rest: SpendingRest) -> int:
        """Return the tokens of output that are left after a prompt; negative when the prompt alone is too much."""
        output = asking.max_output_tokens if rest.tokens is None else rest.tokens - prompt
        if rest.cost is None:
            return output
        reading, writing = get_max_prices(self._price(asking.model))
        left = rest.cost - prompt * reading
        return min(output, left // writing if writing else output if left >= 0 else -1)

    def _expected_rest(self, asking: ModelCallRequest) -> SpendingRest:
        """Return what is probably left for a call, without the reserve for the final answer."""
        rest = self._get_rest(self._account.expected)
        return rest if asking.is_last else self._withhold_reserve(rest, asking.model)

    def _get_rest(self, used: Amount) -> SpendingRest:
        tokens = None if self._limit.max_tokens is None else self._limit.max_tokens - used.tokens
        cost = None if self._limit.max_cost is None else int(self._limit.max_cost * UNIT) - used.cost
        return SpendingRest(tokens, cost)

    def _withhold_reserve(self, rest: SpendingRest, model: str) -> SpendingRest:
        """Return what is left without the reserve for the final answer."""
        if not self._reserves_final_answer:
            return rest
        whole = Amount.from_limit(self._limit)
        tokens = min(FINAL_PROMPT + FINAL_OUTPUT, whole.tokens // FINAL_SHARE)
        cost = min(self._max_cost(model, FINAL_PROMPT, FINAL_OUTPUT) or 0, whole.cost // FINAL_SHARE)
        return SpendingRest(
            None if rest.tokens is None else rest.tokens - tokens, None if rest.cost is None else rest.cost - cost
        )

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
        return compute_cost(counts, self._price(grant.request.model))

    def _release(self, grant: Reservation, used: Amount) -> None:
        self._account.likely.pop(grant.number, None)
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

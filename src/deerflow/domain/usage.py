"""Usage and budget of model calls, in tokens and money."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from functools import reduce
from operator import add
from typing import Any, Literal, Protocol, Self, runtime_checkable

from deerflow.domain.errors import DeerFlowError

LEAD_AGENT, SUBAGENT, SUMMARIZATION = "lead_agent", "subagent", "summarization"
TITLE, SUGGESTIONS, INPUT_POLISH = "title", "suggestions", "input_polish"
SKILL_REVIEW, MEMORY = "skill_review", "memory"


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """The usage of model calls. Cached tokens are part of the input, reasoning is part of the output."""

    calls: int = 0
    unmetered_calls: int = 0
    """Calls whose model reported no usage, or that were cancelled before it could."""
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "TokenCounts") -> "TokenCounts":
        return TokenCounts(*(getattr(self, name) + getattr(other, name) for name in TokenCounts.__slots__))


UNMETERED = TokenCounts(calls=1, unmetered_calls=1)


def sum_counts(counts: Iterable[TokenCounts]) -> TokenCounts:
    """Return the sum of the given counts."""
    return reduce(add, counts, TokenCounts())


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """The usage of one model by one caller."""

    caller: str
    model: str
    counts: TokenCounts
    context_tokens: int | None = None
    """The tokens of the latest request and its answer."""
    cost: int | None = None
    """In 10⁻¹² of `currency`; None when the price is unknown."""
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class UsageOrigin:
    """The owner, run and end time of model calls."""

    owner: str
    ended_at: datetime
    thread_id: str | None = None
    run_id: str | None = None


PrefixSegment = Literal["model", "tools", "system_prompt", "message"]
"""The part of a request that differs from the request before."""
BreakCause = Literal["model", "compacted", "edited", "loaded", "changed"]
"""The reason for a difference.

model: another model. compacted: old messages were summarized or shortened. edited: messages were edited, removed or
rolled back between two runs. loaded: the agent loaded tools or a skill. changed: none of these.
"""


@dataclass(frozen=True, slots=True)
class PrefixBreak:
    """The first segment of a request that differs from the request before: a prefix cache does not cover the rest."""

    segment: PrefixSegment
    cause: BreakCause
    lost_tokens: int = 0
    """Estimated tokens that the request before had, too, and that no prefix cache covers any longer."""
    position: int | None = None
    """The number of the message in the request, from 1; None for other segments."""
    role: str | None = None
    """The type of the message: human, ai or tool."""
    name: str | None = None
    """The tool of a tool result, or the names of the tools that were added or removed."""

    def __str__(self) -> str:
        if self.segment == "message":
            text = f"tool result of {self.name}" if self.name else self.role
            return f"message {self.position} ({text})"
        name = self.segment.replace("_", " ")
        return f"{name} ({self.name})" if self.name else name


@dataclass(frozen=True, slots=True)
class RequestPrefix:
    """The part of a request that begins like the request before, in estimated tokens."""

    prompt_tokens: int
    prefix_tokens: int | None
    """None when no request before is known: in a new thread, and after a restart of the server."""
    broken: PrefixBreak | None = None

    def to_stored(self) -> dict[str, Any]:
        """Return this as JSON."""
        stored = {"prompt_tokens": self.prompt_tokens, "prefix_tokens": self.prefix_tokens}
        return {**stored, "broken": asdict(self.broken)} if self.broken else stored

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Self:
        """Return what `to_stored` wrote."""
        broken = stored.get("broken")
        return cls(stored["prompt_tokens"], stored["prefix_tokens"], PrefixBreak(**broken) if broken else None)


@dataclass(frozen=True, slots=True)
class RequestBreak:
    """A prefix break and the request that had it."""

    request: int
    """The number of the request in its run, from 1."""
    caller: str
    broken: PrefixBreak


@dataclass(frozen=True, slots=True)
class PrefixCacheUsage:
    """The prefixes of the requests of a run, and the cached input tokens that providers reported."""

    requests: int = 0
    prompt_tokens: int = 0
    """Estimated tokens of the requests whose request before is known."""
    prefix_tokens: int = 0
    """Estimated tokens of these that were a prefix of the request before."""
    input_tokens: int = 0
    cached_tokens: int = 0
    """Reported by the providers; never more than the input tokens."""
    breaks: Sequence[RequestBreak] = ()

    @property
    def prefix_fraction(self) -> float | None:
        return round(self.prefix_tokens / self.prompt_tokens, 4) if self.prompt_tokens else None

    @property
    def cached_fraction(self) -> float | None:
        return round(self.cached_tokens / self.input_tokens, 4) if self.input_tokens else None

    def add(self, caller: str, counts: TokenCounts, prefix: RequestPrefix) -> "PrefixCacheUsage":
        """Return the sums with one more request. Some providers report more cached tokens than input tokens."""
        number, known = self.requests + 1, prefix.prefix_tokens
        broken = [RequestBreak(number, caller, prefix.broken)] if prefix.broken else []
        return PrefixCacheUsage(
            number,
            self.prompt_tokens + (0 if known is None else prefix.prompt_tokens),
            self.prefix_tokens + (known or 0),
            self.input_tokens + counts.input_tokens,
            self.cached_tokens + min(counts.cached_tokens, counts.input_tokens),
            [*self.breaks, *broken],
        )


@dataclass(frozen=True, slots=True)
class ToolSchemas:
    """The tools of a request: a hash and the estimated tokens of their schemas."""

    names: frozenset[str]
    hash: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request to a model, as the harness hands it to the model class."""

    model: str
    tools: ToolSchemas
    system: Any
    """The system message, if there is one."""
    messages: Sequence[Any]
    loaded: frozenset[str] = frozenset()
    """Deferred tools and skills that the agent has loaded."""


@runtime_checkable  # LangChain validates the run context with isinstance
class PrefixTracker(Protocol):
    """Compares every request of a conversation with the one before."""

    def compare(self, prompt: Prompt) -> RequestPrefix:
        """Return the prefix that a request shares with the one before, which it replaces."""
        ...

    def for_task(self) -> "PrefixTracker":
        """Return the tracker for the conversation of a subagent."""
        ...


@runtime_checkable
class UsageMeter(Protocol):
    """Records the usage of the model calls of one run."""

    def note(
        self,
        caller: str,
        model: str,
        message_id: str | None,
        counts: TokenCounts,
        prefix: RequestPrefix | None = None,
    ) -> None:
        """Record one call; a message that was recorded before is not counted again."""


class BudgetSpent(DeerFlowError):
    """The remaining budget of a run is too small for a model call."""


class QuotaSpent(BudgetSpent):
    """The remaining quota of the person for the day is too small for a model call."""


@dataclass(frozen=True, slots=True)
class SpendingLimit:
    """The maximum that a run may spend; None for no limit."""

    max_tokens: int | None = None
    max_cost: Decimal | None = None
    currency: str = "USD"

    @property
    def is_set(self) -> bool:
        return self.max_tokens is not None or self.max_cost is not None

    def cap(self, wanted: "SpendingLimit | None") -> "SpendingLimit":
        """Return this limit, lowered where `wanted` is lower."""
        if wanted is None:
            return self
        tokens = [each for each in (self.max_tokens, wanted.max_tokens) if each is not None]
        costs = [each for each in (self.max_cost, wanted.max_cost) if each is not None]
        return SpendingLimit(min(tokens, default=None), min(costs, default=None), self.currency)

    def to_stored(self) -> dict[str, object]:
        """Return this limit as JSON; amounts of money are strings."""
        return {**asdict(self), "max_cost": None if self.max_cost is None else str(self.max_cost)}

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Self:
        """Return the limit that `to_stored` wrote."""
        cost = stored["max_cost"]
        return cls(stored["max_tokens"], None if cost is None else Decimal(cost), stored["currency"])


@dataclass(frozen=True, slots=True)
class PromptSize:
    """The size of a request in bytes, which is an upper bound of its tokens."""

    fixed: int
    """System prompt and tool definitions."""
    messages: int
    fixed_key: str = ""
    """A key of the fixed part: requests with the same key have the same prefix."""
    after: str | None = None
    """The id of the latest AI message in the request."""
    min_tokens: int = 0
    """A lower bound; a smaller reported count is implausible."""

    @property
    def bytes(self) -> int:
        return self.fixed + self.messages


@dataclass(frozen=True, slots=True)
class ModelCallRequest:
    """A request to reserve budget for a model call."""

    caller: str
    model: str
    prompt: PromptSize
    max_output_tokens: int
    """The maximum output of the model."""
    min_output_tokens: int
    """The smallest useful output."""
    is_last: bool = False
    """True for the final answer of the run, for which a share of the budget is reserved."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """The budget reserved for one call: an upper bound of its request and of its answer."""

    number: int
    request: ModelCallRequest
    prompt_tokens: int
    output_tokens: int
    likely_prompt_tokens: int = 0
    """The likely tokens of the request."""
    cost: int | None = None
    """In 10⁻¹² of the currency; None when there is no cost limit."""


@dataclass(frozen=True, slots=True)
class ModelCallUsage:
    """The answer of a model call and the usage that the model reported."""

    counts: TokenCounts
    message_id: str | None = None
    bytes: int = 0
    """The size that the answer adds to a following request."""
    min_tokens: int = 0
    """A lower bound; a smaller reported count is implausible."""


@runtime_checkable  # LangChain validates the run context with isinstance
class ModelBudget(Protocol):
    """The budget of one run. Reserved and spent amounts together never exceed its limit."""

    async def reserve(self, request: ModelCallRequest) -> Reservation:
        """Reserve the maximum that a call may use; wait for active calls if only their reservations are in the way.

        Raises:
            BudgetSpent: The remaining budget is too small.
            ConfigError: The price of the model is unknown.
        """
        ...

    def settle(self, reservation: Reservation, usage: ModelCallUsage | None, *, is_rejected: bool = False) -> None:
        """Charge the actual usage of a call; the whole reservation when it is unknown or implausible.

        `is_rejected`: the endpoint rejected the request, which costs nothing.
        """
        ...

    def get_final_call_limits(self, model: str) -> tuple[int, int] | None:
        """Return the maximum bytes of the request and tokens of the answer of the final call; None when it was made."""
        ...

    def get_remaining(self) -> SpendingLimit:
        """Return the amount that is neither spent nor reserved."""
        ...

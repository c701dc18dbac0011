"""What the models of one run may take, set aside before each of them is asked."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Protocol, Self, runtime_checkable

from deerflow.domain.errors import DeerFlowError
from deerflow.domain.usage import TokenCounts


class BudgetSpent(DeerFlowError):
    """What is left of a run's budget does not pay for a model call."""


@dataclass(frozen=True, slots=True)
class SpendingLimit:
    """The most that a run may take; None: as much as it likes."""

    max_tokens: int | None = None
    max_cost: Decimal | None = None
    currency: str = "USD"

    @property
    def is_set(self) -> bool:
        return self.max_tokens is not None or self.max_cost is not None

    def lowered_to(self, wanted: "SpendingLimit | None") -> "SpendingLimit":
        """This limit, or less of it where less is wanted."""
        if wanted is None:
            return self
        tokens = [each for each in (self.max_tokens, wanted.max_tokens) if each is not None]
        costs = [each for each in (self.max_cost, wanted.max_cost) if each is not None]
        return SpendingLimit(min(tokens, default=None), min(costs, default=None), self.currency)

    def to_stored(self) -> dict[str, object]:
        """This limit in JSON, which has amounts of money as texts."""
        return {**asdict(self), "max_cost": None if self.max_cost is None else str(self.max_cost)}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """The limit that `to_stored` wrote."""
        cost = stored["max_cost"]
        return cls(stored["max_tokens"], None if cost is None else Decimal(cost), stored["currency"])


@dataclass(frozen=True, slots=True)
class PromptSize:
    """How long a request is, in bytes: no token is shorter than one."""

    fixed: int
    """The system prompt and the description of the tools."""
    messages: int
    fixed_key: str = ""
    """What the fixed part is known by: two requests with one key begin with the same."""
    after: str | None = None
    """The newest reply of a model that is part of it."""
    least_tokens: int = 0
    """Whoever counts fewer than this is lying."""

    @property
    def bytes(self) -> int:
        return self.fixed + self.messages


@dataclass(frozen=True, slots=True)
class Asking:
    """A model call that somebody wants to make."""

    caller: str
    model: str
    prompt: PromptSize
    most_output: int
    """What the model says at most in one answer."""
    least_output: int
    """With less than this there is no use in asking."""
    is_last: bool = False
    """Whether it is the answer that ends the run, for which something was put by."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What was set aside for one call: the request must not be longer, the answer cannot be."""

    number: int
    asking: Asking
    prompt_tokens: int
    output_tokens: int
    cost: int | None = None
    """In millionths of a millionth of the currency; None where money does not matter."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back, and what the model says it took."""

    counts: TokenCounts
    message_id: str | None = None
    bytes: int = 0
    """How much longer a request is that this is part of."""
    least_tokens: int = 0
    """Whoever counts fewer than this is lying."""


@runtime_checkable  # LangChain validates the run context with isinstance
class Budget(Protocol):
    """The budget of one run. What is set aside and what is spent never exceed its limit."""

    async def reserve(self, asking: Asking) -> Grant:
        """Set aside what a call may take at most; waits for calls under way when only they stand in the way.

        Raises:
            BudgetSpent: There is not enough left.
            ConfigError: Nobody knows what the model costs.
        """
        ...

    def settle(self, grant: Grant, answered: Answered | None, *, is_refused: bool = False) -> None:
        """Take what a call has really taken; all that was set aside when nobody says so, or says what cannot be.

        `is_refused` says that the endpoint would not even begin, which takes nothing.
        """
        ...

    def last_room(self, model: str) -> tuple[int, int] | None:
        """How long the request (in bytes) and the answer (in tokens) of the last call may be; None when it is over."""
        ...

    def rest(self) -> SpendingLimit:
        """What is neither spent nor set aside."""
        ...

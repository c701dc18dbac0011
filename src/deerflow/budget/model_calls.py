"""Model calls within the budget of a run: request sizes, reservations and settled usage."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from deerflow.agent_support.model_failures import classify_failure, get_model_name
from deerflow.agent_support.tokens import BYTES_PER_TOKEN, count_message_tokens
from deerflow.domain.errors import ModelError, ModelResponseTooLarge
from deerflow.domain.usage import BudgetSpent, ModelBudget, ModelCallRequest, ModelCallUsage, PromptSize, Reservation
from deerflow.models.usage import read_counts

MESSAGE_BYTES = 64
"""Bytes that vendors add to a message, ids included."""
MAX_TOKEN_CHARS = 10
"""No model has longer tokens on average, so a lower count is not plausible."""
DEFAULT_MAX_OUTPUT = 32_768
"""Output limit of models whose entry has no `max_tokens`."""
SIDE_CALL_OUTPUT, SIDE_CALL_SHARE = 8_192, 4
"""Output limit of calls outside the agent loop: this or a quarter of the remaining budget, so that a call that breaks
off does not use up everything."""
MIN_OUTPUT = 256
OUTPUT_AFTER_THINKING = 512
LIMIT_FIELDS = ("max_tokens", "max_output_tokens", "num_predict")
"""Fields for the output limit, as model classes name them."""
FREE_FAILURES = frozenset({"rate_limited", "quota", "auth", "rejected"})
"""Failures before the endpoint does any work, which cost nothing."""


def describe_call(
    caller: str,
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    *,
    tools: str = "",
    tool_bytes: int = 0,
    is_last: bool = False,
    default_max_output: int = DEFAULT_MAX_OUTPUT,
) -> ModelCallRequest:
    """Return the description of a call of `model`. `tools` names the tools whose schemas take `tool_bytes`.

    `default_max_output` limits the answer where the model entry has no lower limit.
    """
    system = [message for message in messages if isinstance(message, SystemMessage)]
    others = [message for message in messages if not isinstance(message, SystemMessage)]
    digest = hashlib.sha256("\n".join([tools, *(message.text for message in system)]).encode("utf-8", "replace"))
    prompt = PromptSize(
        fixed=tool_bytes + sum(map(max_message_bytes, system)),
        messages=sum(map(max_message_bytes, others)),
        fixed_key=digest.hexdigest(),
        after=next((message.id for message in reversed(others) if isinstance(message, AIMessage)), None),
        min_tokens=min_tokens(messages),
    )
    least = min_output(model)
    most = min(max_output(model), max(default_max_output, least))
    return ModelCallRequest(caller, get_model_name(model, None), prompt, most, min(most, least), is_last)


def max_message_bytes(message: BaseMessage) -> int:
    """Return an upper bound of the bytes a message adds to a request."""
    return BYTES_PER_TOKEN * count_message_tokens(message) + MESSAGE_BYTES


def min_tokens(messages: Sequence[BaseMessage]) -> int:
    """Return a lower bound of the tokens of the messages."""
    return sum(len(message.text) for message in messages) // MAX_TOKEN_CHARS


def max_output(model: BaseChatModel) -> int:
    """Return the output limit from the settings of the model."""
    configured = getattr(model, find_limit_field(model), None)
    return configured if isinstance(configured, int) and configured > 0 else DEFAULT_MAX_OUTPUT


def min_output(model: BaseChatModel) -> int:
    """Return the smallest useful output limit: endpoints reject a limit that thinking uses up."""
    thinking = getattr(model, "thinking", None)
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    return budget + OUTPUT_AFTER_THINKING if isinstance(budget, int) else MIN_OUTPUT


def find_limit_field(model: BaseChatModel) -> str:
    """Return the field of the model class that limits the output."""
    known = type(model).model_fields
    return next((name for name in LIMIT_FIELDS if name in known), LIMIT_FIELDS[0])


def limit_output(model: BaseChatModel, grant: Reservation) -> dict[str, Any]:
    """Return the model setting that keeps an answer within the reservation."""
    return {find_limit_field(model): grant.output_tokens}


def read_usage(message: AIMessage | None) -> ModelCallUsage | None:
    """Return the usage an answer reports; None when there is no answer."""
    if message is None:
        return None
    argument_chars = sum(len(str(call["args"])) for call in message.tool_calls)
    least = (len(message.text) + argument_chars) // MAX_TOKEN_CHARS
    return ModelCallUsage(read_counts(message), message.id, max_message_bytes(message), least)


@dataclass(slots=True)
class SettledCall:
    """Context manager that settles a reservation when the call ends, whatever its outcome."""

    budget: ModelBudget
    grant: Reservation
    answered: ModelCallUsage | None = field(default=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.budget.settle(self.grant, self.answered, is_rejected=is_free_failure(error))


def is_free_failure(error: BaseException | None) -> bool:
    """Return whether the endpoint refused the request before doing any work."""
    if not isinstance(error, Exception) or type(error) in (ModelError, ModelResponseTooLarge):
        return False
    failure = classify_failure(error)
    return failure is not None and failure.reason in FREE_FAILURES


async def ask_best_effort(
    budget: ModelBudget | None,
    caller: str,
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    config: RunnableConfig,
) -> AIMessage | None:
    """Return the answer to a call outside the agent loop; empty when it fails, None when the budget is used up."""
    empty: Runnable[Any, AIMessage] = RunnableLambda(lambda _: AIMessage(""))
    try:
        return await ask_within_budget(budget, caller, model, messages, config, empty)
    except BudgetSpent:
        return None


async def ask_within_budget(
    budget: ModelBudget | None,
    caller: str,
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    config: RunnableConfig,
    *fallbacks: Runnable[Any, AIMessage],
) -> AIMessage:
    """Return a model's answer within the budget, if there is one; `fallbacks` answer when the model fails.

    Raises:
        BudgetSpent: Not enough of the budget is left.
        ConfigError: The model has no pricing.
    """
    if budget is None:
        return await add_fallbacks(model, fallbacks).ainvoke(list(messages), config)
    grant = await budget.reserve(
        describe_call(caller, model, messages, default_max_output=max_side_call_output(budget))
    )
    with SettledCall(budget, grant) as call:
        answer = await add_fallbacks(model.bind(**limit_output(model, grant)), fallbacks).ainvoke(
            list(messages), config
        )
        call.answered = read_usage(answer) if answer.usage_metadata else None
    return answer


def max_side_call_output(budget: ModelBudget) -> int:
    """Return the output limit of a call outside the agent loop."""
    left = budget.get_remaining().max_tokens
    return DEFAULT_MAX_OUTPUT if left is None else max(SIDE_CALL_OUTPUT, left // SIDE_CALL_SHARE)


def add_fallbacks(
    model: Runnable[Any, AIMessage], fallbacks: Sequence[Runnable[Any, AIMessage]]
) -> Runnable[Any, AIMessage]:
    """Return the model with its fallbacks."""
    return model.with_fallbacks(list(fallbacks)) if fallbacks else model

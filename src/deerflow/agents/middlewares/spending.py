"""Model calls within the budget of a run: how long requests are, what is set aside for them, and what they took."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from deerflow.agents.metering import name_of
from deerflow.agents.middlewares.model_failures import recognise
from deerflow.agents.middlewares.tokens import BYTES_PER_TOKEN, message_tokens
from deerflow.domain.budget import Answered, Asking, Budget, BudgetSpent, Grant, PromptSize
from deerflow.domain.errors import ModelError
from deerflow.models.counting import counts_of

MESSAGE_BYTES = 64
"""What vendors put around a message, ids included."""
LONGEST_TOKEN = 10
"""On the average no model has tokens of more characters: who counts fewer is lying."""
USUAL_OUTPUT = 32_768
"""What an answer takes at most, where the entry of the model does not say (`max_tokens`)."""
BESIDE_OUTPUT, BESIDE_SHARE = 8_192, 4
"""The same for questions beside a run: this or a quarter of what is left, so that none takes all if it breaks off."""
LEAST_OUTPUT = 256
AFTER_THINKING = 512
LIMIT_NAMES = ("max_tokens", "max_output_tokens", "num_predict")
"""How classes of models call the limit of an answer."""
UNPAID = frozenset({"rate_limited", "quota", "auth", "rejected"})
"""Why an endpoint does not even begin, which costs nothing."""


def asking_for(
    caller: str,
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    *,
    tools: str = "",
    tool_bytes: int = 0,
    is_last: bool = False,
    most_said: int = USUAL_OUTPUT,
) -> Asking:
    """A call of `model`; `tools` names those that are described to it, in `tool_bytes`.

    `most_said` is what an answer takes at most where the entry of the model does not say less.
    """
    system = [message for message in messages if isinstance(message, SystemMessage)]
    others = [message for message in messages if not isinstance(message, SystemMessage)]
    digest = hashlib.sha256("\n".join([tools, *(message.text for message in system)]).encode("utf-8", "replace"))
    prompt = PromptSize(
        fixed=tool_bytes + sum(map(message_bytes, system)),
        messages=sum(map(message_bytes, others)),
        fixed_key=digest.hexdigest(),
        after=next((message.id for message in reversed(others) if isinstance(message, AIMessage)), None),
        least_tokens=least_tokens(messages),
    )
    least = least_output(model)
    most = min(most_output(model), max(most_said, least))
    return Asking(caller, name_of(model, None), prompt, most, min(most, least), is_last)


def message_bytes(message: BaseMessage) -> int:
    """What a message adds to a request at most."""
    return BYTES_PER_TOKEN * message_tokens(message) + MESSAGE_BYTES


def least_tokens(messages: Sequence[BaseMessage]) -> int:
    """What nobody can count less than."""
    return sum(len(message.text) for message in messages) // LONGEST_TOKEN


def most_output(model: BaseChatModel) -> int:
    """How long one answer can be by the model's own settings."""
    own = getattr(model, limit_name(model), None)
    return own if isinstance(own, int) and own > 0 else USUAL_OUTPUT


def least_output(model: BaseChatModel) -> int:
    """Below this there is no use in asking: endpoints refuse a limit that is all taken by thinking."""
    thinking = getattr(model, "thinking", None)
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    return budget + AFTER_THINKING if isinstance(budget, int) else LEAST_OUTPUT


def limit_name(model: BaseChatModel) -> str:
    """How the class of `model` calls the limit of an answer."""
    known = type(model).model_fields
    return next((name for name in LIMIT_NAMES if name in known), LIMIT_NAMES[0])


def limited(model: BaseChatModel, grant: Grant) -> dict[str, Any]:
    """The setting that keeps an answer within what was granted."""
    return {limit_name(model): grant.output_tokens}


def answered_by(message: AIMessage | None) -> Answered | None:
    """What an answer tells of what it took; None when there is none."""
    if message is None:
        return None
    called = sum(len(str(call["args"])) for call in message.tool_calls)
    least = (len(message.text) + called) // LONGEST_TOKEN
    return Answered(counts_of(message), message.id, message_bytes(message), least)


@dataclass(slots=True)
class Settling:
    """A call that is paid for: settled when it is over, whatever came of it."""

    budget: Budget
    grant: Grant
    answered: Answered | None = field(default=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.budget.settle(self.grant, self.answered, is_refused=is_refusal(error))


def is_refusal(error: BaseException | None) -> bool:
    """Whether an endpoint has refused a request before it did anything for it."""
    if not isinstance(error, Exception) or type(error) is ModelError:
        return False
    failure = recognise(error)
    return failure is not None and failure.reason in UNPAID


async def ask_beside(
    budget: Budget | None, caller: str, model: BaseChatModel, messages: Sequence[BaseMessage], config: RunnableConfig
) -> AIMessage | None:
    """What a model says for the sake of a run, but not in it; empty when it fails, None when it cannot be paid."""
    silence: Runnable[Any, AIMessage] = RunnableLambda(lambda _: AIMessage(""))
    try:
        return await ask_paid(budget, caller, model, messages, config, silence)
    except BudgetSpent:
        return None


async def ask_paid(
    budget: Budget | None,
    caller: str,
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    config: RunnableConfig,
    *instead: Runnable[Any, AIMessage],
) -> AIMessage:
    """What a model says within a budget, if there is one; `instead` answers when it fails.

    Raises:
        BudgetSpent: There is not enough left.
        ConfigError: Nobody knows what the model costs.
    """
    if budget is None:
        return await answering(model, instead).ainvoke(list(messages), config)
    grant = await budget.reserve(asking_for(caller, model, messages, most_said=most_beside(budget)))
    with Settling(budget, grant) as settling:
        said = await answering(model.bind(**limited(model, grant)), instead).ainvoke(list(messages), config)
        settling.answered = answered_by(said) if said.usage_metadata else None
    return said


def most_beside(budget: Budget) -> int:
    """How long the answer to a question beside a run can be."""
    left = budget.rest().max_tokens
    return USUAL_OUTPUT if left is None else max(BESIDE_OUTPUT, left // BESIDE_SHARE)


def answering(model: Runnable[Any, AIMessage], instead: Sequence[Runnable[Any, AIMessage]]) -> Runnable[Any, AIMessage]:
    """A model, and who answers in its place when it fails."""
    return model.with_fallbacks(list(instead)) if instead else model

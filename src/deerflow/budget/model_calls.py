"""Model calls of a run: request sizes, reservations, settled usage, and the prefix shared with the request before."""

import hashlib
import logging
from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import orjson
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.function_calling import convert_to_openai_tool

from deerflow.agent_support.compaction import SUMMARY_ID
from deerflow.agent_support.model_failures import classify_failure, get_model_name
from deerflow.agent_support.replies import HIDDEN
from deerflow.agent_support.tokens import BYTES_PER_TOKEN, CLIPPED, count_message_tokens
from deerflow.domain.errors import ModelError, ModelResponseTooLarge
from deerflow.domain.usage import (
    BreakCause,
    BudgetSpent,
    ModelBudget,
    ModelCallRequest,
    ModelCallUsage,
    PrefixBreak,
    Prompt,
    PromptSize,
    RequestPrefix,
    Reservation,
    ToolSchemas,
)
from deerflow.models.usage import read_counts

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable
    from langchain_core.tools import BaseTool

logger = logging.getLogger(__name__)

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
FREE_FAILURES = frozenset({"rate_limited", "quota", "auth", "unknown_model", "too_long", "rejected"})
"""Failures before the endpoint does any work, which cost nothing."""


def describe_call(
    caller: str,
    model: "BaseChatModel",
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


def max_output(model: "BaseChatModel") -> int:
    """Return the output limit from the settings of the model."""
    configured = getattr(model, find_limit_field(model), None)
    return configured if isinstance(configured, int) and configured > 0 else DEFAULT_MAX_OUTPUT


def min_output(model: "BaseChatModel") -> int:
    """Return the smallest useful output limit: endpoints reject a limit that thinking uses up."""
    thinking = getattr(model, "thinking", None)
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    return budget + OUTPUT_AFTER_THINKING if isinstance(budget, int) else MIN_OUTPUT


def find_limit_field(model: "BaseChatModel") -> str:
    """Return the field of the model class that limits the output."""
    known = type(model).model_fields
    return next((name for name in LIMIT_FIELDS if name in known), LIMIT_FIELDS[0])


def limit_output(model: "BaseChatModel", grant: Reservation) -> dict[str, Any]:
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
    model: "BaseChatModel",
    messages: Sequence[BaseMessage],
    config: RunnableConfig,
) -> AIMessage | None:
    """Return the answer to a call outside the agent loop; empty when it fails, None when the budget is used up.

    Raises:
        ConfigError: The model has no pricing.
    """
    try:
        return await ask_within_budget(budget, caller, model, messages, config, if_failed=AIMessage(""))
    except BudgetSpent:
        return None


async def ask_within_budget(
    budget: ModelBudget | None,
    caller: str,
    model: "BaseChatModel",
    messages: Sequence[BaseMessage],
    config: RunnableConfig,
    *,
    if_failed: AIMessage | None = None,
) -> AIMessage:
    """Return a model's answer within the budget, if there is one; `if_failed` is the answer when the model fails.

    Raises:
        BudgetSpent: Not enough of the budget is left.
        ConfigError: The model has no pricing.
    """
    if budget is None:
        return await _ask(model, messages, config, if_failed)
    grant = await budget.reserve(
        describe_call(caller, model, messages, default_max_output=max_side_call_output(budget))
    )
    with SettledCall(budget, grant) as call:
        answer = await _ask(model.bind(**limit_output(model, grant)), messages, config, if_failed)
        call.answered = read_usage(answer) if answer.usage_metadata else None
    return answer


async def _ask(
    model: "Runnable[Any, AIMessage]",
    messages: Sequence[BaseMessage],
    config: RunnableConfig,
    if_failed: AIMessage | None,
) -> AIMessage:
    try:
        return await model.ainvoke(list(messages), config)
    except Exception:  # the class is the vendor's and may raise anything
        if if_failed is None:
            raise
        return if_failed


def max_side_call_output(budget: ModelBudget) -> int:
    """Return the output limit of a call outside the agent loop."""
    left = budget.get_remaining().max_tokens
    return DEFAULT_MAX_OUTPUT if left is None else max(SIDE_CALL_OUTPUT, left // SIDE_CALL_SHARE)


MAX_CONVERSATIONS = 200
"""Number of conversations whose latest request is kept in memory: about 16 bytes per message."""
FIRST_MESSAGE = 2
"""Index of the first message in the segments of a request; before it come the tools and the system prompt."""
REWRITING: frozenset[BreakCause] = frozenset({"loaded", "changed"})
"""Causes for which the changed segment itself is read again. In the others it is new."""
SENT_FIELDS = ("reasoning_content", "reasoning_details", "tool_call_extras")
"""Keys of `additional_kwargs` that are sent to some models. The others are notes of the harness."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as a list of segments: its tools, its system prompt and each message."""

    run_id: str
    model: str
    tools: ToolSchemas
    loaded: frozenset[str]
    hashes: "array[int]"
    """By segment; the lowest bit is set for messages that the harness has added. Python salts hashes, so they are
    comparable in one process only."""
    tokens: "array[int]"
    """By segment, estimated."""


class SentRequests:
    """The latest request of each conversation. It is kept in memory only; the least recently used are dropped."""

    def __init__(self, limit: int = MAX_CONVERSATIONS) -> None:
        self._limit = limit
        self._latest: dict[Hashable, SentRequest] = {}

    def replace(self, conversation: Hashable, request: SentRequest) -> SentRequest | None:
        """Store the latest request of a conversation and return the one before; None when it is not known."""
        before = self._latest.pop(conversation, None)
        self._latest[conversation] = request
        if len(self._latest) > self._limit:
            del self._latest[next(iter(self._latest))]
        return before


class ConversationPrefix:
    """Compares the requests of one conversation in one run, and logs a warning if the harness breaks the prefix."""

    def __init__(self, run_id: str, sent: SentRequests, conversation: Hashable, warned: set[str] | None = None) -> None:
        """`warned` is shared by the conversations of a run, so that there is one warning at most."""
        self._run_id = run_id
        self._sent = sent
        self._conversation = conversation
        self._warned: set[str] = set() if warned is None else warned
        # By identity: messages are not modified, and hashing all of them for every request is expensive.
        self._known: dict[int, tuple[BaseMessage, int, int]] = {}

    def for_task(self) -> "ConversationPrefix":
        """Return the tracker for the conversation of a subagent, which ends with its task."""
        return ConversationPrefix(self._run_id, SentRequests(1), "task", self._warned)

    def compare(self, prompt: Prompt) -> RequestPrefix:
        """Return the prefix that a request shares with the one before."""
        now = self._describe(prompt)
        before, total = self._sent.replace(self._conversation, now), sum(now.tokens)
        if before is None:
            return RequestPrefix(total, None)
        common = count_common_segments(before.hashes, now.hashes)
        reused = sum(now.tokens[:common])
        if before.model != now.model:
            return RequestPrefix(total, 0, PrefixBreak("model", "model", reused, name=now.model))
        broken = find_break(before, now, common, prompt)
        if broken is not None and broken.cause == "changed" and before.run_id == now.run_id:
            self._warn(broken)
        return RequestPrefix(total, reused, broken)

    def _describe(self, prompt: Prompt) -> SentRequest:
        messages = [prompt.system or SystemMessage(""), *prompt.messages]
        known = self._known
        segments = [known.get(id(message)) or describe_message(message) for message in messages]
        self._known = {id(segment[0]): segment for segment in segments}
        hashes = array("q", [prompt.tools.hash, *(segment[1] for segment in segments)])
        tokens = array("q", [prompt.tools.tokens, *(segment[2] for segment in segments)])
        return SentRequest(self._run_id, prompt.model, prompt.tools, prompt.loaded, hashes, tokens)

    def _warn(self, broken: PrefixBreak) -> None:
        if self._run_id not in self._warned:
            self._warned.add(self._run_id)
            logger.warning(
                "run %s: %s changed, so the prefix cache does not cover %d tokens that were sent before",
                self._run_id,
                broken,
                broken.lost_tokens,
            )


def find_break(before: SentRequest, now: SentRequest, common: int, prompt: Prompt) -> PrefixBreak | None:
    """Return the break of the prefix after `common` segments.

    None when one request is the beginning of the other, or when only the end of the request before was left out.
    """
    if common == min(len(before.hashes), len(now.hashes)):
        return None
    rest = set(before.hashes[common:])
    after = zip(now.hashes[common:], now.tokens[common:], strict=True)
    lost = sum(tokens for segment, tokens in after if segment in rest)
    cause = find_cause(before, now, common, prompt)
    if cause in REWRITING and not before.hashes[common] & 1:
        lost += min(before.tokens[common], now.tokens[common])
    if cause == "changed" and not lost:
        return None
    if common >= FIRST_MESSAGE:
        message, position = prompt.messages[common - FIRST_MESSAGE], common - FIRST_MESSAGE + 1
        tool = message.name if isinstance(message, ToolMessage) else None
        return PrefixBreak("message", cause, lost, position, message.type, tool)
    if common == 1:
        return PrefixBreak("system_prompt", cause, lost)
    return PrefixBreak("tools", cause, lost, name=", ".join(sorted(before.tools.names ^ now.tools.names)) or None)


def find_cause(before: SentRequest, now: SentRequest, common: int, prompt: Prompt) -> BreakCause:
    """Return the reason why a request does not begin like the one before."""
    messages = prompt.messages
    if messages and messages[0].id == SUMMARY_ID and now.hashes[FIRST_MESSAGE] not in before.hashes:
        return "compacted"
    if common >= FIRST_MESSAGE and messages[common - FIRST_MESSAGE].additional_kwargs.get(CLIPPED):
        return "compacted"
    if before.loaded != now.loaded:
        return "loaded"
    is_gone = set(before.hashes[common:]).difference(now.hashes)
    if common >= FIRST_MESSAGE and before.run_id != now.run_id and any(not segment & 1 for segment in is_gone):
        return "edited"
    return "changed"


def count_common_segments(before: "array[int]", now: "array[int]") -> int:
    """Return the number of equal segments at the beginning of both requests."""
    if now[: len(before)] == before:
        return len(before)
    pairs = enumerate(zip(before, now, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(before), len(now)))


def describe_message(message: BaseMessage) -> tuple[BaseMessage, int, int]:
    """Return the message with a hash of what is sent of it, and its estimated tokens."""
    notes = message.additional_kwargs
    sent: list[Any] = [message.type, message.content, *(notes.get(key) for key in SENT_FIELDS)]
    if isinstance(message, AIMessage):
        calls = (*message.tool_calls, *message.invalid_tool_calls)
        sent += [(call["id"], call["name"], call["args"]) for call in calls]
    elif isinstance(message, ToolMessage):
        sent += [message.tool_call_id, message.status]
    return message, hash(to_hashable(sent)) & ~1 | bool(notes.get(HIDDEN)), count_message_tokens(message)


def describe_tools(tools: "Sequence[BaseTool | dict[str, Any]]") -> ToolSchemas:
    """Return the names, a hash and the estimated tokens of tools."""
    schemas = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in tools]
    names = frozenset(str(schema.get("function", schema).get("name")) for schema in schemas)
    content = to_hashable(schemas)
    return ToolSchemas(names, hash(content) & ~1, -(-len(content) // BYTES_PER_TOKEN))


def to_hashable(value: object) -> bytes | str:
    """Return the content of a segment as JSON, or as text if JSON cannot represent it."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError, RecursionError):
        return repr(value)

"""Compaction of long conversations: selection of the messages to drop and verification of their summary."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage

from deerflow.agent_support.replies import is_user_message
from deerflow.agent_support.tokens import clip_message, clip_text, count_message_tokens, count_text_tokens, count_tokens
from deerflow.domain.errors import ModelError

if TYPE_CHECKING:
    from langchain.agents.middleware.todo import Todo

PINNED = "pinned"
"""Key of messages that compaction never drops."""
SUMMARY_ID = "summary"
"""Id of the message that takes the place of the summarized ones."""
MIN_CLIP_TOKENS = 16
MAX_LITERAL_CHARS = 200
PUNCTUATION = ".,;:!?()[]{}<>\"'`*|"
REQUEST_CHARS = 200


@dataclass(frozen=True, slots=True)
class ConversationSplit:
    """Conversation split into dropped and kept messages, both in order."""

    dropped: Sequence[AnyMessage]
    kept: list[AnyMessage]


def find_latest_request(messages: Sequence[BaseMessage]) -> BaseMessage | None:
    """Return the latest message of the user."""
    return next((message for message in reversed(messages) if is_user_message(message)), None)


def split_conversation(messages: Sequence[AnyMessage], keep_messages: int, keep_tokens: int) -> ConversationSplit:
    """Keep the end of the conversation within both limits, plus the latest request and pinned messages.

    A tool call and its results stay together, and the current step is always kept.
    """
    start = _align_to_step(messages, _find_tail_start(messages, keep_messages, keep_tokens))
    request = find_latest_request(messages)
    stays = [
        index >= start or message is request or bool(message.additional_kwargs.get(PINNED))
        for index, message in enumerate(messages)
    ]
    asked = {call["id"] for message, stay in zip(messages, stays, strict=True) if stay for call in _list_calls(message)}
    stays = [
        message.tool_call_id in asked if isinstance(message, ToolMessage) else stay
        for message, stay in zip(messages, stays, strict=True)
    ]
    return ConversationSplit(
        [message for message, stay in zip(messages, stays, strict=True) if not stay],
        [message for message, stay in zip(messages, stays, strict=True) if stay],
    )


def fit_to_window(messages: Sequence[AnyMessage], room: int) -> list[AnyMessage]:
    """Return `messages` in at most `room` tokens. The longest messages are shortened first, the latest request last.

    Raises:
        ModelError: The messages do not fit even when each is cut to the minimum.
    """
    request = find_latest_request(messages)
    limit = max(MIN_CLIP_TOKENS, room // 2)
    fitted = list(messages)
    while count_tokens(fitted) > room and limit > MIN_CLIP_TOKENS:
        limit //= 2
        fitted = [message if message is request else clip_message(message, limit) for message in messages]
    excess = count_tokens(fitted) - room
    if excess > 0 and request is not None:
        left = max(MIN_CLIP_TOKENS, count_message_tokens(request) - excess)
        fitted = [clip_message(message, left) if message is request else message for message in fitted]
    if count_tokens(fitted) > room:
        raise ModelError(f"{len(messages)} messages do not fit into the {room} tokens the model has left for them")
    return fitted


def format_transcript(messages: Sequence[BaseMessage], limit: int) -> str:
    """Return the texts of the messages, each at most an equal share of `limit` tokens plus unused shares of others."""
    texts = [line for message in messages if (line := _format_line(message))]
    shortest_first = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    for place, index in enumerate(shortest_first):
        texts[index] = clip_text(texts[index], limit // (len(texts) - place))
        limit -= count_text_tokens(texts[index])
    return "\n".join(texts)


def verify_summary(
    summary: str, before: str, dropped: Sequence[BaseMessage], todos: "Sequence[Todo]", limit: int
) -> str:
    """Return a reliable summary within `limit` tokens from what the model wrote.

    Lines with a path or number that does not occur in the conversation are removed; when few lines are left, an extract
    replaces them. Open todos and literals missing from the summary are appended.
    """
    source = "\n".join([before, *map(_format_line, dropped)])
    lines = summary.strip().splitlines()
    honest = _select_verified_lines(lines, source)
    text = "\n".join(honest) if 2 * len(honest) > len(lines) else extract_summary(before, dropped, limit // 2)
    text = clip_text(text, limit // 2)
    if open_todos := [todo["content"] for todo in todos if todo["status"] != "completed"]:
        text += "\n\nStill to do:\n" + clip_text("\n".join(f"- {todo}" for todo in open_todos), limit // 4)
    return text + _list_missing_literals(text, before, dropped, limit // 4)


def extract_summary(before: str, dropped: Sequence[BaseMessage], limit: int) -> str:
    """Return a summary of `dropped` made without a model: the previous summary and the requests of the user."""
    asked = [f"- {_first_line(message.text)}" for message in dropped if is_user_message(message)]
    known = [clip_text(before, limit // 2)] if before else []
    return clip_text("\n".join([*known, "The user asked:", *asked]), limit)


def find_literals(text: str) -> list[str]:
    """Return the words that must not be changed: paths, URLs, dates, numbers of three digits and more."""
    words = (word.strip(PUNCTUATION) for word in text.split())
    return [word for word in words if len(word) <= MAX_LITERAL_CHARS and _is_literal(word)]


def _find_tail_start(messages: Sequence[AnyMessage], keep_messages: int, keep_tokens: int) -> int:
    start, tokens = len(messages), 0
    while start > 0 and len(messages) - start < keep_messages:
        tokens += count_message_tokens(messages[start - 1])
        if tokens > keep_tokens:
            break
        start -= 1
    return start


def _align_to_step(messages: Sequence[AnyMessage], start: int) -> int:
    """Return the first index from `start` on that separates no result from its call; the latest step stays whole."""
    places = [index for index, message in enumerate(messages) if not isinstance(message, ToolMessage)]
    after = next((index for index in places if index >= start), len(messages))
    steps = [index for index in places if isinstance(messages[index], AIMessage) or is_user_message(messages[index])]
    return min(after, steps[-1] if steps else 0)


def _list_calls(message: BaseMessage) -> Sequence[dict[str, object]]:
    return [*message.tool_calls, *message.invalid_tool_calls] if isinstance(message, AIMessage) else []  # type: ignore[list-item]


def _format_line(message: BaseMessage) -> str:
    calls = ", ".join(f"{call['name']}({call['args']})" for call in _list_calls(message))
    content = " → ".join(filter(None, [message.text.strip(), calls]))
    return f"{message.type}: {content}" if content else ""


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:REQUEST_CHARS]


def _is_literal(word: str) -> bool:
    return sum(map(str.isdigit, word)) >= 3 or ("/" in word[:-1] and len(word) > 3)


def _select_verified_lines(lines: Iterable[str], source: str) -> list[str]:
    known = {_strip_separators(word) for word in find_literals(source)}
    plain = _strip_separators(source)
    return [
        line
        for line in lines
        if all((bare := _strip_separators(word)) in known or bare in plain for word in find_literals(line))
    ]


def _strip_separators(text: str) -> str:
    """Remove thousands separators, which a summary may set differently."""
    return text.replace(",", "")


def _list_missing_literals(text: str, before: str, dropped: Sequence[BaseMessage], limit: int) -> str:
    """Return the literals missing from `text`, newest first: those of the user, then the others."""
    requests = [message.text for message in reversed(dropped) if is_user_message(message)]
    others = [_format_line(message) for message in reversed(dropped) if not is_user_message(message)]
    words = dict.fromkeys(word for part in [*requests, *others, before] for word in reversed(find_literals(part)))
    added: list[str] = []
    for word in words:
        if word in text:
            continue
        limit -= count_text_tokens(word) + 1
        if limit < 0:
            break
        added.append(word)
    return f"\n\nAlso mentioned: {', '.join(added)}" if added else ""

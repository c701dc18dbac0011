"""Which messages leave a conversation that became too long, and what stays known of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from langchain.agents.middleware.todo import Todo
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage

from deerflow.agents.middlewares.replies import is_from_a_person
from deerflow.agents.middlewares.tokens import clip_message, clip_text, message_tokens, text_tokens, total_tokens
from deerflow.domain.errors import ModelError

PINNED = "pinned"
"""Marks messages that stay in view for ever."""
SMALLEST_CLIP = 16
LONGEST_LITERAL = 200
PUNCTUATION = ".,;:!?()[]{}<>\"'`*|"
REQUEST_CHARS = 200


@dataclass(frozen=True, slots=True)
class Split:
    """A conversation in two: what leaves it, and what stays, both in order."""

    dropped: Sequence[AnyMessage]
    kept: list[AnyMessage]


def latest_request(messages: Sequence[BaseMessage]) -> BaseMessage | None:
    """What the user asked for last."""
    return next((message for message in reversed(messages) if is_from_a_person(message)), None)


def split(messages: Sequence[AnyMessage], keep_messages: int, keep_tokens: int) -> Split:
    """Keep the end, within both limits, and wherever they are the latest request and what is pinned.

    A tool call and its results go together, and the step under way always stays.
    """
    start = _whole_step(messages, _start_of_end(messages, keep_messages, keep_tokens))
    request = latest_request(messages)
    stays = [
        index >= start or message is request or bool(message.additional_kwargs.get(PINNED))
        for index, message in enumerate(messages)
    ]
    asked = {call["id"] for message, stay in zip(messages, stays, strict=True) if stay for call in _calls(message)}
    stays = [
        message.tool_call_id in asked if isinstance(message, ToolMessage) else stay
        for message, stay in zip(messages, stays, strict=True)
    ]
    return Split(
        [message for message, stay in zip(messages, stays, strict=True) if not stay],
        [message for message, stay in zip(messages, stays, strict=True) if stay],
    )


def fit(messages: Sequence[AnyMessage], room: int) -> list[AnyMessage]:
    """`messages` in at most `room` tokens: if they must, the longest are shortened, the latest request last of all.

    Raises:
        ModelError: there are too many messages even when each is cut to almost nothing.
    """
    request = latest_request(messages)
    limit = max(SMALLEST_CLIP, room // 2)
    fitted = list(messages)
    while total_tokens(fitted) > room and limit > SMALLEST_CLIP:
        limit //= 2
        fitted = [message if message is request else clip_message(message, limit) for message in messages]
    excess = total_tokens(fitted) - room
    if excess > 0 and request is not None:
        left = max(SMALLEST_CLIP, message_tokens(request) - excess)
        fitted = [clip_message(message, left) if message is request else message for message in fitted]
    if total_tokens(fitted) > room:
        raise ModelError(f"{len(messages)} messages do not fit into the {room} tokens the model has left for them")
    return fitted


def transcript(messages: Sequence[BaseMessage], limit: int) -> str:
    """What was said, each message at most an equal share of `limit` tokens; what short ones leave, long ones get."""
    texts = [line for message in messages if (line := _line(message))]
    shortest_first = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    for place, index in enumerate(shortest_first):
        texts[index] = clip_text(texts[index], limit // (len(texts) - place))
        limit -= text_tokens(texts[index])
    return "\n".join(texts)


def settle(summary: str, before: str, dropped: Sequence[BaseMessage], todos: Sequence[Todo], limit: int) -> str:
    """A summary that can be relied on, within `limit` tokens, whatever the model wrote.

    Lines that name a path or a number nobody mentioned are taken out; when little is left, an extract takes the place
    of the rest. Open todos, and literals the summary forgot, are added.
    """
    source = "\n".join([before, *map(_line, dropped)])
    lines = summary.strip().splitlines()
    honest = _honest_lines(lines, source)
    text = "\n".join(honest) if 2 * len(honest) > len(lines) else extract(before, dropped, limit // 2)
    text = clip_text(text, limit // 2)
    if open_todos := [todo["content"] for todo in todos if todo["status"] != "completed"]:
        text += "\n\nStill to do:\n" + clip_text("\n".join(f"- {todo}" for todo in open_todos), limit // 4)
    return text + _forgotten(text, before, dropped, limit // 4)


def extract(before: str, dropped: Sequence[BaseMessage], limit: int) -> str:
    """What can be said of `dropped` without a model: what was known before, and what the user asked for."""
    asked = [f"- {_first_line(message.text)}" for message in dropped if is_from_a_person(message)]
    known = [clip_text(before, limit // 2)] if before else []
    return clip_text("\n".join([*known, "The user asked:", *asked]), limit)


def literals(text: str) -> list[str]:
    """The words of `text` that must not be changed: paths, addresses, dates, numbers of three digits and more."""
    words = (word.strip(PUNCTUATION) for word in text.split())
    return [word for word in words if len(word) <= LONGEST_LITERAL and _is_literal(word)]


def _start_of_end(messages: Sequence[AnyMessage], keep_messages: int, keep_tokens: int) -> int:
    start, tokens = len(messages), 0
    while start > 0 and len(messages) - start < keep_messages:
        tokens += message_tokens(messages[start - 1])
        if tokens > keep_tokens:
            break
        start -= 1
    return start


def _whole_step(messages: Sequence[AnyMessage], start: int) -> int:
    """The first place from `start` on where no results would be cut from their calls; the latest step stays whole."""
    places = [index for index, message in enumerate(messages) if not isinstance(message, ToolMessage)]
    after = next((index for index in places if index >= start), len(messages))
    steps = [index for index in places if isinstance(messages[index], AIMessage) or is_from_a_person(messages[index])]
    return min(after, steps[-1] if steps else 0)


def _calls(message: BaseMessage) -> Sequence[dict[str, object]]:
    return [*message.tool_calls, *message.invalid_tool_calls] if isinstance(message, AIMessage) else []  # type: ignore[list-item]


def _line(message: BaseMessage) -> str:
    calls = ", ".join(f"{call['name']}({call['args']})" for call in _calls(message))
    said = " → ".join(filter(None, [message.text.strip(), calls]))
    return f"{message.type}: {said}" if said else ""


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:REQUEST_CHARS]


def _is_literal(word: str) -> bool:
    return sum(map(str.isdigit, word)) >= 3 or ("/" in word[:-1] and len(word) > 3)


def _honest_lines(lines: Iterable[str], source: str) -> list[str]:
    known = {_bare(word) for word in literals(source)}
    plain = _bare(source)
    return [line for line in lines if all((bare := _bare(word)) in known or bare in plain for word in literals(line))]


def _bare(text: str) -> str:
    """Without thousands separators, which a summary may set differently."""
    return text.replace(",", "")


def _forgotten(text: str, before: str, dropped: Sequence[BaseMessage], limit: int) -> str:
    """The literals that are not in `text`, newest first: those of the user, then the others."""
    mine = [message.text for message in reversed(dropped) if is_from_a_person(message)]
    others = [_line(message) for message in reversed(dropped) if not is_from_a_person(message)]
    words = dict.fromkeys(word for part in [*mine, *others, before] for word in reversed(literals(part)))
    added: list[str] = []
    for word in words:
        if word in text:
            continue
        limit -= text_tokens(word) + 1
        if limit < 0:
            break
        added.append(word)
    return f"\n\nAlso mentioned: {', '.join(added)}" if added else ""

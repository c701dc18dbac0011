"""State of a thread that graphs share between steps and runs."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NotRequired, TypeVar, cast, get_args, get_origin, get_type_hints
from uuid import NAMESPACE_OID, uuid5

from langchain.agents import AgentState
from langchain.agents.middleware.todo import Todo
from langchain_core.messages import AnyMessage, BaseMessage, BaseMessageChunk, RemoveMessage, message_chunk_to_message
from langchain_core.messages.utils import convert_to_messages
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

SNAPSHOT_FREQUENCY = 50
"""300 turns: 10 → 9.0 MB, 17 ms a turn; 50 → 4.7 MB, 17 ms; 200 → 3.8 MB, 20 ms; 1000 → 3.6 MB, 37 ms.
2,000 turns: 50 → 39 MB, 20 ms; 200 → 33 MB, 28 ms."""


MAX_SKILLS = 8
"""Number of skills a thread remembers."""


class SandboxState(TypedDict):
    """Sandbox of the thread."""

    sandbox_id: str


class ThreadData(TypedDict):
    """Directories of the thread."""

    workspace_path: str
    uploads_path: str
    outputs_path: str


class ViewedImage(TypedDict):
    """Image the model asked to see."""

    mime_type: str
    size: int


class ActiveSkill(TypedDict):
    """Skill that was given to the agent or read by it."""

    name: str
    path: str
    description: str
    loaded_at: str
    run_id: str
    """Run in which the skill is active."""
    message_id: NotRequired[str | None]
    """Message that asked for it; None when the agent read the skill itself."""


def merge_messages(state: Sequence[AnyMessage], writes: Sequence[Any]) -> list[AnyMessage]:
    """Return `state` after `writes`, each of which adds, replaces (by id) and removes messages as `add_messages` does.

    Linear, and independent of how the writes are grouped, so a thread can be restored from its writes.
    Removing a missing message has no effect: a thread must never become unreadable.
    """
    messages = {message.id: message for message in state}
    for write in writes:
        _apply(messages, _to_messages(write))
    return list(messages.values())


def merge_artifacts(known: list[str] | None, new: list[str] | None) -> list[str]:
    """Return both lists in order, each path once."""
    return list(dict.fromkeys(each for each in (*as_list(known), *as_list(new)) if isinstance(each, str)))


def merge_viewed_images(
    known: dict[str, ViewedImage] | None, new: dict[str, ViewedImage] | None
) -> dict[str, ViewedImage]:
    """Return both mappings merged; an empty `new` clears."""
    if new is None:
        return as_dict(known)
    return {**as_dict(known), **as_dict(new)} if new else {}


def merge_skill_context(known: list[ActiveSkill] | None, new: list[ActiveSkill] | None) -> list[ActiveSkill]:
    """Return the latest skills of both lists, each once and as it was last loaded."""
    by_path: dict[str, Any] = {}
    for skill in (*as_list(known), *as_list(new)):
        if isinstance(skill, dict) and isinstance(skill.get("path"), str):
            by_path.pop(skill["path"], None)
            by_path[skill["path"]] = skill
    return list(by_path.values())[-MAX_SKILLS:]


def merge_promoted(known: dict[str, str] | None, new: dict[str, str] | None) -> dict[str, str]:
    """Return both mappings merged; `new` wins."""
    return {**as_dict(known), **as_dict(new)}


def as_list(value: Any) -> list[Any]:
    """Return `value`, or an empty list in place of what earlier versions stored without looking at its type."""
    return value if isinstance(value, list) else []


def as_dict(value: Any) -> dict[str, Any]:
    """Return `value`, or an empty mapping in place of what earlier versions stored without looking at its type."""
    return value if isinstance(value, dict) else {}


UNKNOWN_SOURCE = "unknown"


def merge_untrusted(known: list[str] | None, new: list[str] | None) -> list[str]:
    """Return the sources of both lists, each once. What is no source is an unknown one: taint is never lost."""
    return list(dict.fromkeys((*iterate_sources(known), *iterate_sources(new))))


def iterate_sources(value: Any) -> Iterator[str]:
    """Yield the sources of untrusted content in a value of any type."""
    for each in value if isinstance(value, list) else [value] if value else ():
        yield each if isinstance(each, str) and isinstance(value, list) else UNKNOWN_SOURCE


def keep_if_none(known: Value | None, new: Value | None) -> Value | None:
    """Return the new value, or the old one when the new one is None."""
    return known if new is None else new


class ThreadState(AgentState[Any]):
    """State shared by all agents of this project."""

    messages: Annotated[list[AnyMessage], DeltaChannel(merge_messages, snapshot_frequency=SNAPSHOT_FREQUENCY)]
    # Several tools of one step may write the same value.
    sandbox: NotRequired[Annotated[SandboxState | None, keep_if_none]]
    thread_data: NotRequired[ThreadData | None]
    title: NotRequired[str | None]
    artifacts: NotRequired[Annotated[list[str], merge_artifacts]]
    todos: NotRequired[Annotated[list[Todo] | None, keep_if_none]]
    uploaded_files: NotRequired[list[dict[str, Any]] | None]
    skill_context: NotRequired[Annotated[list[ActiveSkill], merge_skill_context]]
    viewed_images: NotRequired[Annotated[dict[str, ViewedImage], merge_viewed_images]]
    # Deferred tools the model has loaded, with digests of their descriptions.
    promoted: NotRequired[Annotated[dict[str, str], merge_promoted]]
    # Sources of untrusted content read in the thread; never removed.
    untrusted: NotRequired[Annotated[list[str], merge_untrusted]]


SERVER_VALUES = frozenset({"sandbox", "thread_data"})
"""Values that only the server sets."""


@cache
def value_adapters() -> Mapping[str, TypeAdapter[Any]]:
    """Return the validators of the values of a state, except messages."""
    hints = get_type_hints(ThreadState, include_extras=True)
    bare = {name: get_args(hint)[0] if get_origin(hint) is NotRequired else hint for name, hint in hints.items()}
    plain = {name: get_args(hint)[0] if get_origin(hint) is Annotated else hint for name, hint in bare.items()}
    return {name: TypeAdapter(hint) for name, hint in plain.items() if name in ThreadState.__annotations__}


def read_value(state: Mapping[str, Any], name: str) -> Any:
    """Return a value of a state without the parts of other types that earlier versions stored; None for no value."""
    value, adapter = state.get(name), value_adapters()[name]
    if value is None or is_valid(adapter, value):
        return value
    if isinstance(value, list):
        return [each for each in value if is_valid(adapter, [each])]
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if is_valid(adapter, {key: each})}
    return None


def is_valid(adapter: TypeAdapter[Any], value: object) -> bool:
    """Return whether a value has the type of an adapter."""
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def check_state_values(values: Mapping[str, object]) -> None:
    """Check the types of values that a client wants to set.

    Raises:
        ValueError: A value has another type, or only the server sets it; the text says which.
    """
    for name, value in values.items():
        if name in SERVER_VALUES:
            raise ValueError(f"{name!r} is set by the server")
        if name == "messages" or name not in value_adapters() or value is None:
            continue
        try:
            value_adapters()[name].validate_python(value, strict=True)
        except ValidationError as problem:
            first = problem.errors()[0]
            where = ".".join(map(str, (name, *first["loc"])))
            raise ValueError(f"{where!r} is invalid: {first['msg']}") from None


def _apply(messages: dict[str | None, AnyMessage], write: Iterable[AnyMessage]) -> None:
    """Apply one write to `messages`; a replaced message keeps its position."""
    gone: set[str | None] = set()
    for message in write:
        if message.id == REMOVE_ALL_MESSAGES:
            messages.clear()
            gone.clear()
        elif isinstance(message, RemoveMessage):
            gone.add(message.id)
        else:
            named = message if message.id else _with_id(message, messages)
            gone.discard(named.id)
            messages[named.id] = named
    for id_ in gone:
        messages.pop(id_, None)


def _to_messages(write: Any) -> list[AnyMessage]:
    """Return a write as complete messages."""
    given = [message for each in (write if isinstance(write, list) else [write]) for message in _to_message(each)]
    whole = [
        message_chunk_to_message(message) if isinstance(message, BaseMessageChunk) else message for message in given
    ]
    return cast(list[AnyMessage], whole)


def _to_message(given: Any) -> list[BaseMessage]:
    """Return a message; nothing for what is none: a thread must never become unreadable."""
    try:
        return convert_to_messages([given])
    except (ValueError, TypeError, AttributeError, LookupError, NotImplementedError):
        logger.warning("a value that is not a message was left out of a thread")
        return []


def _with_id(message: AnyMessage, messages: Iterable[str | None]) -> AnyMessage:
    """Return `message` with a deterministic id (LangGraph assigns ids to everything but plain strings)."""
    known = set(messages)
    text = message.text.encode("utf-8", "replace").decode()  # tool output may contain lone surrogates
    id_ = str(uuid5(NAMESPACE_OID, f"{len(known)} {message.type} {text}"))
    while id_ in known:
        id_ = str(uuid5(NAMESPACE_OID, id_))
    return message.model_copy(update={"id": id_})

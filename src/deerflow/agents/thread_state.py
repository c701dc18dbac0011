"""What a thread remembers between the steps of a run and from one run to the next."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NotRequired, TypeVar, cast
from uuid import NAMESPACE_OID, uuid5

from langchain.agents import AgentState
from langchain.agents.middleware.todo import Todo
from langchain_core.messages import AnyMessage, BaseMessageChunk, RemoveMessage, message_chunk_to_message
from langchain_core.messages.utils import convert_to_messages
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from typing_extensions import TypedDict

Given = TypeVar("Given")

SNAPSHOT_FREQUENCY = 50
"""300 turns: 10 → 9.0 MB, 17 ms a turn; 50 → 4.7 MB, 17 ms; 200 → 3.8 MB, 20 ms; 1000 → 3.6 MB, 37 ms.
2,000 turns: 50 → 39 MB, 20 ms; 200 → 33 MB, 28 ms."""


MAX_SKILLS = 8
"""So many skills does a thread remember to have used."""


class SandboxState(TypedDict):
    """The sandbox a thread works in."""

    sandbox_id: str


class ThreadData(TypedDict):
    """Where a thread's files are."""

    workspace_path: str
    uploads_path: str
    outputs_path: str


class ViewedImage(TypedDict):
    """An image the model asked to see."""

    mime_type: str
    size: int


class ActiveSkill(TypedDict):
    """A skill that the agent was given, or has read."""

    name: str
    path: str
    description: str
    loaded_at: str
    run_id: str
    """The run in which it is active."""
    message_id: NotRequired[str | None]
    """The message that asked for it; None when the agent has read it by itself."""


def merge_messages(state: Sequence[AnyMessage], writes: Sequence[Any]) -> list[AnyMessage]:
    """`state` after `writes`, each of which adds, replaces (by id) and removes as `add_messages` would have it.

    Linear, and the same however the writes are grouped, so that a thread can be read back from what was written.
    Removing what is not there does nothing: a thread must never become unreadable.
    """
    messages = {message.id: message for message in state}
    for write in writes:
        _apply(messages, _to_messages(write))
    return list(messages.values())


def merge_artifacts(known: list[str] | None, new: list[str] | None) -> list[str]:
    """Both lists in order, each path once."""
    return list(dict.fromkeys([*(known or ()), *(new or ())]))


def merge_viewed_images(
    known: dict[str, ViewedImage] | None, new: dict[str, ViewedImage] | None
) -> dict[str, ViewedImage]:
    """Both together; an empty `new` clears."""
    if new is None:
        return known or {}
    return {**(known or {}), **new} if new else {}


def merge_skill_context(known: list[ActiveSkill] | None, new: list[ActiveSkill] | None) -> list[ActiveSkill]:
    """Both together, each skill once and as it was last loaded; the latest of them."""
    by_path: dict[str, ActiveSkill] = {}
    for skill in (*(known or ()), *(new or ())):
        by_path.pop(skill["path"], None)
        by_path[skill["path"]] = skill
    return list(by_path.values())[-MAX_SKILLS:]


def merge_promoted(known: dict[str, str] | None, new: dict[str, str] | None) -> dict[str, str]:
    """Both together; what was told last of a tool holds."""
    return {**(known or {}), **(new or {})}


def keep_unless_given(known: Given | None, new: Given | None) -> Given | None:
    """The new value, or the old one when there is no new one."""
    return known if new is None else new


class ThreadState(AgentState[Any]):
    """The state every agent of this project shares."""

    messages: Annotated[list[AnyMessage], DeltaChannel(merge_messages, snapshot_frequency=SNAPSHOT_FREQUENCY)]
    # Several tools of one step may say the same.
    sandbox: NotRequired[Annotated[SandboxState | None, keep_unless_given]]
    thread_data: NotRequired[ThreadData | None]
    title: NotRequired[str | None]
    artifacts: NotRequired[Annotated[list[str], merge_artifacts]]
    todos: NotRequired[Annotated[list[Todo] | None, keep_unless_given]]
    uploaded_files: NotRequired[list[dict[str, Any]] | None]
    skill_context: NotRequired[Annotated[list[ActiveSkill], merge_skill_context]]
    viewed_images: NotRequired[Annotated[dict[str, ViewedImage], merge_viewed_images]]
    # Tools that had to be asked for, with digests of how they were described.
    promoted: NotRequired[Annotated[dict[str, str], merge_promoted]]
    # Whose words were read in the thread, besides those of its people; nothing takes a name out again.
    untrusted: NotRequired[Annotated[list[str], merge_artifacts]]


def _apply(messages: dict[str | None, AnyMessage], write: Iterable[AnyMessage]) -> None:
    """Take one write into `messages`, where what is replaced keeps its place."""
    gone: set[str | None] = set()
    for message in write:
        if message.id == REMOVE_ALL_MESSAGES:
            messages.clear()
            gone.clear()
        elif isinstance(message, RemoveMessage):
            gone.add(message.id)
        else:
            named = message if message.id else _named(message, messages)
            gone.discard(named.id)
            messages[named.id] = named
    for id_ in gone:
        messages.pop(id_, None)


def _to_messages(write: Any) -> list[AnyMessage]:
    """A write as whole messages, whatever form it came in."""
    given = convert_to_messages(write if isinstance(write, list) else [write])
    whole = [
        message_chunk_to_message(message) if isinstance(message, BaseMessageChunk) else message for message in given
    ]
    return cast(list[AnyMessage], whole)


def _named(message: AnyMessage, messages: Iterable[str | None]) -> AnyMessage:
    """`message` with an id that is the same whenever the write is read back (LangGraph names all but bare texts)."""
    known = set(messages)
    text = message.text.encode("utf-8", "replace").decode()  # tools may say half a character
    id_ = str(uuid5(NAMESPACE_OID, f"{len(known)} {message.type} {text}"))
    while id_ in known:
        id_ = str(uuid5(NAMESPACE_OID, id_))
    return message.model_copy(update={"id": id_})

"""What an editor sends as a prompt, as a message for the agent; and messages of a thread as an editor shows them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acp import update_user_message_text
from acp.helpers import ContentBlock, SessionUpdate
from acp.schema import (
    EmbeddedResourceContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from deerflow.client.events import text_of
from deerflow.domain.errors import InvalidRequest
from deerflow.serving.acp_projects import Project
from deerflow.serving.acp_updates import Narrator
from deerflow.serving.happenings import Called, Returned, Said

NOTE_END = "</project>\n\n"


def message_of(prompt: Sequence[ContentBlock], project: Project) -> str:
    """The text of a prompt, with files called by the paths the agent knows.

    Raises:
        InvalidRequest: There is something in it that cannot be read here, or nothing.
    """
    text = "".join(part_of(block, project) for block in prompt).strip()
    if not text:
        raise InvalidRequest("there is nothing to send: the prompt is empty")
    return text


def part_of(block: ContentBlock, project: Project) -> str:
    """The text of one part of a prompt."""
    match block:
        case TextContentBlock(text=text):
            return text
        case ResourceContentBlock(name=name, uri=uri):
            return f"[{name}]({project.inside(uri)})"
        case EmbeddedResourceContentBlock(resource=TextResourceContents(uri=uri, text=text)):
            return f'\n<file path="{project.inside(uri)}">\n{text}\n</file>\n'
    raise InvalidRequest(f"prompts may have text and files in them, not {block.type!r}")


def replayed(messages: Sequence[Mapping[str, Any]], narrator: Narrator) -> Iterator[SessionUpdate]:
    """What was said in a thread, as it would have been told when it was said."""
    for message in messages:
        if message["additional_kwargs"].get("hide_from_ui"):
            continue
        text = text_of(message["content"])
        if message["type"] == "human":
            yield update_user_message_text(without_note(text))
        elif message["type"] == "ai":
            yield from narrator.tell(Said(text)) if text else ()
            for call in message["tool_calls"]:
                yield from narrator.tell(Called(call["id"], call["name"], call["args"]))
        elif message["type"] == "tool":
            failed = message["status"] == "error"
            yield from narrator.tell(Returned(message["tool_call_id"], message["name"] or "", text, failed))


def without_note(text: str) -> str:
    """What the user has said, without what the agent was told along with it."""
    return text.partition(NOTE_END)[2] if text.startswith("<project>") and NOTE_END in text else text

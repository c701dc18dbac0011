"""What an editor sends as a prompt, as a message for the agent; and messages of a thread as an editor shows them."""

import base64
import binascii
import mimetypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from acp import update_user_message_text
from acp.helpers import ContentBlock, SessionUpdate
from acp.schema import (
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from deerflow.client.events import text_of
from deerflow.domain.errors import InvalidRequest
from deerflow.serving.acp_projects import Project
from deerflow.serving.acp_updates import Narrator
from deerflow.serving.happenings import Called, Returned, Said

NOTE = "\n\n<project>"
"""How what the agent is told along with a message begins."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A file that came with a prompt."""

    name: str
    content: bytes


Part = str | Attached


def parts_of(prompt: Sequence[ContentBlock], project: Project) -> list[Part]:
    """A prompt as texts and files, with files of the project called by the paths the agent knows.

    Raises:
        InvalidRequest: There is something in it that cannot be read here, or nothing.
    """
    parts = [part_of(block, project) for block in prompt]
    if not any(part.strip() if isinstance(part, str) else True for part in parts):
        raise InvalidRequest("there is nothing to send: the prompt is empty")
    return parts


def part_of(block: ContentBlock, project: Project) -> Part:
    """One part of a prompt."""
    match block:
        case TextContentBlock(text=text):
            return text
        case ResourceContentBlock(name=name, uri=uri):
            return f"[{name}]({project.inside(uri)})"
        case EmbeddedResourceContentBlock(resource=TextResourceContents(uri=uri, text=text)):
            return f'\n<file path="{project.inside(uri)}">\n{text}\n</file>\n'
        case EmbeddedResourceContentBlock(resource=BlobResourceContents(uri=uri, blob=blob)):
            return Attached(PurePosixPath(unquote(urlsplit(uri).path)).name or "file", decoded(blob))
        case ImageContentBlock(data=data, mime_type=kind):
            return Attached(f"image{mimetypes.guess_extension(kind) or ''}", decoded(data))
    raise InvalidRequest(f"prompts may have text, pictures and files in them, not {block.type!r}")


def decoded(data: str) -> bytes:
    """What base64 says.

    Raises:
        InvalidRequest: It is none.
    """
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("a picture or file in the prompt is not base64") from None


def replayed(messages: Sequence[Mapping[str, Any]], narrator: Narrator) -> Iterator[SessionUpdate]:
    """What was said in a thread, as it would have been told when it was said."""
    for message in messages:
        if message["additional_kwargs"].get("hide_from_ui"):
            continue
        text = text_of(message["content"])
        if message["type"] == "human":
            yield update_user_message_text(text.partition(NOTE)[0])
        elif message["type"] == "ai":
            yield from narrator.tell(Said(text)) if text else ()
            for call in message["tool_calls"]:
                yield from narrator.tell(Called(call["id"], call["name"], call["args"]))
        elif message["type"] == "tool":
            failed = message["status"] == "error"
            yield from narrator.tell(Returned(message["tool_call_id"], message["name"] or "", text, failed))

"""What servers say, in the words of agents: content blocks for results, cards for what there is."""

import json
from collections.abc import Iterable

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Prompt,
    Resource,
    ResourceLink,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
)

from deerflow.mcp.calls import Block, CallResult
from deerflow.mcp.status import PromptCard, ResourceCard, ToolCard

MAX_IMAGES = 8
MAX_IMAGE_CHARS = 7_000_000
"""Of base64: about 5 MB, which is as much as vendors take."""
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
MAX_TEXT_BESIDE_IMAGES = 20_000
MAX_DESCRIPTION = 10_000
NOTHING = "(the tool said nothing)"
LEFT_OUT = "\n[… the rest was left out …]"


def to_result(said: CallToolResult) -> CallResult:
    """The result of a call. Nothing in it makes anybody fetch something: links stay text."""
    blocks = [to_block(content) for content in said.content]
    if any(block["type"] == "image" for block in blocks):
        blocks = within_limits(blocks)
    if not blocks:
        data = said.structuredContent
        blocks = [text(NOTHING if data is None else json.dumps(data, ensure_ascii=False))]
    return CallResult(tuple(blocks), said.structuredContent, said.isError)


def within_limits(blocks: Iterable[Block]) -> list[Block]:
    """The first images, and as much text as goes with images: no file can take the rest of such a result."""
    kept: list[Block] = []
    images, room = MAX_IMAGES, MAX_TEXT_BESIDE_IMAGES
    for block in blocks:
        if block["type"] != "image":
            cut = len(block["text"]) > room
            kept.append(text(block["text"][:room] + (LEFT_OUT if cut else "")))
            room -= len(kept[-1]["text"][:room])
        elif images:
            images -= 1
            kept.append(block)
        else:
            kept.append(text(f"[one more image was left out: {MAX_IMAGES} are shown at most]"))
    return kept


def to_block(content: ContentBlock) -> Block:
    """One piece of a result."""
    match content:
        case TextContent():
            return text(content.text)
        case ImageContent():
            return image(content.data, content.mimeType)
        case AudioContent():
            return text(f"[audio, {content.mimeType}, {len(content.data) * 3 // 4} bytes: cannot be played here]")
        case ResourceLink():
            about = ", ".join(part for part in (content.name, content.mimeType, content.description) if part)
            return text(f"[resource {content.uri}: {about}]")
        case EmbeddedResource():
            return resource(content)


def resource(content: EmbeddedResource) -> Block:
    """Something to read that came along."""
    held = content.resource
    if isinstance(held, TextResourceContents):
        return text(f"[resource {held.uri}]\n{held.text}")
    assert isinstance(held, BlobResourceContents)
    if (held.mimeType or "") in IMAGE_TYPES:
        return image(held.blob, held.mimeType or "")
    kind = held.mimeType or "of an unknown type"
    return text(f"[resource {held.uri}, {kind}, {len(held.blob) * 3 // 4} bytes: no text]")


def image(data: str, mime_type: str) -> Block:
    """An image that models can look at, or a note that there was one."""
    if mime_type not in IMAGE_TYPES:
        return text(f"[image of the type {mime_type}, which cannot be shown]")
    if len(data) > MAX_IMAGE_CHARS:
        return text(f"[image of {len(data) * 3 // 4} bytes, more than can be shown]")
    return {"type": "image", "base64": data, "mime_type": mime_type}


def text(said: str) -> Block:
    """Words."""
    return {"type": "text", "text": said}


def tool_cards(tools: Iterable[Tool]) -> tuple[ToolCard, ...]:
    """The tools of a server."""
    return tuple(
        ToolCard(
            name=tool.name,
            description=(tool.description or "")[:MAX_DESCRIPTION],
            input_schema=tool.inputSchema,
            output_schema=tool.outputSchema,
            annotations=tool.annotations.model_dump(exclude_none=True) if tool.annotations else {},
            title=tool.title or "",
        )
        for tool in tools
    )


def resource_cards(resources: Iterable[Resource], templates: Iterable[ResourceTemplate]) -> tuple[ResourceCard, ...]:
    """What there is to read at a server."""
    plain = (ResourceCard(str(each.uri), each.name, each.description or "", each.mimeType or "") for each in resources)
    open_ended = (
        ResourceCard(each.uriTemplate, each.name, each.description or "", each.mimeType or "") for each in templates
    )
    return (*plain, *open_ended)


def prompt_cards(prompts: Iterable[Prompt]) -> tuple[PromptCard, ...]:
    """The prompts of a server."""
    return tuple(
        PromptCard(each.name, each.description or "", tuple(argument.name for argument in each.arguments or ()))
        for each in prompts
    )

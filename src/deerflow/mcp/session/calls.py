"""Tool calls between tools and sessions, and their results as message content."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

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

from deerflow.community.web.http import TlsTrust
from deerflow.config.sections.extensions import McpServerConfig
from deerflow.mcp.auth.tokens import TokenProvider
from deerflow.mcp.status import McpPromptInfo, McpResourceInfo, McpToolInfo, ServerListing
from deerflow.sandbox.jobs.services import Service, ServiceSpec

Block = dict[str, Any]
"""Content block of LangChain."""
ProgressHandler = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Server with its configuration, and the user and thread it works for."""

    server: str
    config: McpServerConfig
    config_key: str
    user_id: str
    thread_id: str | None
    """None for all threads of the user, or to list the server."""


@dataclass(frozen=True, slots=True)
class McpToolCall:
    """Call of a tool."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    can_ask: bool = True
    """True if a user can answer questions of the server."""
    on_progress: ProgressHandler = field(default=lambda text: None, compare=False)
    """Called with progress messages."""


@dataclass(frozen=True, slots=True)
class McpCallResult:
    """Result of a tool call."""

    blocks: tuple[Block, ...]
    structured: Mapping[str, Any] | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Elicitation:
    """Question of a server to the user during a call."""

    message: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    url: str | None = None
    """URL to open, for input that must not pass through us."""


@dataclass(frozen=True, slots=True)
class ElicitationReply:
    """Answer of the user to a question."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None


class PendingCall(Protocol):
    """Call in progress; it continues while its run is paused."""

    @property
    def answered(self) -> tuple[Elicitation, ...]:
        """Return the questions answered so far."""
        ...

    async def wait(self) -> "McpCallResult | Elicitation":
        """Return the result, or a question that has to be answered first.

        Raises:
            McpServerError: The call has failed; the text says why.
        """
        ...

    def answer(self, reply: ElicitationReply) -> None:
        """Answer the question that `wait` has returned."""
        ...

    def cancel(self) -> None:
        """Cancel the call at the server. A server that does not answer a ping afterwards is stopped."""
        ...

    async def time_out(self) -> bool:
        """Cancel the call, and return whether the server still answers; one that does not is stopped."""
        ...


class McpSession(Protocol):
    """Open connection to a server."""

    @property
    def is_over(self) -> bool: ...

    @property
    def is_busy(self) -> bool:
        """Return whether a call is in progress whose run is not paused."""
        ...

    @property
    def log(self) -> str:
        """Last part of what the process of the server has printed to standard error."""
        ...

    async def open(self) -> ServerListing:
        """Connect and return the listing; called once.

        Raises:
            McpServerError: The connection failed; the text says why.
            LoginRequired: The user has to log in first.
        """
        ...

    def begin(self, request: McpToolCall) -> PendingCall:
        """Start a call."""
        ...

    def find(self, request: McpToolCall) -> PendingCall | None:
        """Return the same call if it was started before and its run was paused."""
        ...

    async def aclose(self) -> None:
        """End the session and the process started for it."""
        ...


def retrieve_exception(task: "asyncio.Task[Any]") -> None:
    """Mark the exception of a task as retrieved, as a done callback: those who wait for the task handle it."""
    if not task.cancelled():
        task.exception()


@dataclass(frozen=True, slots=True)
class SessionDependencies:
    """Services that sessions need."""

    start: Callable[[ServiceSpec], Awaitable[Service]]
    tokens: TokenProvider
    prune_homes: Callable[[Collection[str]], Awaitable[None]] | None = None
    """Removes the home folders of processes whose entry no longer exists."""
    trust: TlsTrust = field(default_factory=TlsTrust)


MAX_IMAGES = 8
MAX_IMAGE_CHARS = 7_000_000
"""Characters of base64: about 5 MB, the limit of vendors."""
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
MAX_TEXT_WITH_IMAGES = 20_000
MAX_DESCRIPTION = 10_000
MAX_SCHEMA_DEPTH = 64
"""Depth of schemas; code that walks through deeper ones would fail."""
EMPTY_RESULT = "(the tool said nothing)"
CUT_NOTE = "\n[… the rest was left out …]"


def to_result(result: CallToolResult) -> McpCallResult:
    """Return the result of a call. Links stay text: nothing is fetched."""
    blocks = [to_block(content) for content in result.content]
    if any(block["type"] == "image" for block in blocks):
        blocks = limit_blocks(blocks)
    if not blocks:
        data = result.structuredContent
        blocks = [text_block(EMPTY_RESULT if data is None else json.dumps(data, ensure_ascii=False))]
    return McpCallResult(tuple(blocks), result.structuredContent, result.isError)


def limit_blocks(blocks: Iterable[Block]) -> list[Block]:
    """Return the first images and a limited amount of text: a result with images cannot be moved to a file."""
    kept: list[Block] = []
    images, room = MAX_IMAGES, MAX_TEXT_WITH_IMAGES
    for block in blocks:
        if block["type"] != "image":
            cut = len(block["text"]) > room
            kept.append(text_block(block["text"][:room] + (CUT_NOTE if cut else "")))
            room -= len(kept[-1]["text"][:room])
        elif images:
            images -= 1
            kept.append(block)
        else:
            kept.append(text_block(f"[one more image was left out: {MAX_IMAGES} are shown at most]"))
    return kept


def to_block(content: ContentBlock) -> Block:
    """Return the block of one content part."""
    match content:
        case TextContent():
            return text_block(content.text)
        case ImageContent():
            return image_block(content.data, content.mimeType)
        case AudioContent():
            return text_block(f"[audio, {content.mimeType}, {len(content.data) * 3 // 4} bytes: cannot be played here]")
        case ResourceLink():
            about = ", ".join(part for part in (content.name, content.mimeType, content.description) if part)
            return text_block(f"[resource {content.uri}: {about}]")
        case EmbeddedResource():
            return resource_block(content)


def resource_block(content: EmbeddedResource) -> Block:
    """Return the block of an embedded resource."""
    held = content.resource
    if isinstance(held, TextResourceContents):
        return text_block(f"[resource {held.uri}]\n{held.text}")
    assert isinstance(held, BlobResourceContents)
    if (held.mimeType or "") in IMAGE_TYPES:
        return image_block(held.blob, held.mimeType or "")
    kind = held.mimeType or "of an unknown type"
    return text_block(f"[resource {held.uri}, {kind}, {len(held.blob) * 3 // 4} bytes: no text]")


def image_block(data: str, mime_type: str) -> Block:
    """Return an image block, or a note when models cannot see the image."""
    if mime_type not in IMAGE_TYPES:
        return text_block(f"[image of the type {mime_type}, which cannot be shown]")
    if len(data) > MAX_IMAGE_CHARS:
        return text_block(f"[image of {len(data) * 3 // 4} bytes, more than can be shown]")
    return {"type": "image", "base64": data, "mime_type": mime_type}


def text_block(text: str) -> Block:
    """Return a text block."""
    return {"type": "text", "text": text}


def to_tool_infos(tools: Iterable[Tool]) -> tuple[McpToolInfo, ...]:
    """Return the infos of tools."""
    return tuple(
        McpToolInfo(
            name=tool.name,
            description=(tool.description or "")[:MAX_DESCRIPTION],
            input_schema=limit_depth(tool.inputSchema),
            output_schema=limit_depth(tool.outputSchema),
            annotations=limit_depth(tool.annotations.model_dump(exclude_none=True)) if tool.annotations else {},
            title=tool.title or "",
        )
        for tool in tools
    )


def limit_depth(value: Any, depth: int = MAX_SCHEMA_DEPTH) -> Any:
    """Return JSON without what is nested too deeply; in a schema, the empty object accepts everything."""
    if isinstance(value, dict):
        return {key: limit_depth(item, depth - 1) for key, item in value.items()} if depth else {}
    if isinstance(value, list):
        return [limit_depth(item, depth - 1) for item in value] if depth else []
    return value


def to_resource_infos(
    resources: Iterable[Resource], templates: Iterable[ResourceTemplate]
) -> tuple[McpResourceInfo, ...]:
    """Return the infos of resources and templates."""
    plain = (
        McpResourceInfo(str(each.uri), each.name, each.description or "", each.mimeType or "") for each in resources
    )
    open_ended = (
        McpResourceInfo(each.uriTemplate, each.name, each.description or "", each.mimeType or "") for each in templates
    )
    return (*plain, *open_ended)


def to_prompt_infos(prompts: Iterable[Prompt]) -> tuple[McpPromptInfo, ...]:
    """Return the infos of prompts."""
    return tuple(
        McpPromptInfo(each.name, each.description or "", tuple(argument.name for argument in each.arguments or ()))
        for each in prompts
    )

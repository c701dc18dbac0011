"""What is known of MCP servers, as people and programs see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

ServerState = Literal["idle", "connecting", "ready", "failed", "disabled", "changed", "needs_login"]
"""`idle`: not asked yet. `changed`: connected, but tools wait for an admin. `needs_login`: the user has to log in."""


@dataclass(frozen=True, slots=True)
class ToolCard:
    """One tool as its server describes it. All of it is the words of strangers."""

    name: str
    """At the server; the model knows it by another name, see `names.py`."""
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    """What the server says of its effects: `readOnlyHint`, `destructiveHint` …; hints, nothing to rely on."""
    title: str = ""


@dataclass(frozen=True, slots=True)
class ResourceCard:
    """Something to read that a server offers; `uri` may be a template."""

    uri: str
    name: str = ""
    description: str = ""
    mime_type: str = ""


@dataclass(frozen=True, slots=True)
class PromptCard:
    """A prompt that a server offers."""

    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server said it offers."""

    tools: tuple[ToolCard, ...] = ()
    resources: tuple[ResourceCard, ...] = ()
    prompts: tuple[PromptCard, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """How things stand with one server."""

    name: str
    state: ServerState
    error: str | None = None
    """Why it is not ready, for people; secrets are taken out."""
    tools: tuple[ToolCard, ...] = ()
    """Those that are offered to agents: accepted, and of a server that is on."""
    resources: tuple[ResourceCard, ...] = ()
    prompts: tuple[PromptCard, ...] = ()
    since: datetime | None = None
    """When it came into this state."""
    changed_tools: tuple[str, ...] = ()
    """Tools that differ from what an admin has seen, and are not offered until one accepts them."""

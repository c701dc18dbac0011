"""What requests and answers about MCP servers look like."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from deerflow.gateway.examples import MCP_ENTRY, MCP_SERVER, MCP_TOOL, PIN_HASH, shown_as
from deerflow.mcp.login_words import LoginKind, LoginState
from deerflow.mcp.servers import ServerView, ShownConfig, says_read_only
from deerflow.mcp.status import ServerState, ToolCard
from deerflow.persistence.mcp_pins import Pin as KeptPin
from deerflow.persistence.mcp_pins import PinState
from deerflow.persistence.mcp_pins import ToolVersion as KeptVersion

Entry = dict[str, Any]
MOST_AT_ONCE = 1000


class McpConfigBody(BaseModel):
    """The servers there are to be, by their names: entries as in `extensions_config.json`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=shown_as({"mcp_servers": {MCP_SERVER: MCP_ENTRY}}))

    mcp_servers: dict[str, Entry]


class McpConfig(BaseModel):
    """The entries of all servers. Secrets read `********`, and stay as they are when they are sent back so."""

    mcp_servers: dict[str, Entry]
    problem: str | None
    """What is wrong with the file as it is now; the former entries are in force then."""

    @classmethod
    def of(cls, shown: ShownConfig) -> "McpConfig":
        return cls(mcp_servers=dict(shown.servers), problem=shown.problem)


class McpSwitch(BaseModel):
    """Whether a server is to be on."""

    model_config = ConfigDict(json_schema_extra=shown_as({"server_name": MCP_SERVER, "enabled": False}))

    server_name: str
    enabled: bool


class McpReset(BaseModel):
    """That servers are asked again."""

    success: bool
    message: str


class McpTool(BaseModel):
    """A tool that agents are offered; all of it is the words of the server."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    read_only: bool | None
    """Whether the server says that it changes nothing; null: it says nothing."""

    @classmethod
    def of(cls, card: ToolCard) -> "McpTool":
        return cls(
            name=card.name,
            title=card.title,
            description=card.description,
            input_schema=dict(card.input_schema),
            read_only=says_read_only(card),
        )


class McpResource(BaseModel):
    """Something to read that a server offers."""

    uri: str
    name: str
    description: str
    mime_type: str


class McpPrompt(BaseModel):
    """A prompt that a server offers."""

    name: str
    description: str
    arguments: list[str]


class McpLogin(BaseModel):
    """How things stand with the caller's login at a server."""

    kind: LoginKind
    """`none`: nobody logs in; `server`: with what is configured; `personal`: each person for themselves."""
    state: LoginState
    """`expired_key`: it was kept with a key that is gone, so log in again."""
    expires_at: datetime | None
    scope: str | None
    issuer: str | None
    since: datetime | None


class McpServer(BaseModel):
    """One server: what it is, how things stand with it, and what it offers."""

    name: str
    type: Literal["stdio", "sse", "http"]
    description: str
    enabled: bool
    state: ServerState
    error: str | None
    notes: list[str]
    """What its entry asks for in vain."""
    since: datetime | None
    tools: list[McpTool]
    changed_tools: list[str]
    """Tools that wait until an admin accepts them as they are now."""
    resources: list[McpResource]
    prompts: list[McpPrompt]
    login: McpLogin

    @classmethod
    def of(cls, view: ServerView) -> "McpServer":
        status = view.status
        return cls(
            name=view.name,
            type=view.config.type,
            description=view.config.description,
            enabled=view.config.enabled,
            state=status.state,
            error=status.error,
            notes=view.notes,
            since=status.since,
            tools=[McpTool.of(card) for card in status.tools],
            changed_tools=list(status.changed_tools),
            resources=[McpResource.model_validate(each, from_attributes=True) for each in status.resources],
            prompts=[McpPrompt.model_validate(each, from_attributes=True) for each in status.prompts],
            login=McpLogin.model_validate(view.login, from_attributes=True),
        )


class McpServers(BaseModel):
    """All servers, in the order of the file."""

    servers: list[McpServer]


class ToolVersion(BaseModel):
    """A tool as it was at some time; schemas and annotations are JSON, as text that can be compared."""

    hash: str
    title: str
    description: str
    input_schema: str
    output_schema: str | None
    annotations: str

    @classmethod
    def of(cls, version: KeptVersion) -> "ToolVersion":
        return cls(hash=version.hash, **version.shown)


class Pin(BaseModel):
    """What is known of a tool: as it was accepted, and as it is offered where that differs."""

    tool: str
    state: PinState
    accepted: ToolVersion | None
    offered: ToolVersion | None
    accepted_at: datetime | None
    accepted_by: str | None
    """Who accepted it; null: nobody, it was like this when the server was first seen."""
    offered_at: datetime | None

    @classmethod
    def of(cls, pin: KeptPin) -> "Pin":
        return cls(
            tool=pin.tool,
            state=pin.state,
            accepted=ToolVersion.of(pin.accepted) if pin.accepted else None,
            offered=ToolVersion.of(pin.offered) if pin.offered else None,
            accepted_at=pin.accepted_at,
            accepted_by=pin.accepted_by,
            offered_at=pin.offered_at,
        )


class Pins(BaseModel):
    """The tools of a server, those that wait to be accepted first."""

    server: str
    tools: list[Pin]


class AcceptTools(BaseModel):
    """Tools that are accepted as they were seen: the `hash` of what each offers."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=shown_as({"tools": {MCP_TOOL: PIN_HASH}}))

    tools: Annotated[dict[str, str], Field(min_length=1, max_length=MOST_AT_ONCE)]


class StartLogin(BaseModel):
    """Where the browser is to be after the login: a path of this page."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=shown_as({"return_to": "/settings/mcp"}))

    return_to: Annotated[str, Field(max_length=500, pattern=r"^/([^/\\\s][^\\\s]*)?$")] | None = None


class StartedLogin(BaseModel):
    """Where to log in, and until when."""

    authorization_url: str
    expires_at: datetime

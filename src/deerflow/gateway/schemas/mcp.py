"""Request and response bodies of MCP servers."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from deerflow.gateway.examples import MCP_ENTRY, MCP_SERVER, MCP_TOOL, PIN_HASH, with_examples
from deerflow.mcp.auth.tokens import LoginKind, LoginState
from deerflow.mcp.queries import PinnedVersion as KeptVersion
from deerflow.mcp.queries import PinState
from deerflow.mcp.queries import ToolPin as KeptPin
from deerflow.mcp.servers import MaskedConfig, ServerView, is_declared_read_only
from deerflow.mcp.status import McpToolInfo, ServerState, ToolTestOutcome

Entry = dict[str, Any]
MOST_AT_ONCE = 1000
MAX_IMPORT_CHARS = 200_000


class McpConfigBody(BaseModel):
    """Entries of all servers, by name, as in `extensions_config.json`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"mcp_servers": {MCP_SERVER: MCP_ENTRY}}))

    mcp_servers: dict[str, Entry]


class McpImport(BaseModel):
    """Configuration with MCP servers, as text."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra=with_examples(
            {"text": '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'}
        ),
    )

    text: Annotated[str, Field(max_length=MAX_IMPORT_CHARS)]
    names: Annotated[list[str], Field(max_length=MOST_AT_ONCE)] | None = None
    """Servers to add, by the names of the preview; null: all."""


class McpPaste(BaseModel):
    """Configuration with MCP servers, as text."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra=with_examples({"text": '{"command": "uvx", "args": ["mcp-server-time"]}'}),
    )

    text: Annotated[str, Field(max_length=MAX_IMPORT_CHARS)]


class PastedMcpServer(BaseModel):
    """Server of a pasted configuration, as it would be added; secrets are shown as `********`."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    entry: Entry
    replaces: bool
    """A server of that name exists and would be replaced."""
    problem: str | None
    """Reason why it cannot be added."""


class McpImportPreview(BaseModel):
    """Servers of a pasted configuration, in its order."""

    servers: list[PastedMcpServer]


class McpConfig(BaseModel):
    """Entries of all servers. Secrets are shown as `********`; sent back like this, they are kept."""

    mcp_servers: dict[str, Entry]
    problem: str | None
    """Error in the current file; the last valid entries are used then."""

    @classmethod
    def from_domain(cls, shown: MaskedConfig) -> "McpConfig":
        return cls(mcp_servers=dict(shown.servers), problem=shown.problem)


class McpSwitch(BaseModel):
    """Server to enable or disable."""

    model_config = ConfigDict(json_schema_extra=with_examples({"server_name": MCP_SERVER, "enabled": False}))

    server_name: str
    enabled: bool


class McpToolSwitch(BaseModel):
    """Tool to offer to agents or not."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"tool": MCP_TOOL, "enabled": False}))

    tool: str
    enabled: bool


class McpToolTest(BaseModel):
    """Tool to call once, with its arguments."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"tool": MCP_TOOL, "arguments": {}}))

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    approved: bool = False
    """The user has approved the call, where the policy wants it."""


class PolicyReason(BaseModel):
    """Reason of the policy; `code` is the name of the rule."""

    model_config = ConfigDict(from_attributes=True)

    code: str
    message: str


class McpToolTestResult(BaseModel):
    """Result of a test call; the text comes from the server."""

    model_config = ConfigDict(from_attributes=True)

    outcome: ToolTestOutcome
    """`ask`: the policy wants approval first; `deny`: it forbids the call."""
    text: str
    reasons: list[PolicyReason]
    seconds: float
    is_truncated: bool


class McpReset(BaseModel):
    """Result of a cache reset."""

    success: bool
    message: str


class McpTool(BaseModel):
    """Tool of a server; all texts come from the server."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    read_only: bool | None
    """Read-only hint of the server; null: not declared."""
    enabled: bool
    """It is offered to agents."""

    @classmethod
    def from_domain(cls, card: McpToolInfo, *, enabled: bool) -> "McpTool":
        return cls(
            name=card.name,
            title=card.title,
            description=card.description,
            input_schema=dict(card.input_schema),
            read_only=is_declared_read_only(card),
            enabled=enabled,
        )


class McpResource(BaseModel):
    """Resource of a server."""

    uri: str
    name: str
    description: str
    mime_type: str


class McpPrompt(BaseModel):
    """Prompt of a server."""

    name: str
    description: str
    arguments: list[str]


class McpLogin(BaseModel):
    """Login status of the current user at a server."""

    kind: LoginKind
    """`none`: no login; `server`: configured credentials; `personal`: each user logs in."""
    state: LoginState
    """`expired_key`: the tokens were encrypted with another key; log in again."""
    expires_at: datetime | None
    scope: str | None
    issuer: str | None
    since: datetime | None


class McpServer(BaseModel):
    """Server with its status, tools, resources and prompts."""

    name: str
    type: Literal["stdio", "sse", "http"]
    description: str
    enabled: bool
    state: ServerState
    error: str | None
    log: str
    """Standard error of its process while it is connected or has failed; the text comes from the server."""
    notes: list[str]
    """Unsupported settings of its entry."""
    since: datetime | None
    tools: list[McpTool]
    changed_tools: list[str]
    """Changed tools that an admin has to accept."""
    resources: list[McpResource]
    prompts: list[McpPrompt]
    login: McpLogin

    @classmethod
    def from_domain(cls, view: ServerView) -> "McpServer":
        status = view.status
        return cls(
            name=view.name,
            type=view.config.type,
            description=view.config.description,
            enabled=view.config.enabled,
            state=status.state,
            error=status.error,
            log=status.log,
            notes=view.notes,
            since=status.since,
            tools=[McpTool.from_domain(card, enabled=view.is_tool_enabled(card.name)) for card in status.tools],
            changed_tools=list(status.changed_tools),
            resources=[McpResource.model_validate(each, from_attributes=True) for each in status.resources],
            prompts=[McpPrompt.model_validate(each, from_attributes=True) for each in status.prompts],
            login=McpLogin.model_validate(view.login, from_attributes=True),
        )


class McpServers(BaseModel):
    """All servers, in the order of the file."""

    servers: list[McpServer]


class ToolVersion(BaseModel):
    """Version of a tool; schemas and annotations are JSON text, for comparison."""

    hash: str
    title: str
    description: str
    input_schema: str
    output_schema: str | None
    annotations: str

    @classmethod
    def from_domain(cls, version: KeptVersion) -> "ToolVersion":
        return cls(hash=version.hash, **version.shown)


class Pin(BaseModel):
    """Accepted version of a tool, and the offered version if it differs."""

    tool: str
    state: PinState
    accepted: ToolVersion | None
    offered: ToolVersion | None
    accepted_at: datetime | None
    accepted_by: str | None
    """User who accepted it; null: accepted when the server was first connected."""
    offered_at: datetime | None

    @classmethod
    def from_domain(cls, pin: KeptPin) -> "Pin":
        return cls(
            tool=pin.tool,
            state=pin.state,
            accepted=ToolVersion.from_domain(pin.accepted) if pin.accepted else None,
            offered=ToolVersion.from_domain(pin.offered) if pin.offered else None,
            accepted_at=pin.accepted_at,
            accepted_by=pin.accepted_by,
            offered_at=pin.offered_at,
        )


class Pins(BaseModel):
    """Tools of a server, those to be accepted first."""

    server: str
    tools: list[Pin]


class AcceptTools(BaseModel):
    """Tools to accept, each with the `hash` of the offered version."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"tools": {MCP_TOOL: PIN_HASH}}))

    tools: Annotated[dict[str, str], Field(min_length=1, max_length=MOST_AT_ONCE)]


class StartLogin(BaseModel):
    """Path of the page to return to after the login."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"return_to": "/settings/mcp"}))

    return_to: Annotated[str, Field(max_length=500, pattern=r"^/([^/\\\s][^\\\s]*)?$")] | None = None


class StartedLogin(BaseModel):
    """Authorization URL of a login, and its expiry."""

    authorization_url: str
    expires_at: datetime

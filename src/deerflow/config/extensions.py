"""`extensions_config.json`: MCP servers and the switches of skills."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from deerflow.config.section import Section, objection, refusal


class OAuthConfig(Section):
    """How a remote server's access token is got."""

    enabled: bool = True
    token_url: str | None = Field(default=None, min_length=1, description="Where tokens are issued.")
    authorization_url: str | None = Field(
        default=None, min_length=1, description="Where people log in; found by itself where the server tells."
    )
    grant_type: Literal["client_credentials", "refresh_token", "authorization_code"] = "client_credentials"
    client_id: str | None = None
    client_secret: str | None = None
    refresh_token: str | None = None
    scope: str | None = None
    audience: str | None = None
    token_field: str = "access_token"
    token_type_field: str = "token_type"
    expires_in_field: str = "expires_in"
    default_token_type: str = "Bearer"
    refresh_skew_seconds: float = Field(default=60.0, ge=0)
    extra_token_params: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_what_its_grant_needs(self) -> Self:
        if self.grant_type == "refresh_token" and not self.refresh_token:
            raise objection("the grant 'refresh_token' needs 'refresh_token'")
        if self.grant_type == "client_credentials" and not (self.client_id and self.client_secret):
            raise objection("the grant 'client_credentials' needs 'client_id' and 'client_secret'")
        if self.grant_type != "authorization_code" and not self.token_url:
            raise objection(f"the grant '{self.grant_type}' needs 'token_url'")
        if self.authorization_url and not (self.token_url and self.client_id):
            raise objection("'authorization_url' needs 'token_url' and 'client_id' beside it")
        return self


class RoutingConfig(Section):
    """When a server or a tool is put forward to the model."""

    mode: Literal["off", "prefer"] = "off"
    priority: int = Field(default=0, description="What has more is named first, and loaded first.")
    keywords: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(
        default=(), strict=False, max_length=50, description="Words of people that it is put forward for."
    )


class McpToolConfig(Section):
    """Settings for one tool of a server."""

    routing: RoutingConfig | None = None
    tool_call_timeout: float | None = Field(default=None, gt=0, description="Instead of the server's.")


class TaskToolset(Section):
    """Three tools of a server that together run a long task."""

    name: str = Field(min_length=1)
    submit_tool: str = Field(min_length=1)
    status_tool: str = Field(min_length=1)
    cancel_tool: str | None = None


class McpServerConfig(Section):
    """One MCP server: a command to start, or an address to call."""

    enabled: bool = True
    type: Literal["stdio", "sse", "http"] = Field(default="stdio", validation_alias=AliasChoices("type", "transport"))
    command: str | None = Field(default=None, min_length=1)
    args: tuple[str, ...] = Field(default=(), strict=False)
    env: dict[str, str] = Field(default_factory=dict)
    network: bool = Field(default=False, description="Whether the command, which runs in a sandbox, has a network.")
    paths: tuple[str, ...] = Field(
        default=(), strict=False, description="Files and folders of this machine that the command can read."
    )
    url: str | None = Field(default=None, min_length=1)
    headers: dict[str, str] = Field(default_factory=dict)
    oauth: OAuthConfig | None = None
    allow_private_addresses: bool = Field(
        default=False, description="Whether where people log in for it may be in this network."
    )
    description: str = ""
    routing: RoutingConfig | None = None
    tools: dict[str, McpToolConfig] = Field(default_factory=dict)
    tool_name_prefix: bool = True
    tool_call_timeout: float | None = Field(default=None, gt=0)
    session_init_timeout: float = Field(default=60.0, gt=0)
    task_toolsets: tuple[TaskToolset, ...] = Field(default=(), strict=False)

    @model_validator(mode="before")
    @classmethod
    def _has_one_type(cls, data: object) -> object:
        if isinstance(data, Mapping) and {"type", "transport"} <= data.keys():
            raise refusal(cls.__name__, {("transport",): "means the same as 'type', which is given too"})
        return data

    @model_validator(mode="after")
    def _says_how_to_reach_it(self) -> Self:
        if self.type == "stdio" and self.command is None:
            remote = '; a server with \'url\' needs "type": "http" or "sse"' if self.url else ""
            raise objection(f"a server of type 'stdio' needs 'command'{remote}")
        if self.type != "stdio" and self.url is None:
            raise objection(f"a server of type {self.type!r} needs 'url'")
        return self


class SkillSwitch(Section):
    """Whether a skill is offered to the agent."""

    enabled: bool = True


class Extensions(Section):
    """The whole of `extensions_config.json`."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    mcp_servers: dict[str, McpServerConfig] = Field(default_factory=dict, alias="mcpServers")
    skills: dict[str, SkillSwitch] = Field(default_factory=dict)

"""`acp_agents:` — agents of others that the lead agent can give work to, by their names."""

from collections.abc import Mapping

from pydantic import Field

from deerflow.config.section import Section


class AcpAgentConfig(Section):
    """An agent that speaks the Agent Client Protocol on its standard input and output."""

    command: str = Field(min_length=1, description="The program that is started, by its name or path.")
    args: tuple[str, ...] = Field(default=(), strict=False, description="Its arguments.")
    env: Mapping[str, str] = Field(
        default_factory=dict, description="Its variables; it sees no others. `$NAME` takes one of the server's."
    )
    description: str = Field(min_length=1, description="What it is good at: the lead agent reads it.")
    model: str | None = Field(default=None, description="The model it is to use, if it lets that be chosen.")
    auto_approve_permissions: bool = Field(
        default=False, description="Whether it may do what it asks permission for without a person's word."
    )
    timeout_seconds: float = Field(default=1800.0, gt=0, description="After so many seconds of work it is ended.")
    network: bool = Field(
        default=False, description="Whether it has a network: most need one to reach their model. It is the server's."
    )
    paths: tuple[str, ...] = Field(
        default=(), strict=False, description="Files and folders of this machine that it can read."
    )
    mcp_servers: tuple[str, ...] | None = Field(
        default=None, strict=False, description="The MCP servers it is told of; null: all that are switched on."
    )

"""`tools:` and `tool_groups:` — what the agent can use besides its built-in tools."""

from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator

from deerflow.config.section import Section, object_path


class ToolGroupConfig(Section):
    """One entry of `tool_groups:`."""

    name: str = Field(min_length=1, description="How tools and custom agents refer to the group.")


class ToolConfig(Section):
    """One entry of `tools:`. Keys that are not listed here go to the tool as its settings."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(min_length=1, description="How the tool is called.")
    group: str = Field(min_length=1, description="The group the tool belongs to.")
    use: str = Field(description='The tool, a function or a tool class, as "module:name".')
    approval: Literal["always", "never"] = Field(
        default="never", description="Whether a person has to approve each call before it happens."
    )

    @property
    def settings(self) -> dict[str, Any]:
        """What the tool receives besides what the model gives it."""
        return dict(self.model_extra or {})

    @field_validator("use")
    @classmethod
    def _names_an_object(cls, use: str) -> str:
        return object_path(use, "module:name", "deerflow.sandbox.tools:bash_tool")


WEB_TOOLS = (
    ToolConfig(name="web_search", group="web", use="deerflow.community.ddg_search.tools:web_search_tool"),
    ToolConfig(name="web_fetch", group="web", use="deerflow.community.web_fetch.tools:web_fetch_tool"),
)
"""What an agent can use when nobody says otherwise: neither needs a key."""

"""`tools:` and the sections for tool search and tool results."""

import re
from collections.abc import Container, Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator

from deerflow.config.sections.base import Section, check_object_path


class ToolGroupConfig(Section):
    """An entry of `tool_groups:`, which is deprecated and ignored."""

    name: str = Field(min_length=1, description="Name of the group.")


class ToolConfig(Section):
    """An entry of `tools:`. Keys that are not listed here are passed to the tool as settings."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(min_length=1, description="Name of the tool.")
    group: str | None = Field(
        default=None,
        min_length=1,
        description="Tool group; custom agents can be limited to groups, and then have no tools without one.",
    )
    use: str = Field(description='Function, tool or tool class, as "module:name".')
    approval: Literal["always", "never"] = Field(default="never", description="Require approval of each call.")

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings that are passed to the tool."""
        return dict(self.model_extra or {})

    @field_validator("use")
    @classmethod
    def _check_object_path(cls, use: str) -> str:
        return check_object_path(use, "module:name", "deerflow.sandbox.tools:bash_tool")


DEFAULT_TOOLS = (
    ToolConfig(name="web_search", group="web", use="deerflow.community.ddg_search.tools:web_search_tool"),
    ToolConfig(name="web_fetch", group="web", use="deerflow.community.web_fetch.tools:web_fetch_tool"),
)
"""The default of `tools:`; neither needs an API key."""


WEB_KEY_VARIABLES: Mapping[str, str] = {
    "tavily": "TAVILY_API_KEY",
    "brave": "BRAVE_SEARCH_API_KEY",
    "serper": "SERPER_API_KEY",
    "exa": "EXA_API_KEY",
    "firecrawl": "FIRECRAWL_API_KEY",
}
"""Variables with the API keys of web providers."""
WEB_PROVIDER = re.compile(r"deerflow\.community\.(\w+)")


def add_key_variable(entry: Any, variables: Container[str]) -> Any:
    """Return an entry of `tools:` as written; without `api_key`, with the variable of its provider if that is set."""
    use = entry.get("use") if isinstance(entry, dict) else None
    found = WEB_PROVIDER.match(use) if isinstance(use, str) else None
    variable = WEB_KEY_VARIABLES.get(found[1]) if found else None
    if variable is None or variable not in variables or "api_key" in entry:
        return entry
    return {**entry, "api_key": f"${variable}"}


class ToolSearchConfig(Section):
    """Deferred loading of MCP tools: the model searches for them."""

    enabled: bool | Literal["auto"] = Field(
        default="auto", description="Defer MCP tools; auto: when there are more than `threshold`."
    )
    threshold: int = Field(default=20, ge=0, description="Number of MCP tools above which auto defers them.")
    max_results: int = Field(default=5, ge=1, le=50, description="Maximum results of a search; `select:` has no limit.")
    auto_promote_top_k: int = Field(
        default=3, ge=1, le=5, description="Maximum number of tools loaded by keywords in the user's message."
    )

    def applies_to(self, count: int) -> bool:
        """Return True if `count` tools are deferred."""
        return count > self.threshold if self.enabled == "auto" else self.enabled and count > 0


class ToolOutputConfig(Section):
    """Large tool results: written to a file, with a preview for the model."""

    enabled: bool = Field(default=True, description="Write large results to files.")
    externalize_min_chars: int = Field(
        default=12_000, ge=500, description="Results longer than this are written to a file."
    )
    preview_head_chars: int = Field(default=2000, ge=0, description="Characters shown from the start.")
    preview_tail_chars: int = Field(default=1000, ge=0, description="Characters shown from the end.")
    fallback_max_chars: int = Field(
        default=30_000, ge=500, description="Results longer than this are cut when no file can be written."
    )
    fallback_head_chars: int = Field(default=8000, ge=0, description="Characters kept from the start of a cut result.")
    fallback_tail_chars: int = Field(default=3000, ge=0, description="Characters kept from the end of a cut result.")
    exempt_tools: tuple[str, ...] = Field(
        default=("read_file",), strict=False, description="Tools whose results are never changed."
    )
    tool_overrides: dict[str, int] = Field(
        default_factory=dict, description="`externalize_min_chars` for single tools, by name."
    )


class ReadBeforeWriteConfig(Section):
    """Protection of existing files against blind changes."""

    enabled: bool = Field(default=True, description="Require that a file is read before it is changed.")

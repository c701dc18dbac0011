"""`tool_search:` — when the tools of MCP servers are known to the model by their names alone."""

from typing import Literal

from pydantic import Field

from deerflow.config.section import Section


class ToolSearchConfig(Section):
    """Tools that are not described to the model until it asks for them."""

    enabled: bool | Literal["auto"] = Field(
        default="auto", description="Whether the tools of MCP servers wait to be asked for; auto: where they are many."
    )
    threshold: int = Field(default=20, ge=0, description="With more tools of MCP servers than this, they are many.")
    max_results: int = Field(default=5, ge=1, le=50, description="So many does one search find; select: has no limit.")
    auto_promote_top_k: int = Field(
        default=3, ge=1, le=5, description="So many are loaded at once where words of people are keywords of them."
    )

    def applies_to(self, count: int) -> bool:
        """Whether so many tools have to be asked for."""
        return count > self.threshold if self.enabled == "auto" else self.enabled and count > 0

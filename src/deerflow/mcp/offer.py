"""What MCP servers offer to agents."""

from dataclasses import dataclass, field

from langchain_core.tools import BaseTool


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools for somebody at one moment; offers with equal versions are equal."""

    version: str = ""
    tools: tuple[BaseTool, ...] = field(default=(), compare=False)

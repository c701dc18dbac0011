"""Tools of the agent, and results of MCP calls, for tests."""

from typing import Any

from langgraph.types import interrupt
from mcp import types


def launch(rocket: str) -> str:
    """Launch a rocket.

    Args:
        rocket: Its name.
    """
    return f"{rocket} is in the air"


def ask(question: str) -> str:
    """Ask with an interrupt of its own.

    Args:
        question: What is asked.
    """
    return f"the answer is {interrupt({'question': question})}"


def get_data(result: types.CallToolResult) -> dict[str, Any]:
    assert not result.isError, get_text(result)
    assert result.structuredContent is not None
    return result.structuredContent


def get_text(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))

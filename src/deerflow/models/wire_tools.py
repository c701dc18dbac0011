"""Tools in the wire format of the chat completions API."""

from collections.abc import Callable
from typing import Any, TypeAlias

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

ToolLike: TypeAlias = dict[str, Any] | type | Callable[..., Any] | BaseTool

MOST_KNOWN = 1000


class KnownTools:
    """Turns each tool into its wire form once: an agent asks again and again with the same ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bool | None], tuple[BaseTool, str, dict[str, Any]]] = {}

    def to_wire(self, tool: ToolLike, strict: bool | None) -> dict[str, Any]:
        """The wire form of a tool; nobody may change it."""
        if not isinstance(tool, BaseTool):
            return convert_to_openai_tool(tool, strict=strict)
        key = id(tool), strict
        known = self._known.get(key)
        if known is None or known[0] is not tool or known[1] != tool.description:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = tool, tool.description, convert_to_openai_tool(tool, strict=strict)
        return known[2]

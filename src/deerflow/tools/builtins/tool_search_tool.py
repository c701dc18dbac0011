"""`tool_search`: describes tools of which the model knows the names alone, and has them be at hand from then on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import orjson
from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool
from langgraph.types import Command

from deerflow.domain.context import RunContext
from deerflow.domain.ledger import read_only
from deerflow.tools.functions import as_tool
from deerflow.tools.run import answer

TOOL_SEARCH = "tool_search"


class Found(Protocol):
    """A tool that can be asked for."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> Mapping[str, Any]: ...
    @property
    def digest(self) -> str: ...


Find = Callable[[str], Sequence[Found]]


def tool_search_tool(find: Find) -> BaseTool:
    """The tool that looks in what `find` knows."""
    return as_tool(tool_search, find=find)


@read_only
async def tool_search(query: str, find: Find, runtime: ToolRuntime[RunContext]) -> Command[Any]:
    """Load tools that are listed by name only, so that they can be called. Returns their schemas.

    Args:
        query: `select:name_a,name_b` for tools by name; `+part words` for tools with `part` in their name, ranked by
            the words; or a regular expression on names and descriptions.
    """
    found = find(query)
    if not found:
        return answer(
            runtime, f"No listed tool fits {query!r}. Try `select:` with a name from the list, or other words."
        )
    schemas = orjson.dumps([tool.schema for tool in found], default=str).decode()
    return answer(runtime, schemas, promoted={tool.name: tool.digest for tool in found})

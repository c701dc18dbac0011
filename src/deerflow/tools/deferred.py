"""The `tool_search` tool: loads the schemas of tools that are listed by name only."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import orjson
from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.types import Command

from deerflow.agent_support.tools import as_tool, respond_with_update
from deerflow.config import InvalidPattern, compile_linear
from deerflow.config.sections.tools import ToolSearchConfig
from deerflow.domain.context import RunContext
from deerflow.domain.tools import MCP_SOURCE, SERVER, SOURCE, read_only
from deerflow.tools.assembly import ToolSet, get_preference


class SearchableTool(Protocol):
    """A tool that can be searched for."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> Mapping[str, Any]: ...
    @property
    def digest(self) -> str: ...


FindTools = Callable[[str], Sequence[SearchableTool]]


def build_tool_search_tool(find: FindTools) -> BaseTool:
    """Return the `tool_search` tool for a search function."""
    return as_tool(tool_search, find=find)


@read_only
async def tool_search(query: str, find: FindTools, runtime: ToolRuntime[RunContext]) -> Command[Any]:
    """Load tools that are listed by name only, so that they can be called. Returns their schemas.

    Args:
        query: `select:name_a,name_b` for tools by name; `+part words` for tools with `part` in their name, ranked by
            the words; or a regular expression on names and descriptions.
    """
    found = find(query)
    if not found:
        return respond_with_update(
            runtime, f"No listed tool fits {query!r}. Try `select:` with a name from the list, or other words."
        )
    schemas = orjson.dumps([tool.schema for tool in found], default=str).decode()
    return respond_with_update(runtime, schemas, promoted={tool.name: tool.digest for tool in found})


UNKNOWN_SERVER = "other"
MIN_WORD_CHARS = 3


@dataclass(frozen=True)
class DeferredTool:
    """A deferred tool."""

    name: str
    server: str
    description: str
    tool: BaseTool

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """Schema of the tool. Built on demand, because there may be hundreds of tools."""
        function: Mapping[str, Any] = convert_to_openai_tool(self.tool)["function"]
        return function

    @cached_property
    def digest(self) -> str:
        """Digest of the schema, used to detect changes."""
        serialized = orjson.dumps(self.schema, option=orjson.OPT_SORT_KEYS, default=str)
        return hashlib.sha256(serialized).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class DeferredTools:
    """The deferred tools of an agent."""

    by_name: Mapping[str, DeferredTool]
    max_results: int = 5
    max_promoted: int = 3

    def find_by_keywords(self, text: str) -> list[DeferredTool]:
        """Return the preferred tools whose keywords occur in a text, highest priority first."""
        preferred = [(get_preference(tool.tool), tool) for tool in self._sorted]
        matching = [
            (preference.priority, tool)
            for preference, tool in preferred
            if preference is not None and preference.matches(text)
        ]
        return [tool for _, tool in sorted(matching, key=lambda each: -each[0])][: self.max_promoted]

    @property
    def by_server(self) -> Mapping[str, Sequence[str]]:
        """Names by server, in a stable order."""
        servers = sorted({tool.server for tool in self.by_name.values()})
        return {
            server: sorted(tool.name for tool in self.by_name.values() if tool.server == server) for server in servers
        }

    def find(self, query: str) -> list[DeferredTool]:
        """Return the tools that match a query, best first.

        `select:a,b` selects by name; `+part words` requires the part in the name and ranks by the words; anything else
        is a regular expression on name and description, or a literal text if it is not a valid one.
        """
        query = query.strip()
        if query.lower().startswith("select:"):
            names = (name.strip() for name in query[len("select:") :].split(","))
            return [self.by_name[name] for name in dict.fromkeys(names) if name in self.by_name]
        if query.startswith("+"):
            part, _, rest = query[1:].partition(" ")
            candidates = [tool for tool in self._sorted if part and part.lower() in tool.name.lower()]
            return rank(candidates, rest.split())[: self.max_results]
        return (self._match_pattern(query) or self._match_words(query.split()))[: self.max_results]

    @property
    def _sorted(self) -> list[DeferredTool]:
        return [self.by_name[name] for name in sorted(self.by_name)]

    def _match_pattern(self, query: str) -> list[DeferredTool]:
        if not query:
            return []
        try:
            pattern = compile_linear(query, ignore_case=True)
        except InvalidPattern:
            literal = query.lower()
            found = [tool for tool in self._sorted if literal in f"{tool.name}\n{tool.description}".lower()]
        else:
            found = [tool for tool in self._sorted if pattern.search(f"{tool.name}\n{tool.description}")]
        return rank(found, query.split())

    def _match_words(self, words: Sequence[str]) -> list[DeferredTool]:
        """Return the tools that match some of the words, for queries that are not expressions."""
        return [tool for tool in rank(self._sorted, words) if compute_score(tool, words) > 0]


def defer_tools(tools: ToolSet, settings: ToolSearchConfig) -> tuple[ToolSet, DeferredTools | None]:
    """Return the tools of an agent with `tool_search` added, if tools are deferred."""
    deferrable = [tool for tool in tools.tools if (tool.metadata or {}).get(SOURCE) == MCP_SOURCE]
    if not settings.applies_to(len(deferrable)):
        return tools, None
    by_name = {tool.name: to_deferred_tool(tool) for tool in deferrable}
    deferred = DeferredTools(by_name, settings.max_results, settings.auto_promote_top_k)
    return replace(tools, tools=(*tools.tools, build_tool_search_tool(deferred.find))), deferred


def to_deferred_tool(tool: BaseTool) -> DeferredTool:
    """Return a tool as a deferred tool."""
    server = (tool.metadata or {}).get(SERVER) or UNKNOWN_SERVER
    return DeferredTool(tool.name, str(server), tool.description, tool)


def rank(tools: Iterable[DeferredTool], words: Sequence[str]) -> list[DeferredTool]:
    """Return the tools sorted by score. Equal scores keep their order."""
    return sorted(tools, key=lambda tool: -compute_score(tool, words))


def compute_score(tool: DeferredTool, words: Sequence[str]) -> int:
    """Return the score of a tool for some words. The name counts more than the description; short words are ignored."""
    name, description = tool.name.lower(), tool.description.lower()
    return sum(
        2 * (word in name) + (word in description) for word in map(str.lower, words) if len(word) >= MIN_WORD_CHARS
    )

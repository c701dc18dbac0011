"""Tools of which the model knows the names alone until it asks for them: those of MCP servers, where they are many."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import orjson
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from deerflow.config.patterns import BadPattern, compile_linear
from deerflow.config.tool_search import ToolSearchConfig
from deerflow.domain.tool_marks import FROM_MCP, SERVER, SOURCE
from deerflow.tools.builtins.tool_search_tool import tool_search_tool
from deerflow.tools.preferred import preference_of
from deerflow.tools.tools import ToolSet

UNNAMED = "other"
MIN_WORD = 3


@dataclass(frozen=True)
class DeferredTool:
    """One such tool, and what it would be described as."""

    name: str
    server: str
    description: str
    tool: BaseTool

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """What the model is told of it once it asks; made then, for there may be hundreds of them."""
        function: Mapping[str, Any] = convert_to_openai_tool(self.tool)["function"]
        return function

    @cached_property
    def digest(self) -> str:
        """Tells whether it is still what the model was told."""
        described = orjson.dumps(self.schema, option=orjson.OPT_SORT_KEYS, default=str)
        return hashlib.sha256(described).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class DeferredTools:
    """The tools that an agent has to ask for."""

    by_name: Mapping[str, DeferredTool]
    max_results: int = 5
    most_meant: int = 3

    def meant_by(self, text: str) -> list[DeferredTool]:
        """The tools that the configuration puts forward for words like these, the most important first."""
        preferred = [(preference_of(tool.tool), tool) for tool in self._in_order]
        meant = [(told.priority, tool) for told, tool in preferred if told is not None and told.is_meant_by(text)]
        return [tool for _, tool in sorted(meant, key=lambda each: -each[0])][: self.most_meant]

    @property
    def by_server(self) -> Mapping[str, Sequence[str]]:
        """Their names, in an order that depends on the names alone."""
        servers = sorted({tool.server for tool in self.by_name.values()})
        return {
            server: sorted(tool.name for tool in self.by_name.values() if tool.server == server) for server in servers
        }

    def find(self, query: str) -> list[DeferredTool]:
        """The tools that a query means, the best first.

        `select:a,b` names them; `+part words` wants the part in the name and ranks by the words; anything else is a
        regular expression on name and description, or is taken as it stands where it is none.
        """
        query = query.strip()
        if query.lower().startswith("select:"):
            names = (name.strip() for name in query[len("select:") :].split(","))
            return [self.by_name[name] for name in dict.fromkeys(names) if name in self.by_name]
        if query.startswith("+"):
            part, _, rest = query[1:].partition(" ")
            named = [tool for tool in self._in_order if part and part.lower() in tool.name.lower()]
            return ranked(named, rest.split())[: self.max_results]
        return (self._matching(query) or self._about(query.split()))[: self.max_results]

    @property
    def _in_order(self) -> list[DeferredTool]:
        return [self.by_name[name] for name in sorted(self.by_name)]

    def _matching(self, query: str) -> list[DeferredTool]:
        if not query:
            return []
        try:
            pattern = compile_linear(query, ignore_case=True)
        except BadPattern:
            literal = query.lower()
            found = [tool for tool in self._in_order if literal in f"{tool.name}\n{tool.description}".lower()]
        else:
            found = [tool for tool in self._in_order if pattern.search(f"{tool.name}\n{tool.description}")]
        return ranked(found, query.split())

    def _about(self, words: Sequence[str]) -> list[DeferredTool]:
        """The tools that have to do with some of the words, for whoever does not think in expressions."""
        return [tool for tool in ranked(self._in_order, words) if weight(tool, words) > 0]


def deferring(tools: ToolSet, settings: ToolSearchConfig) -> tuple[ToolSet, DeferredTools | None]:
    """The tools of an agent with the one that finds those it has to ask for, if there are any."""
    asked_for = [tool for tool in tools.tools if (tool.metadata or {}).get(SOURCE) == FROM_MCP]
    if not settings.applies_to(len(asked_for)):
        return tools, None
    by_name = {tool.name: described(tool) for tool in asked_for}
    deferred = DeferredTools(by_name, settings.max_results, settings.auto_promote_top_k)
    return replace(tools, tools=(*tools.tools, tool_search_tool(deferred.find))), deferred


def described(tool: BaseTool) -> DeferredTool:
    """A tool that has to be asked for."""
    server = (tool.metadata or {}).get(SERVER) or UNNAMED
    return DeferredTool(tool.name, str(server), tool.description, tool)


def ranked(tools: Iterable[DeferredTool], words: Sequence[str]) -> list[DeferredTool]:
    """The tools that have most to do with the words first; equal ones as they were."""
    return sorted(tools, key=lambda tool: -weight(tool, words))


def weight(tool: DeferredTool, words: Sequence[str]) -> int:
    """How much a tool has to do with some words; its name says more than its description, and short ones nothing."""
    name, description = tool.name.lower(), tool.description.lower()
    return sum(2 * (word in name) + (word in description) for word in map(str.lower, words) if len(word) >= MIN_WORD)

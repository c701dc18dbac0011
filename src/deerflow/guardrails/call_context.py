"""Context of a tool call for guardrails: traits of the tool, untrusted sources of the thread, texts of its users."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from langchain_core.messages import AnyMessage, BaseMessage, ToolMessage

from deerflow.agent_support.replies import is_user_message
from deerflow.config.sections.guardrails import ToolSource
from deerflow.domain.context import RunContext
from deerflow.domain.taint import (
    READ_URLS_MARK,
    UNTRUSTED_MARK,
    contains_url,
    is_url,
    normalize_url,
)
from deerflow.domain.tools import (
    CONFIGURED_SOURCE,
    MCP_SOURCE,
    SERVER,
    SOURCE,
    UNTRUSTED,
)

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

UPLOADS, SUBAGENTS = "uploads", "subagents"
"""Sources of untrusted content other than tools."""
COMMAND_TOOLS = frozenset({"bash", "bash_output", "bash_kill"})
WORD = re.compile(r"\w+")
SYMBOL = re.compile(r"[^\w\s]|\s{2,}")
MAX_WORDS_CHARS = 500
MAX_SMALL_NUMBER = 9_999
MAX_COMMON_LETTERS = 24
MAX_TRIVIAL = 3
MAX_SYMBOLS = 12


@runtime_checkable
class CallContext(Protocol):
    """Questions a provider may ask about a call. Answers are computed on demand because some are expensive."""

    async def untrusted_sources(self) -> Collection[str]:
        """Return the sources of untrusted content that was read in the thread."""
        ...

    async def is_known(self, value: object) -> bool:
        """Return whether an argument holds only text of the user, or text the receiver itself has returned before."""
        ...

    async def is_ordinary(self, value: object) -> bool:
        """Return whether an argument consists of common words and of words that occur in the thread."""
        ...


@dataclass(frozen=True, slots=True)
class ToolTraits:
    """Origin and data flow of a tool."""

    source: ToolSource = "builtin"
    server: str | None = None
    reaches_out: bool = True
    brings_untrusted: bool = False

    @property
    def taint_source(self) -> str | None:
        """Return the source name recorded for results of an MCP tool; None for all other tools."""
        return f"mcp:{self.server}" if self.source == "mcp" else None


@dataclass(frozen=True, slots=True)
class EgressCapability:
    """Ability of the tools of this installation to send data out."""

    commands: bool = False
    confined_servers: frozenset[str] = frozenset()
    """MCP servers without network access."""

    def classify(self, tool: "BaseTool | None", name: str) -> ToolTraits:
        """Return the traits of a tool."""
        metadata = (tool.metadata if tool is not None else None) or {}
        untrusted = bool(metadata.get(UNTRUSTED))
        if metadata.get(SOURCE) == MCP_SOURCE:
            server = str(metadata.get(SERVER) or "")
            return ToolTraits("mcp", server, server not in self.confined_servers, brings_untrusted=True)
        if metadata.get(SOURCE) == CONFIGURED_SOURCE:
            return ToolTraits("configured", None, reaches_out=True, brings_untrusted=untrusted)
        if untrusted:
            return ToolTraits("web", None, reaches_out=True, brings_untrusted=True)
        return ToolTraits("builtin", None, reaches_out=self.commands and name in COMMAND_TOOLS)


@dataclass(frozen=True, slots=True)
class ThreadCallContext:
    """Context of one call in a thread."""

    messages: Sequence[AnyMessage]
    untrusted: Collection[str]
    run: RunContext | None
    tool: ToolTraits
    is_subagent: bool = False

    async def untrusted_sources(self) -> Collection[str]:
        sources = {*self.untrusted, *(self.run.taint.sources if self.run else ())}
        if UPLOADS not in sources and await self._has_uploads():
            sources.add(UPLOADS)
            if self.run is not None:  # remembered for the next call
                self.run.taint.sources.add(UPLOADS)
        return sources

    async def is_known(self, value: object) -> bool:
        values = list(iter_leaves(value))
        # A long list of small numbers or booleans can encode any text.
        few = sum(map(is_trivial, values)) <= MAX_TRIVIAL
        return all([(few and is_trivial(leaf)) or await self._is_leaf_known(str(leaf)) for leaf in values])

    async def is_ordinary(self, value: object) -> bool:
        texts = [leaf for leaf in iter_leaves(value) if not is_trivial(leaf)]
        if any(len(str(text)) > MAX_WORDS_CHARS for text in texts):
            return False
        seen = collect_words((*self._user_texts(), *self._untrusted_texts(None)))
        return all(is_common_word(word) or word.lower() in seen for text in texts for word in WORD.findall(str(text)))

    async def _is_leaf_known(self, text: str) -> bool:
        if is_url(text):
            return await self._is_url_known(text)
        seen = (*self._user_texts(), *self._untrusted_texts(self.tool.taint_source))
        if len(SYMBOL.findall(text)) > MAX_SYMBOLS:  # symbols can encode data too
            return any(text in each for each in seen)
        phrase = normalize_phrase(text)
        if any(phrase in normalize_phrase(each) for each in seen):
            return True
        # Words of the user may come in any order. Untrusted words may not: a page could provide an alphabet to encode
        # anything with.
        user_words = {word for each in self._user_texts() for word in normalize_phrase(each).split()}
        return len(text) <= MAX_WORDS_CHARS and all(word in user_words for word in phrase.split())

    async def _is_url_known(self, text: str) -> bool:
        try:
            wanted = normalize_url(text)
        except ValueError:
            return False
        if (
            any(contains_url(each, wanted) for each in (*self._user_texts(), *self._untrusted_texts(None)))
            or wanted in self._subagent_urls()
        ):
            return True
        return self.run is not None and await self.run.history.contains_url(wanted)

    def _user_texts(self) -> Iterable[str]:
        """Return what users wrote. A subagent's task comes from a model, so the texts of the parent run are used."""
        if self.is_subagent:
            return self.run.taint.user_texts if self.run is not None else ()
        return user_texts(self.messages)

    def _untrusted_texts(self, source: str | None) -> Iterator[str]:
        """Return the untrusted texts of one source; None for all sources."""
        before = self.run.taint.untrusted_texts if self.is_subagent and self.run is not None else ()
        return (text for origin, text in (*before, *untrusted_texts(self.messages)) if source in (None, origin))

    def _subagent_urls(self) -> set[str]:
        """Return the URLs subagents have read, in this run and in earlier ones as recorded in messages."""
        recorded = (message.additional_kwargs.get(READ_URLS_MARK, ()) for message in self.messages)
        now = self.run.taint.urls if self.run is not None else ()
        return {*now, *(address for addresses in recorded for address in addresses)}

    async def _has_uploads(self) -> bool:
        if any(message.additional_kwargs.get("files") for message in self.messages):
            return True
        return self.run is not None and self.run.uploads is not None and bool(await self.run.uploads.list())


def user_texts(messages: Iterable[BaseMessage]) -> Iterator[str]:
    """Yield the texts written by users."""
    return (message.text for message in messages if is_user_message(message))


def untrusted_texts(messages: Iterable[BaseMessage]) -> Iterator[tuple[str, str]]:
    """Yield the untrusted texts, each with its source."""
    for message in messages:
        mark = message.additional_kwargs.get(UNTRUSTED_MARK) if isinstance(message, ToolMessage) else None
        if mark:
            yield str(mark), message.text


def iter_leaves(value: object) -> Iterator[object]:
    """Yield the scalar values of an argument, and the keys of its mappings."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield str(key)
            yield from iter_leaves(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from iter_leaves(part)
    else:
        yield value


def find_undeclared_arguments(arguments: Mapping[str, object], tool: "BaseTool | None") -> tuple[str, ...]:
    """Return the names of arguments that are not in the schema of a tool."""
    schema = tool.args_schema if tool is not None else None
    if isinstance(schema, dict):
        known: Collection[str] = schema.get("properties") or ()
    else:
        known = getattr(schema, "model_fields", None) or arguments
    return tuple(name for name in arguments if name not in known)


def is_trivial(leaf: object) -> bool:
    """Return whether a value carries almost no information: booleans, small integers, null, an empty string."""
    if leaf is None or isinstance(leaf, bool) or leaf == "":
        return True
    return isinstance(leaf, int) and abs(leaf) <= MAX_SMALL_NUMBER


def is_common_word(word: str) -> bool:
    """Return whether a word is alphabetic and of usual length, or a short number."""
    return (word.isalpha() and len(word) <= MAX_COMMON_LETTERS) or (word.isdigit() and len(word) <= 4)


def normalize_phrase(text: str) -> str:
    """Return the words of a text in order, each surrounded by single spaces.

    Words are lower-cased, except those with capitals inside: there the case may carry information.
    """
    return f" {' '.join(word.lower() if has_usual_case(word) else word for word in WORD.findall(text))} "


def has_usual_case(word: str) -> bool:
    """Return whether a word is in capitals, capitalized, or lower case."""
    return word.islower() or word.isupper() or word[1:].islower() or not word[1:].upper().isupper()


def collect_words(texts: Iterable[str]) -> set[str]:
    """Return all words of some texts in lower case."""
    return {word.lower() for text in texts for word in WORD.findall(text)}

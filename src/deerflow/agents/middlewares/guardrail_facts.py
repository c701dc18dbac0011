"""What is known about a call when it is judged: the tool, what was read in the thread, and what people wrote there."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from langchain_core.messages import AnyMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool

from deerflow.agents.middlewares.replies import is_from_a_person
from deerflow.config.policy import ToolSource
from deerflow.domain.context import RunContext
from deerflow.domain.reading import ADDRESSES_MARK, UNTRUSTED_MARK, essence, is_address, mentions
from deerflow.domain.tool_marks import CONFIGURED, FROM_MCP, SERVER, SOURCE, UNTRUSTED

UPLOADS, SUBAGENTS = "uploads", "subagents"
"""Whose words are read besides those that tools bring."""
COMMANDS = frozenset({"bash", "bash_output", "bash_kill"})
WORD = re.compile(r"\w+")
MARK = re.compile(r"[^\w\s]|\s{2,}")
MAX_WORDS_CHARS = 500
MAX_SMALL_NUMBER = 9_999
MAX_COMMON_LETTERS = 24
MAX_PLAIN = 3
MAX_MARKS = 12


@runtime_checkable
class Facts(Protocol):
    """What can be found out about a call, at a cost that only those who ask have to pay."""

    async def untrusted_from(self) -> Collection[str]:
        """Whose words were read in the thread, besides those of its people."""
        ...

    async def is_known(self, value: object) -> bool:
        """Whether an argument holds nothing but what the user wrote, or what whoever gets it has said."""
        ...

    async def is_ordinary(self, value: object) -> bool:
        """Whether an argument consists of common words and of ones that were read or written in the thread."""
        ...


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What kind of tool is called."""

    source: ToolSource = "builtin"
    server: str | None = None
    reaches_out: bool = True
    brings_untrusted: bool = False

    @property
    def voice(self) -> str | None:
        """As whose words its results are noted; None: they are our own."""
        return f"mcp:{self.server}" if self.source == "mcp" else None


@dataclass(frozen=True, slots=True)
class Reach:
    """What tools of this installation can send elsewhere."""

    commands: bool = False
    confined_servers: frozenset[str] = frozenset()
    """MCP servers that can send nothing anywhere."""

    def facts_of(self, tool: BaseTool | None, name: str) -> ToolFacts:
        """What kind of tool it is."""
        marks = (tool.metadata if tool is not None else None) or {}
        untrusted = bool(marks.get(UNTRUSTED))
        if marks.get(SOURCE) == FROM_MCP:
            server = str(marks.get(SERVER) or "")
            return ToolFacts("mcp", server, server not in self.confined_servers, brings_untrusted=True)
        if marks.get(SOURCE) == CONFIGURED:
            return ToolFacts("configured", None, reaches_out=True, brings_untrusted=untrusted)
        if untrusted:
            return ToolFacts("web", None, reaches_out=True, brings_untrusted=True)
        return ToolFacts("builtin", None, reaches_out=self.commands and name in COMMANDS)


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The facts about one call in a thread."""

    messages: Sequence[AnyMessage]
    noted: Collection[str]
    run: RunContext | None
    tool: ToolFacts
    is_subagent: bool = False

    async def untrusted_from(self) -> Collection[str]:
        sources = {*self.noted, *(self.run.reading.sources if self.run else ())}
        if UPLOADS not in sources and await self._has_uploads():
            sources.add(UPLOADS)
            if self.run is not None:  # so that nobody has to look again
                self.run.reading.sources.add(UPLOADS)
        return sources

    async def is_known(self, value: object) -> bool:
        found = list(leaves(value))
        # A list of small numbers, or of yes and no, can spell anything.
        few = sum(map(is_plain, found)) <= MAX_PLAIN
        return all([(few and is_plain(leaf)) or await self._is_leaf_known(str(leaf)) for leaf in found])

    async def is_ordinary(self, value: object) -> bool:
        texts = [leaf for leaf in leaves(value) if not is_plain(leaf)]
        if any(len(str(text)) > MAX_WORDS_CHARS for text in texts):
            return False
        said = words_of((*self._wrote(), *self._heard(None)))
        return all(is_common(word) or word.lower() in said for text in texts for word in WORD.findall(str(text)))

    async def _is_leaf_known(self, text: str) -> bool:
        if is_address(text):
            return await self._is_address_known(text)
        said = (*self._wrote(), *self._heard(self.tool.voice))
        if len(MARK.findall(text)) > MAX_MARKS:  # marks can spell something too
            return any(text in each for each in said)
        phrase = phrase_of(text)
        if any(phrase in phrase_of(each) for each in said):
            return True
        # In any order, but only of the user's words: whoever offers an alphabet could have anything spelled.
        wrote = {word for each in self._wrote() for word in phrase_of(each).split()}
        return len(text) <= MAX_WORDS_CHARS and all(word in wrote for word in phrase.split())

    async def _is_address_known(self, text: str) -> bool:
        try:
            wanted = essence(text)
        except ValueError:
            return False
        if (
            any(mentions(said, wanted) for said in (*self._wrote(), *self._heard(None)))
            or wanted in self._from_subagents()
        ):
            return True
        return self.run is not None and await self.run.history.mentions(wanted)

    def _wrote(self) -> Iterable[str]:
        """What people wrote; a subagent's own task was written by a model."""
        if self.is_subagent:
            return self.run.reading.wrote if self.run is not None else ()
        return spoken(self.messages)

    def _heard(self, voice: str | None) -> Iterator[str]:
        """What one stranger has said; None: what all of them have."""
        before = self.run.reading.heard if self.is_subagent and self.run is not None else ()
        return (text for whose, text in (*before, *brought(self.messages)) if voice in (None, whose))

    def _from_subagents(self) -> set[str]:
        """The addresses that subagents have read, in this run and, as far as they told of them, before."""
        told = (message.additional_kwargs.get(ADDRESSES_MARK, ()) for message in self.messages)
        now = self.run.reading.addresses if self.run is not None else ()
        return {*now, *(address for addresses in told for address in addresses)}

    async def _has_uploads(self) -> bool:
        if any(message.additional_kwargs.get("files") for message in self.messages):
            return True
        return self.run is not None and self.run.uploads is not None and bool(await self.run.uploads.list())


def spoken(messages: Iterable[BaseMessage]) -> Iterator[str]:
    """What people wrote."""
    return (message.text for message in messages if is_from_a_person(message))


def brought(messages: Iterable[BaseMessage]) -> Iterator[tuple[str, str]]:
    """What strangers have said, each with whose words it is."""
    for message in messages:
        mark = message.additional_kwargs.get(UNTRUSTED_MARK) if isinstance(message, ToolMessage) else None
        if mark:
            yield str(mark), message.text


def leaves(value: object) -> Iterator[object]:
    """The single values in an argument, names of its parts included."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield str(key)
            yield from leaves(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def undeclared_in(arguments: Mapping[str, object], tool: BaseTool | None) -> tuple[str, ...]:
    """The names of arguments that a tool does not know."""
    schema = tool.args_schema if tool is not None else None
    if isinstance(schema, dict):
        known: Collection[str] = schema.get("properties") or ()
    else:
        known = getattr(schema, "model_fields", None) or arguments
    return tuple(name for name in arguments if name not in known)


def is_plain(leaf: object) -> bool:
    """Whether a value can hold next to nothing: yes and no, small numbers, nothing."""
    if leaf is None or isinstance(leaf, bool) or leaf == "":
        return True
    return isinstance(leaf, int) and abs(leaf) <= MAX_SMALL_NUMBER


def is_common(word: str) -> bool:
    """Whether a word is one of those that everybody uses, or a short number."""
    return (word.isalpha() and len(word) <= MAX_COMMON_LETTERS) or (word.isdigit() and len(word) <= 4)


def phrase_of(text: str) -> str:
    """The words of a text in their order, with nothing but spaces around each.

    Letters are made small where that tells nothing: not in words with large ones in their midst.
    """
    return f" {' '.join(word.lower() if is_usual(word) else word for word in WORD.findall(text))} "


def is_usual(word: str) -> bool:
    """Whether a word has large letters throughout, at its beginning, or nowhere."""
    return word.islower() or word.isupper() or word[1:].islower() or not word[1:].upper().isupper()


def words_of(texts: Iterable[str]) -> set[str]:
    """All words of some texts, in small letters."""
    return {word.lower() for text in texts for word in WORD.findall(text)}

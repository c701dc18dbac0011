"""Markdown as Telegram shows it: plain text with entities, in parts that fit into a message.

Entities cannot be malformed, as markup in a text can: Telegram refuses a whole message for one wrong character.
"""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from markdown_it import MarkdownIt
from markdown_it.token import Token

from deerflow.channels import splitting
from deerflow.channels.splitting import count_units

MAX_UNITS = 4096
"""Length of the longest message, in UTF-16 code units, as Telegram counts."""
MAX_ENTITIES = 100
"""Number of entities of a message; Telegram ignores more."""
LINKS = ("http://", "https://", "tg://", "mailto:")
STYLES = MappingProxyType({"strong": "bold", "em": "italic", "s": "strikethrough"})
BULLET = "• "


@dataclass(frozen=True, slots=True)
class TextEntity:
    """Part of a text with a style; offset and length in UTF-16 code units."""

    type: str
    offset: int
    length: int
    attributes: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the entity as the Bot API takes it."""
        return {"type": self.type, "offset": self.offset, "length": self.length, **dict(self.attributes)}


@dataclass(slots=True)
class RenderedText:
    """Text that grows, with its entities."""

    text: str = ""
    entities: list[TextEntity] = field(default_factory=list)
    units: int = 0

    def add(self, text: str) -> None:
        """Append text."""
        self.text += text
        self.units += count_units(text)

    def mark(self, kind: str, begin: int, *attributes: tuple[str, str]) -> None:
        """Give a style to all text since `begin`."""
        if self.units > begin:
            self.entities.append(TextEntity(kind, begin, self.units - begin, attributes))


def render_markdown(markdown: str) -> RenderedText:
    """Return Markdown as text with entities."""
    tokens = create_parser().parse(markdown)
    rendered = MarkdownRenderer().render(tokens)
    stripped = rendered.text.rstrip()
    rendered.units -= count_units(rendered.text) - count_units(stripped)
    rendered.text = stripped
    kept = [each for each in rendered.entities if each.offset < rendered.units]
    shortened = [
        TextEntity(each.type, each.offset, min(each.length, rendered.units - each.offset), each.attributes)
        for each in kept
    ]
    rendered.entities = sorted(shortened, key=lambda each: (each.offset, -each.length))[:MAX_ENTITIES]
    return rendered


def create_parser() -> MarkdownIt:
    """Return a parser of the Markdown that models write."""
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


class MarkdownRenderer:
    """Renders the tokens of one document."""

    def __init__(self) -> None:
        self._out = RenderedText()
        self._open: list[tuple[int, str]] = []
        """Offsets at which styles began, with the link if it is one."""
        self._lists: list[int | None] = []
        """Number of the next item of each open list; None if it has bullets."""
        self._gap = ""
        self._rows: list[list[str]] = []

    def render(self, tokens: Sequence[Token]) -> RenderedText:
        """Return the text of block tokens."""
        for token in tokens:
            handle = self._handlers().get(token.type)
            if handle is not None:
                handle(token)
        return self._out

    def _handlers(self) -> dict[str, Callable[[Token], object]]:
        return {
            "inline": self._inline,
            "fence": self._code,
            "code_block": self._code,
            "html_block": lambda token: self._block(token.content.rstrip("\n")),
            "hr": lambda token: self._block("———"),
            "heading_open": lambda token: self._begin(),
            "heading_close": lambda token: self._end("bold"),
            "paragraph_open": lambda token: self._fill_gap(),
            "paragraph_close": lambda token: self._set_gap("\n" if token.hidden else "\n\n"),
            "blockquote_open": lambda token: self._begin(),
            "blockquote_close": lambda token: self._end("blockquote"),
            "bullet_list_open": lambda token: self._lists.append(None),
            "ordered_list_open": lambda token: self._lists.append(int(token.attrs.get("start", 1))),
            "bullet_list_close": lambda token: self._close_list(),
            "ordered_list_close": lambda token: self._close_list(),
            "list_item_open": lambda token: self._begin_item(),
            "tr_open": lambda token: self._rows.append([]),
            "table_close": lambda token: self._table(),
        }

    def _fill_gap(self) -> None:
        if self._out.text:
            self._out.add(self._gap)
        self._gap = ""

    def _set_gap(self, gap: str) -> None:
        self._gap = gap

    def _block(self, text: str) -> int:
        """Append a paragraph of its own and return its offset."""
        self._fill_gap()
        begin = self._out.units
        self._out.add(text)
        self._gap = "\n\n"
        return begin

    def _begin(self) -> None:
        self._fill_gap()
        self._open.append((self._out.units, ""))

    def _end(self, style: str) -> None:
        self._out.mark(style, self._open.pop()[0])
        self._gap = "\n\n"

    def _close_list(self) -> None:
        self._lists.pop()
        self._gap = "\n" if self._lists else "\n\n"

    def _begin_item(self) -> None:
        if self._out.text and self._gap:
            self._gap = "\n" if self._lists and self._out.text else self._gap
        self._fill_gap()
        number = self._lists[-1]
        if number is not None:
            self._lists[-1] = number + 1
        indent = "   " * (len(self._lists) - 1)
        self._out.add(indent + (BULLET if number is None else f"{number}. "))

    def _code(self, token: Token) -> None:
        begin = self._block(token.content.rstrip("\n") or " ")
        language = token.info.split()[0] if token.info.split() else ""
        self._out.mark("pre", begin, *([("language", language)] if language else []))

    def _inline(self, token: Token) -> None:
        if self._rows:
            self._rows[-1].append("".join(plain_text(token.children or ())))
            return
        for child in token.children or ():
            self._style(child)

    def _style(self, token: Token) -> None:
        kind, _, end = token.type.rpartition("_")
        if token.type in ("softbreak", "hardbreak"):
            self._out.add("\n")
        elif token.type == "code_inline":
            begin = self._out.units
            self._out.add(token.content)
            self._out.mark("code", begin)
        elif token.type == "image":
            begin = self._out.units
            self._out.add(token.content or str(token.attrs.get("src", "")))
            self._link(begin, str(token.attrs.get("src", "")))
        elif end == "open" and kind in (*STYLES, "link"):
            self._open.append((self._out.units, str(token.attrs.get("href", ""))))
        elif end == "close" and kind == "link":
            self._link(*self._open.pop())
        elif end == "close" and kind in STYLES:
            self._out.mark(STYLES[kind], self._open.pop()[0])
        else:
            self._out.add(token.content)

    def _link(self, begin: int, address: str) -> None:
        if address.startswith(LINKS):
            self._out.mark("text_link", begin, ("url", address))

    def _table(self) -> None:
        """Append the table as monospaced columns: Telegram has no tables."""
        rows, self._rows = self._rows, []
        columns = max(map(len, rows))
        filled = [[*row, *[""] * (columns - len(row))] for row in rows]
        widths = [max(measure_width(row[at]) for row in filled) for at in range(columns)]
        lines = ["  ".join(pad(cell, width) for cell, width in zip(row, widths, strict=True)) for row in filled]
        lines.insert(1, "  ".join("─" * width for width in widths))
        self._out.mark("pre", self._block("\n".join(line.rstrip() for line in lines)))


def plain_text(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the text of inline tokens without styles."""
    for token in tokens:
        yield " " if token.type.endswith("break") else token.content


def measure_width(text: str) -> int:
    """Return the number of columns that a text takes in a monospaced font."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def pad(text: str, width: int) -> str:
    """Return a text filled with spaces to a width."""
    return text + " " * (width - measure_width(text))


def split_markdown(markdown: str, limit: int = MAX_UNITS) -> list[str]:
    """Return parts of Markdown that fit into a message each, in their order."""
    return splitting.split_markdown(markdown, limit, lambda part: render_markdown(part).units)

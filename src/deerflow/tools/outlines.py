"""How the model is told of a document that was turned into Markdown, so that it reads the lines it needs."""

from collections.abc import Iterator
from html import escape
from types import MappingProxyType

from deerflow.domain.uploads import Outline
from deerflow.tools.wording import one_line

MARKS = MappingProxyType({"page": "<!-- Page N -->", "slide": "<!-- Slide number: N -->", "sheet": "## its name"})
MAX_LINE = 160


def describe_markdown(path: str, outline: Outline | None) -> str:
    """Where the Markdown of a document is, and how much of it there is."""
    if outline is None:
        return f"as Markdown: {one_line(path)}"
    size = [f"{outline.lines} lines"]
    if outline.kind is not None and outline.parts:
        plural = "" if outline.parts == 1 else "s"
        size.append(f"{outline.parts} {outline.kind}{plural}, each after a line `{MARKS[outline.kind]}`")
    return f"as Markdown: {one_line(path)} ({', '.join(size)})"


def outline_lines(outline: Outline, most: int) -> Iterator[str]:
    """What is at which line; a document may say anything in its headings."""
    for heading in outline.headings[:most]:
        indent = "  " * heading.level
        yield f"{indent}line {heading.line}: {shown(heading.title)}"
    if len(outline.headings) > most:
        yield f"  … and {len(outline.headings) - most} more headings"
    if not outline.headings and outline.beginning:
        yield "  it has no headings and begins:"
        yield from (f"  > {shown(line)}" for line in outline.beginning)


def shown(text: str) -> str:
    """A line of a document that can pretend to be nothing else."""
    return escape(one_line(text)[:MAX_LINE], quote=False)

"""Long texts in parts that fit into a message of a chat app."""

import re
from collections.abc import Callable, Iterator

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def count_units(text: str) -> int:
    """Return the length of a text in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def split_markdown(markdown: str, limit: int, measure: Callable[[str], int] = count_units) -> list[str]:
    """Return parts of Markdown whose measure is at most `limit`, in their order; those that measure 0 are left out.

    Parts end between paragraphs if possible. Code that is longer than a message is closed and opened again.
    """
    parts: list[str] = []
    for block in iterate_blocks(markdown):
        joined = f"{parts[-1]}\n\n{block}" if parts else block
        if parts and measure(joined) <= limit:
            parts[-1] = joined
        elif measure(block) <= limit:
            parts.append(block)
        else:
            parts += split_block(block, limit, measure)
    return [part for part in parts if measure(part)]


def iterate_blocks(markdown: str) -> Iterator[str]:
    """Yield what stands between blank lines; code is not divided."""
    lines: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        fence = next_fence(fence, line)
        if line.strip() or fence:
            lines.append(line)
        elif lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def next_fence(fence: str, line: str) -> str:
    """Return the line that opens the code block in which the line after `line` is; empty if it is in none."""
    found = FENCE.fullmatch(line)
    if found is None:
        return fence
    if not fence:
        return line
    opened = FENCE.fullmatch(fence)
    closes = opened is not None and found[1].startswith(opened[1]) and not found[2].strip()
    return "" if closes else fence


def split_block(block: str, limit: int, measure: Callable[[str], int]) -> Iterator[str]:
    """Yield a block that is too long in parts, at ends of lines, else at spaces, else anywhere."""
    part, fence = "", ""
    for line in (piece for whole in block.split("\n") for piece in split_line(whole, limit // 2)):
        longer = f"{part}\n{line}" if part else line
        if part and measure(longer) > limit:
            yield close_fence(part, fence)
            longer = f"{fence}\n{line}" if fence else line
        part, fence = longer, next_fence(fence, line)
    yield part


def close_fence(part: str, fence: str) -> str:
    """Return a part whose code block is closed."""
    opened = FENCE.fullmatch(fence)
    return part if opened is None else f"{part}\n{opened[1]}"


def split_line(line: str, limit: int) -> Iterator[str]:
    """Yield a line in pieces of at most `limit` code units."""
    while count_units(line) > limit:
        end = limit // 2 if count_units(line[:limit]) > limit else limit
        space = line.rfind(" ", end // 2, end)
        end = end if space < 0 else space + 1
        yield line[:end]
        line = line[end:]
    yield line

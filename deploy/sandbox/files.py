"""Files as bytes, listings and searches. Nothing here goes through a shell; failures are the system's own errors."""

import asyncio
import errno
import os
import stat
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from commands import Commands

MAX_BYTES = 256 * 1024 * 1024
MAX_FILE_SIZE = "1M"
MAX_LINE_BYTES = 500
FAILED = 2
UNFINISHED = ".deerflow-unfinished-"
"""How the names of files begin that are still being written."""
LEFT_OUT = (
    *(".git", ".hg", ".svn", ".home", "node_modules", "__pycache__", ".venv", "venv"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", "*.pyc"),
)
"""What nobody looks for."""


@dataclass(frozen=True)
class Entry:
    """A file or folder below the one that is listed."""

    path: str
    below: tuple[str, ...]
    is_directory: bool

    def describe(self) -> dict[str, object]:
        """As the API shows it."""
        return {"name": self.below[-1], "path": self.path, "is_directory": self.is_directory}


@dataclass(frozen=True)
class Search:
    """What to look for in the lines of files."""

    path: str
    pattern: str
    include: Sequence[str]
    fixed: bool
    ignore_case: bool
    max_results: int

    @property
    def arguments(self) -> list[str]:
        """What ripgrep is told."""
        words = ["--no-heading", "--with-filename", "--line-number", "--color=never"]
        words += [f"--max-columns={MAX_LINE_BYTES}", "--max-columns-preview", f"--max-filesize={MAX_FILE_SIZE}"]
        words += ["--fixed-strings"] if self.fixed else []
        words += ["--ignore-case"] if self.ignore_case else ["--case-sensitive"]
        return [*words, *globs(*self.include), f"--regexp={self.pattern}"]


class BadPattern(ValueError):
    """What is looked for is not written correctly."""


def read(path: str) -> bytes:
    """The content of a regular file; opening a pipe does not wait for its other end."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.ENXIO, "not a regular file")
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"the file has more than {MAX_BYTES // 1024**2} MB")
    return content


def write(path: str, content: bytes, append: bool) -> None:
    """Make, replace or lengthen a file; missing folders are made."""
    target = Path(path).resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, "not a folder") from None
    if target.exists() and not target.is_file():
        raise OSError(errno.EISDIR if target.is_dir() else errno.ENXIO, "not a regular file")
    if append:
        with target.open("ab") as file:
            file.write(content)
        return
    unfinished = target.with_name(f"{UNFINISHED}{os.urandom(8).hex()}")
    try:  # replaced as a whole, so that nobody reads a half
        unfinished.write_bytes(content)
        if target.exists():
            unfinished.chmod(target.stat().st_mode & 0o777)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def walk(path: str, max_depth: int, below: tuple[str, ...] = ()) -> Iterator[Entry]:
    """Everything in a folder, by name; links are shown and not followed."""
    with os.scandir(path) as inside:
        found = sorted(inside, key=lambda each: each.name)
    for each in found:
        if each.name.startswith(UNFINISHED) or not is_text(each.name):
            continue
        entry = Entry(each.path, (*below, each.name), each.is_dir(follow_symlinks=False))
        yield entry
        if entry.is_directory and len(entry.below) < max_depth and os.access(each.path, os.R_OK | os.X_OK):
            yield from walk(each.path, max_depth, entry.below)


def is_text(name: str) -> bool:
    """Whether UTF-8 can say a name; the system invents surrogates for other bytes."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def find_folders(path: str, pattern: str) -> Iterator[str]:
    """Folders whose path matches; `**` is any number of folders, and a pattern without `/` matches anywhere."""
    wanted = tuple(pattern.strip("/").split("/")) if "/" in pattern else ("**", pattern)
    folders = (entry for entry in walk(path, 64) if entry.is_directory and not any(map(is_left_out, entry.below)))
    return (f"{entry.path}/" for entry in folders if matches(entry.below, wanted))


def is_left_out(name: str) -> bool:
    """Whether nobody looks for it."""
    return any(fnmatchcase(name, pattern) for pattern in LEFT_OUT)


@lru_cache(maxsize=4096)
def matches(names: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether a path matches, both taken apart at `/`."""
    if not pattern:
        return not names
    if pattern[0] == "**":
        return matches(names, pattern[1:]) or (bool(names) and matches(names[1:], pattern))
    return bool(names) and fnmatchcase(names[0], pattern[0]) and matches(names[1:], pattern[1:])


async def find(commands: Commands, path: str, pattern: str, include_dirs: bool, limit: int) -> Sequence[str]:
    """Files, and folders if so wished, whose path matches a pattern; more than `limit` if there are more."""
    found: list[str] = []
    async with aclosing(ripgrep(commands, path, ["--files", *globs(pattern)])) as files:
        async for name, _ in files:
            found.append(name)
            if len(found) > limit:
                break
    if include_dirs:
        found += await asyncio.to_thread(lambda: list(find_folders(path, pattern)))
    return sorted(found)


async def grep(commands: Commands, search: Search) -> Sequence[dict[str, object]]:
    """Matching lines; one more than asked for if there are more."""
    matching: list[dict[str, object]] = []
    async with aclosing(ripgrep(commands, search.path, search.arguments, rest_ends=b"\n")) as found:
        async for name, rest in found:
            number, _, line = rest.partition(":")
            matching.append({"file": name, "line_number": int(number), "line_content": line.rstrip("\r\n")})
            if len(matching) > search.max_results:
                break
    return matching


async def ripgrep(
    commands: Commands, path: str, options: Sequence[str], rest_ends: bytes = b""
) -> AsyncGenerator[tuple[str, str], None]:
    """The paths ripgrep prints, each with the rest of its line; no pattern takes it more than linear time."""
    folder, name = (path, "") if await asyncio.to_thread(is_folder, path) else os.path.split(path)
    common = ["rg", "--no-config", "--no-messages", "--hidden", "--no-ignore", "--null", "--sort=path"]
    running = await commands.start([*common, *options, "--", f"./{name}"], directory=folder)
    try:
        while (found := await read_until(running.output, b"\0")).endswith("\0"):
            rest = await read_until(running.output, rest_ends) if rest_ends else ""
            below = f"\n{found[:-1]}".rpartition("\n./")[2]  # before that may be a remark about a binary file
            yield f"{folder.rstrip('/')}/{below}", rest
        if await running.ended == FAILED and found:
            raise BadPattern(f"the search failed: {found.replace('rg: ', '').strip()}")
    finally:
        await commands.drop(running)


async def read_until(stream: asyncio.StreamReader, end: bytes) -> str:
    """What comes up to the next `end`, and that; without it when nothing comes any more."""
    try:
        return (await stream.readuntil(end)).decode(errors="replace")
    except asyncio.IncompleteReadError as rest:
        return rest.partial.decode(errors="replace")


def is_folder(path: str) -> bool:
    """Whether there is a folder at `path`; if there is nothing, the system says so."""
    return stat.S_ISDIR(Path(path).stat().st_mode)


def globs(*patterns: str) -> list[str]:
    """What is looked at: the patterns, and never what nobody looks for."""
    return [*(f"--glob={pattern}" for pattern in patterns), *(f"--glob=!{name}" for name in LEFT_OUT)]

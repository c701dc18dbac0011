"""Search for files and lines with ripgrep, whose regular expressions run in linear time."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from deerflow.domain.errors import SandboxError
from deerflow.domain.sandbox import GrepMatch

MAX_FILE_SIZE = "1M"
MAX_LINE = 500
EXCLUDED = (
    ".git", ".hg", ".svn", ".home", "node_modules", "__pycache__", ".venv", "venv", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", "*.pyc",
)  # fmt: skip
"""Names excluded from searches."""
# Warning that ripgrep prints after the matches of a file that turned out to be binary.
BINARY_WARNING = (
    r'(?:[^\0]*: WARNING: stopped searching binary file after match \(found "\\0" byte around offset \d+\)\n)?'
)
MATCH = re.compile(rf"{BINARY_WARNING}([^\0]*)\0(\d+)[:-]([^\n]*)\n?")
NO_MATCH, FAILED = 1, 2
FIND_FOLDERS = r"""
shopt -s globstar nullglob dotglob
IFS=
for found in $1; do [ -d "$found" ] && [ ! -L "$found" ] && printf '%s\0' "${found%/}"; done
:
"""


def build_files_command(program: str, pattern: str) -> list[str]:
    """Return the command that lists files matching a glob, separated by zero bytes."""
    return [
        program,
        "--no-config",
        "--files",
        "--null",
        *SEARCH_OPTIONS,
        "--sort=path",
        *glob_options(pattern),
        "--",
        ".",
    ]


def build_folders_command(pattern: str) -> list[str]:
    """Return the command that lists folders matching a glob."""
    if ".." in pattern.split("/"):
        raise SandboxError(f"the pattern {pattern!r} must not contain '..'; search in another folder instead")
    glob = pattern.lstrip("/") if "/" in pattern else f"**/{pattern}"
    return ["/bin/bash", "-c", FIND_FOLDERS, "bash", glob]


def build_lines_command(
    program: str, pattern: str, glob: str | None, literal: bool, case_sensitive: bool, max_results: int
) -> list[str]:
    """Return the command that lists matching lines; a zero byte ends the path, a line ending the line."""
    kind = ["--fixed-strings"] if literal else []
    case = ["--case-sensitive"] if case_sensitive else ["--ignore-case"]
    shape = ["--null", "--line-number", "--with-filename", "--no-heading", "--color=never", f"--max-columns={MAX_LINE}"]
    limits = ["--max-columns-preview", f"--max-filesize={MAX_FILE_SIZE}", f"--max-count={max_results + 1}"]
    command = [
        program,
        "--no-config",
        *SEARCH_OPTIONS,
        "--sort=path",
        *kind,
        *case,
        *shape,
        *limits,
        *glob_options(glob),
    ]
    return [*command, "--regexp", pattern, "--", "."]


SEARCH_OPTIONS = ("--hidden", "--no-ignore", "--no-messages")


def glob_options(pattern: str | None) -> list[str]:
    """Return the options for the pattern and the excluded names."""
    included = [f"--glob={pattern}"] if pattern else []
    return [*included, *(f"--glob=!{name}" for name in EXCLUDED)]


def parse_files(output: str, folder: str) -> list[str]:
    """Return the paths in the output of the files command."""
    return [join_path(folder, name) for name in output.split("\0") if name.strip("\n")]


def parse_folders(output: str, folder: str) -> list[str]:
    """Return the paths in the output of the folders command, without excluded names."""
    names = [name for name in output.split("\0") if name and not any(map(is_excluded, name.split("/")))]
    return [f"{join_path(folder, name)}/" for name in names]


def is_excluded(name: str) -> bool:
    """Return True if files of that name are excluded."""
    return any(fnmatchcase(name, pattern) for pattern in EXCLUDED)


def parse_lines(output: str, folder: str) -> list[GrepMatch]:
    """Return the matches in the output of the lines command."""
    return [
        GrepMatch(join_path(folder, found[1].lstrip("\n")), int(found[2]), found[3].rstrip("\r"))
        for found in MATCH.finditer(output)
    ]


def check_search(code: int, output: str) -> None:
    """Raise an error if ripgrep rejected the pattern."""
    text = output.strip()
    if code >= FAILED and text and "\0" not in text:  # unreadable files print nothing
        raise SandboxError(f"the search failed: {text.replace('rg: ', '')[:500]}")


def join_path(folder: str, name: str) -> str:
    """Return the absolute path of a result."""
    return f"{folder.rstrip('/')}/{name.removeprefix('./')}"


def truncate(found: Sequence[str], limit: int) -> tuple[Sequence[str], bool]:
    """Return the first results, and True if there are more."""
    return found[:limit], len(found) > limit

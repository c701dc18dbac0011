"""Finding files and lines with ripgrep, which no pattern can keep busy for long."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from deerflow.domain.errors import SandboxError
from deerflow.domain.sandbox import GrepMatch

MAX_FILE_SIZE = "1M"
MAX_LINE = 500
LEFT_OUT = (
    ".git", ".hg", ".svn", ".home", "node_modules", "__pycache__", ".venv", "venv", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", "*.pyc",
)  # fmt: skip
"""What nobody looks for."""
# What ripgrep says after the matches of a file that turned out to be binary, before those of the next.
REMARK = r'(?:[^\0]*: WARNING: stopped searching binary file after match \(found "\\0" byte around offset \d+\)\n)?'
MATCH = re.compile(rf"{REMARK}([^\0]*)\0(\d+)[:-]([^\n]*)\n?")
NO_MATCH, FAILED = 1, 2
FIND_FOLDERS = r"""
shopt -s globstar nullglob dotglob
IFS=
for found in $1; do [ -d "$found" ] && [ ! -L "$found" ] && printf '%s\0' "${found%/}"; done
:
"""


def files_command(program: str, pattern: str) -> list[str]:
    """The command that lists files whose path matches a glob, each ended by a zero byte."""
    return [program, "--no-config", "--files", "--null", *EVERYWHERE, "--sort=path", *globs(pattern), "--", "."]


def folders_command(pattern: str) -> list[str]:
    """The command that lists folders whose path matches a glob."""
    if ".." in pattern.split("/"):
        raise SandboxError(f"the pattern {pattern!r} goes up with '..'; search in another folder instead")
    wanted = pattern.lstrip("/") if "/" in pattern else f"**/{pattern}"
    return ["/bin/bash", "-c", FIND_FOLDERS, "bash", wanted]


def lines_command(
    program: str, pattern: str, glob: str | None, literal: bool, case_sensitive: bool, max_results: int
) -> list[str]:
    """The command that lists matching lines, path and line ended by a zero byte and a line end."""
    kind = ["--fixed-strings"] if literal else []
    case = ["--case-sensitive"] if case_sensitive else ["--ignore-case"]
    shape = ["--null", "--line-number", "--with-filename", "--no-heading", "--color=never", f"--max-columns={MAX_LINE}"]
    limits = ["--max-columns-preview", f"--max-filesize={MAX_FILE_SIZE}", f"--max-count={max_results + 1}"]
    command = [program, "--no-config", *EVERYWHERE, "--sort=path", *kind, *case, *shape, *limits, *globs(glob)]
    return [*command, "--regexp", pattern, "--", "."]


EVERYWHERE = ("--hidden", "--no-ignore", "--no-messages")


def globs(pattern: str | None) -> list[str]:
    """What is looked at: the pattern, and never what nobody looks for."""
    wanted = [f"--glob={pattern}"] if pattern else []
    return [*wanted, *(f"--glob=!{name}" for name in LEFT_OUT)]


def read_files(output: str, folder: str) -> list[str]:
    """The paths in the output of a command that lists files."""
    return [join(folder, name) for name in output.split("\0") if name.strip("\n")]


def read_folders(output: str, folder: str) -> list[str]:
    """The paths in the output of a command that lists folders, without what nobody looks for."""
    names = [name for name in output.split("\0") if name and not any(map(is_left_out, name.split("/")))]
    return [f"{join(folder, name)}/" for name in names]


def is_left_out(name: str) -> bool:
    """Whether nobody looks for files of that name."""
    return any(fnmatchcase(name, pattern) for pattern in LEFT_OUT)


def read_lines(output: str, folder: str) -> list[GrepMatch]:
    """The matches in the output of a command that lists lines."""
    return [
        GrepMatch(join(folder, found[1].lstrip("\n")), int(found[2]), found[3].rstrip("\r"))
        for found in MATCH.finditer(output)
    ]


def check_search(code: int, output: str) -> None:
    """Raise what ripgrep has to say about a pattern it cannot use."""
    text = output.strip()
    if code >= FAILED and text and "\0" not in text:  # it says nothing where it only could not read a file
        raise SandboxError(f"the search failed: {text.replace('rg: ', '')[:500]}")


def join(folder: str, name: str) -> str:
    """The whole path of something found from `folder`."""
    return f"{folder.rstrip('/')}/{name.removeprefix('./')}"


def first(found: Sequence[str], limit: int) -> tuple[Sequence[str], bool]:
    """As many as asked for, and whether there are more."""
    return found[:limit], len(found) > limit

"""Sandbox tools of the agent. The first argument of each is `description`, which users see while the tool runs."""

import asyncio
from collections.abc import Callable
from typing import Any

from langchain.tools import ToolRuntime

from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.sandbox import BackgroundOutput, Sandbox, SandboxLease
from deerflow.domain.tools import changes_files, read_only
from deerflow.sandbox.files.mounts import HOME

MAX_PATHS = 1000
MAX_MATCHES = 500
MAX_LINE = 200
LISTED_LEVELS = 2
NOTHING = "(no output)"
EMPTY = "(empty)"

REPORT_INTERVAL_S = 0.2
MAX_CHUNK = 8_000
MAX_STREAMED = 64_000
"""Characters of one command that are streamed live. The tool result has both ends of the output."""


async def bash(
    description: str,
    command: str,
    runtime: ToolRuntime[RunContext],
    background: bool = False,
    name: str | None = None,
) -> str:
    """Run a bash command in /mnt/user-data/workspace. Each call starts there afresh; files stay, variables do not.

    Args:
        description: Why, in a few words.
        command: The command line.
        background: For servers and long jobs: return at once and let it run on. See bash_output, bash_kill.
        name: How the background process is called.
    """
    lease = current_lease(runtime)
    sandbox = await lease.sandbox()
    if background:
        process = name or "job"
        await sandbox.start_process(process, command)
        return f"Started {process!r} in the background. See what it prints with bash_output."
    progress = ToolProgress(runtime.stream_writer, runtime.tool_call_id or "", "bash")
    try:
        result = await sandbox.execute_command(command, on_output=progress.add)
    finally:
        progress.close()
    output = result.output.rstrip("\n") or NOTHING
    return output if result.exit_code == 0 else f"{output}\n[exit code {result.exit_code}]"


@read_only
async def bash_output(description: str, name: str, runtime: ToolRuntime[RunContext]) -> str:
    """Show what a background process printed since it was last asked.

    Args:
        description: Why, in a few words.
        name: The name it was started with.
    """
    return format_background_output(await (await current_sandbox(runtime)).process_output(name))


async def bash_kill(description: str, name: str, runtime: ToolRuntime[RunContext]) -> str:
    """End a background process.

    Args:
        description: Why, in a few words.
        name: The name it was started with.
    """
    return format_background_output(await (await current_sandbox(runtime)).kill_process(name))


@read_only
async def ls(description: str, path: str, runtime: ToolRuntime[RunContext]) -> str:
    """List a folder, two levels deep.

    Args:
        description: Why, in a few words.
        path: Absolute path of the folder.
    """
    lease = current_lease(runtime)
    found = await (await lease.sandbox()).list_dir(path, LISTED_LEVELS)
    # The home folder holds caches of programs; they are listed only on request.
    shown = [each for each in found.paths if path.startswith(HOME) or not each.startswith(f"{HOME}/")]
    more = "\n(there is more: list a folder in it)" if found.truncated else ""
    return clip_end("\n".join(shown) or EMPTY, lease.limits.ls, "list a folder in it") + more


@read_only
async def glob(
    description: str,
    pattern: str,
    path: str,
    runtime: ToolRuntime[RunContext],
    include_dirs: bool = False,
    max_results: int = 200,
) -> str:
    """Find files by name.

    Args:
        description: Why, in a few words.
        pattern: For example **/*.py
        path: Absolute path of the folder to search.
        include_dirs: Find folders too.
        max_results: At most 1000.
    """
    limit = max(1, min(max_results, MAX_PATHS))
    found = await (await current_sandbox(runtime)).glob(path, pattern, include_dirs=include_dirs, max_results=limit)
    if not found.paths:
        return f"No paths under {path} match {pattern}"
    lines = [f"Found {len(found.paths)} paths under {path}"]
    lines += [f"{number}. {each}" for number, each in enumerate(found.paths, 1)]
    return "\n".join([*lines, *format_truncation(found.truncated)])


@read_only
async def grep(
    description: str,
    pattern: str,
    path: str,
    runtime: ToolRuntime[RunContext],
    glob: str | None = None,
    literal: bool = False,
    case_sensitive: bool = False,
    max_results: int = 100,
) -> str:
    """Search the content of files.

    Args:
        description: Why, in a few words.
        pattern: A regular expression.
        path: Absolute path of the folder to search.
        glob: Only in files whose name matches.
        literal: Take the pattern as plain text.
        case_sensitive: Tell upper from lower case.
        max_results: At most 500.
    """
    limit = max(1, min(max_results, MAX_MATCHES))
    found = await (await current_sandbox(runtime)).grep(
        path, pattern, glob=glob, literal=literal, case_sensitive=case_sensitive, max_results=limit
    )
    if not found.matches:
        return f"No matches under {path}"
    lines = [f"{each.path}:{each.line_number}: {each.line[:MAX_LINE]}" for each in found.matches]
    return "\n".join([f"Found {len(lines)} matches under {path}", *lines, *format_truncation(found.truncated)])


@read_only
async def read_file(
    description: str,
    path: str,
    runtime: ToolRuntime[RunContext],
    start_line: int | None = None,
    end_line: int | None = None,
) -> str:
    """Read a text file.

    Args:
        description: Why, in a few words.
        path: Absolute path.
        start_line: The first line wanted, from 1.
        end_line: The last line wanted.
    """
    lease = current_lease(runtime)
    text = await (await lease.sandbox()).read_file(path)
    if not text:
        return EMPTY
    if start_line is not None or end_line is not None:
        text = select_lines(text, path, start_line, end_line)
    return clip_end(text, lease.limits.read_file, "read the rest with start_line and end_line")


@changes_files
async def write_file(
    description: str, path: str, content: str, runtime: ToolRuntime[RunContext], append: bool = False
) -> str:
    """Write a text file, or add to its end. Missing folders are made.

    Args:
        description: Why, in a few words.
        path: Absolute path.
        content: The text.
        append: Add to what is there.
    """
    lease = current_lease(runtime)
    async with lease.lock(path):
        await (await lease.sandbox()).write_file(path, content, append)
    return "OK"


@changes_files
async def str_replace(
    description: str,
    path: str,
    old_str: str,
    new_str: str,
    runtime: ToolRuntime[RunContext],
    replace_all: bool = False,
) -> str:
    """Replace a text in a file.

    Args:
        description: Why, in a few words.
        path: Absolute path.
        old_str: What to replace, exactly as it stands there and only once.
        new_str: What to put in its place.
        replace_all: Replace every occurrence.
    """
    lease = current_lease(runtime)
    async with lease.lock(path):
        sandbox = await lease.sandbox()
        text = await sandbox.read_file(path)
        await sandbox.write_file(path, replace_text(text, path, old_str, new_str, replace_all))
    return "OK"


bash_tool = bash
bash_output_tool = bash_output
bash_kill_tool = bash_kill
ls_tool = ls
glob_tool = glob
grep_tool = grep
read_file_tool = read_file
write_file_tool = write_file
str_replace_tool = str_replace


class ToolProgress:
    """Collector of output that reports it in batches as `tool_progress` events."""

    def __init__(self, report: Callable[[Any], None], tool_call_id: str, tool: str) -> None:
        self._report = report
        self._base = {"type": "tool_progress", "tool_call_id": tool_call_id, "tool": tool}
        self._buffer = ""
        self._streamed = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        """Add output; the first chunk is reported at once."""
        if self._streamed >= MAX_STREAMED:
            return
        self._buffer = (self._buffer + text)[-MAX_CHUNK:]
        if self._timer is None:
            self._send()

    def close(self) -> None:
        """Stop reporting: the tool result follows."""
        if self._timer is not None:
            self._timer.cancel()
        self._streamed = MAX_STREAMED

    def _send(self) -> None:
        self._timer = None
        if not self._buffer or self._streamed >= MAX_STREAMED:
            return
        self._streamed += len(self._buffer)
        self._report({**self._base, "output": self._buffer})
        self._buffer = ""
        self._timer = asyncio.get_running_loop().call_later(REPORT_INTERVAL_S, self._send)


def current_lease(runtime: ToolRuntime[RunContext]) -> SandboxLease:
    """Return the sandbox lease of the run.

    Raises:
        SandboxError: The graph was invoked without a lease.
    """
    run = find_run_context(runtime.context)
    if run is None or run.sandbox is None:
        raise SandboxError("this tool works only inside a run with a sandbox; continue without it")
    return run.sandbox


async def current_sandbox(runtime: ToolRuntime[RunContext]) -> Sandbox:
    """Return the sandbox of the run."""
    return await current_lease(runtime).sandbox()


def format_background_output(result: BackgroundOutput) -> str:
    """Return the output and state of a background process for the model."""
    code = result.process.exit_code
    state = "running" if code is None else f"ended, exit code {code}"
    return f"{result.output.rstrip() or '(nothing new)'}\n[{result.process.name}: {state}]"


def select_lines(text: str, path: str, start_line: int | None, end_line: int | None) -> str:
    """Return a range of lines of a file, unchanged."""
    *whole, rest = text.split("\n")
    lines = [f"{line}\n" for line in whole] + ([rest] if rest else [])
    first, last = max(1, start_line or 1), end_line or len(lines)
    if first > len(lines):
        raise FileProblem(f"{path!r} has only {len(lines)} lines")
    if last < first:
        raise FileProblem(f"end_line {last} is before start_line {first}")
    return "".join(lines[first - 1 : last])


def replace_text(text: str, path: str, old: str, new: str, replace_all: bool) -> str:
    """Return `text` with `old` replaced; line endings of the file are kept."""
    if not old:
        raise FileProblem("old_str is empty; give the text to replace, or use write_file")
    if old not in text and "\r\n" in text:
        old, new = (each.replace("\r\n", "\n").replace("\n", "\r\n") for each in (old, new))
    count = text.count(old)
    if count == 0:
        raise FileProblem(f"old_str is not in {path!r}; read the file and copy the text exactly")
    if count > 1 and not replace_all:
        raise FileProblem(f"old_str is in {path!r} {count} times; add lines around it, or set replace_all")
    return text.replace(old, new)


def clip_end(text: str, limit: int, advice: str) -> str:
    """Return the start of `text` with a note on how to read the rest. A limit of 0 keeps everything."""
    if not limit or len(text) <= limit:
        return text
    return f"{text[:limit]}\n[… {len(text) - limit} of {len(text)} characters left out; {advice} …]"


def format_truncation(truncated: bool) -> list[str]:
    """Return the note for truncated results, if any."""
    return ["(there are more; narrow the search or raise max_results)"] if truncated else []

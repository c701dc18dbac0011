"""`task_batch`: has the same done for many items."""

import asyncio
import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

from deerflow.domain.context import RunContext
from deerflow.domain.errors import FileProblem, InvalidRequest
from deerflow.domain.files import OUTPUTS, ThreadFiles
from deerflow.domain.ledger import resumable
from deerflow.domain.subagents import BatchOrder, ItemOutcome
from deerflow.tools.builtins.task_tool import for_kinds, subagents_of
from deerflow.tools.functions import as_tool
from deerflow.tools.run import current_run
from deerflow.tools.wording import in_words

MAX_ITEMS = 5000
MAX_FILE_BYTES = 20 * 1024 * 1024
MAX_AT_ONCE, MAX_RETRIES = 16, 5
SHOWN_PROBLEMS = 5
SHOWN_CHARS = 200
NAME_CHARS = 40


def task_batch_tool(kinds: Sequence[str]) -> BaseTool:
    """The tool that gives many pieces of work to subagents of these kinds."""
    return for_kinds(as_tool(task_batch), kinds)


@resumable
async def task_batch(
    description: str,
    prompt: str,
    subagent_type: str,
    runtime: ToolRuntime[RunContext],
    items: list[str | dict[str, Any]] | None = None,
    file: str | None = None,
    concurrency: int = 8,
    retries: int = 1,
    max_turns: int | None = None,
) -> Command[Any]:
    """Have the same done for each of many items (up to 5,000), each by a subagent of its own. Results go to a file.

    Args:
        description: What it is about, in three to five words.
        prompt: What to do for one item; {item} stands for it, {name} for its field `name`. Subagents see nothing else.
        subagent_type: What kind of subagent is to do it.
        items: The items themselves; or give `file`.
        file: Absolute path of a .jsonl file (one item per line), a .json file (a list) or a .csv file with a header.
        concurrency: How many are worked on at once, 1 to 16.
        retries: How often an item that failed is tried again, 0 to 5.
        max_turns: At most so many turns for each item; leave it out for the usual number.
    """
    run, (subagents, inherited) = current_run(runtime), subagents_of(runtime)
    given = await chosen_items(run.files, items, file)
    call_id = runtime.tool_call_id or ""
    order = BatchOrder(
        call_id,
        description,
        prompt,
        subagent_type,
        given,
        concurrency=min(max(concurrency, 1), MAX_AT_ONCE),
        retries=min(max(retries, 0), MAX_RETRIES),
        max_turns=max_turns,
    )
    path = f"{OUTPUTS}/{file_name(description, run.run_id, asked_in(runtime.state), call_id)}"

    async def keep(done: Sequence[ItemOutcome]) -> None:
        await run.files.write(path, await asyncio.to_thread(to_lines, given, done))

    outcomes = await subagents.carry_out_batch(order, inherited, keep)
    await keep(outcomes)
    return Command(update={"artifacts": [path], "messages": [to_message(call_id, path, outcomes)]})


async def chosen_items(files: ThreadFiles, items: Sequence[object] | None, file: str | None) -> Sequence[object]:
    """The items of a batch.

    Raises:
        InvalidRequest: There are none, or too many.
        FileProblem: The file cannot be read as what its name says.
    """
    if (items is None) == (file is None):
        raise InvalidRequest("give either items or file, and not both")
    found = items if items is not None else await read_items(files, file or "")
    if not found:
        raise InvalidRequest("there are no items")
    if len(found) > MAX_ITEMS:
        raise InvalidRequest(f"there are {len(found)} items, more than {MAX_ITEMS}; split them into several batches")
    return found


async def read_items(files: ThreadFiles, path: str) -> Sequence[object]:
    """The items in a file."""
    size = (await files.stat(path)).size
    if size > MAX_FILE_BYTES:
        raise FileProblem(f"{path!r} has {in_words(size)}, more than {in_words(MAX_FILE_BYTES)}; split it")
    content = await files.read(path)
    try:
        return await asyncio.to_thread(parse_items, path, content)
    except ValueError as problem:
        raise FileProblem(f"{path!r} cannot be read: {problem}") from None


def parse_items(path: str, content: bytes) -> Sequence[object]:
    """The items in the content of a file, which its name says how to read. Linear in its size."""
    text = content.decode("utf-8-sig")
    if path.lower().endswith(".csv"):
        try:
            return list(csv.DictReader(io.StringIO(text, newline="")))
        except csv.Error as problem:
            raise ValueError(str(problem)) from None
    if path.lower().endswith(".json"):
        found = orjson.loads(text)
        if not isinstance(found, list):
            raise ValueError("it is not a list")
        return found
    # Not by `splitlines`: texts may have characters in them that it takes for the end of a line.
    return [parse_line(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def parse_line(number: int, line: str) -> object:
    """One line of JSON."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as problem:
        raise ValueError(f"line {number}: {problem}") from None


def asked_in(state: Mapping[str, Any]) -> str:
    """The message that asks for the batch."""
    replies = (message.id for message in reversed(state.get("messages", ())) if message.type == "ai")
    return next(replies, None) or ""


def file_name(description: str, *call: str) -> str:
    """What the results are called: by what they are about, and never like those of another call.

    Models may use an id again, but not in the same message of the same run; a run that goes on finds its own again.
    """
    words = "-".join("".join(each if each.isalnum() else " " for each in description).split())
    return f"batch-{words[:NAME_CHARS] or 'results'}-{hashlib.sha256(repr(call).encode()).hexdigest()[:8]}.jsonl"


def to_lines(items: Sequence[object], outcomes: Sequence[ItemOutcome]) -> bytes:
    """The results: one line of JSON for each item that has an outcome."""
    lines = [
        {
            "index": outcome.index,
            "item": items[outcome.index],
            "status": outcome.status,
            "result": outcome.result or None,
            "error": outcome.error,
            "attempts": outcome.attempts,
            "tokens": outcome.tokens,
        }
        for outcome in outcomes
    ]
    text = "".join(f"{json.dumps(line, ensure_ascii=False, default=str)}\n" for line in lines)
    return text.encode("utf-8", "replace")


def to_message(call_id: str, path: str, outcomes: Sequence[ItemOutcome]) -> ToolMessage:
    """What the lead agent is told, and what programs can read."""
    counts = Counter(outcome.status for outcome in outcomes)
    told = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.most_common())
    problems = [each for each in outcomes if each.status != "completed"][:SHOWN_PROBLEMS]
    lines = [
        f"Batch of {len(outcomes)} items: {told}.",
        f"{path}, which the user sees too, has a line of JSON for each: index, item, status, result, error.",
        *(f"item {each.index}, {each.status}: {(each.error or '')[:SHOWN_CHARS]}" for each in problems),
    ]
    known = {"batch_outcomes": dict(counts), "batch_tokens": sum(each.tokens for each in outcomes), "batch_file": path}
    status = "success" if counts["completed"] or counts["capped"] else "error"
    return ToolMessage(
        "\n".join(lines), tool_call_id=call_id, name="task_batch", status=status, additional_kwargs=known
    )

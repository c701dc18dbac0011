"""The `task` and `task_batch` tools: delegation of work to subagents."""

import asyncio
import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from types import MappingProxyType
from typing import Any, Literal

import orjson
from langchain.tools import ToolRuntime
from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler, BaseCallbackManager
from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool
from langchain_core.tracers import LangChainTracer
from langgraph.types import Command
from pydantic import Field, create_model

from deerflow.agent_support.tools import as_tool, format_size, require_run_context
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.errors import FileProblem, InvalidRequest
from deerflow.domain.files import OUTPUTS, ThreadFiles
from deerflow.domain.subagents import BatchRequest, InheritedState, ItemOutcome, Subagents, TaskOutcome, TaskRequest
from deerflow.domain.tools import resumable
from deerflow.subagents.execution import Subagent, TaskExecution
from deerflow.subagents.executor import in_new_context

INHERITED = ("sandbox", "thread_data", "skill_context", "promoted", "untrusted")
BRIEF_CHARS = 2_000
OUTCOME_TEXTS = MappingProxyType(
    {
        "completed": "Task Succeeded. Result: {result}",
        "capped": "Task stopped: {error}. What it had by then: {result}",
        "failed": "Task failed. Error: {error}",
        "timed_out": "Task timed out. Error: {error}",
        "interrupted": "Task interrupted. Error: {error}",
    }
)


def build_task_tool(subagent_types: Sequence[str]) -> BaseTool:
    """Return the `task` tool for the given subagent types."""
    return restrict_subagent_types(as_tool(task), subagent_types)


def build_standalone_task_tool(subagent: Subagent) -> BaseTool:
    """Return the `task` tool of an agent that is not part of a harness: it runs `subagent` itself.

    In a run with subagents, these are used.
    """

    async def execute(
        description: str,
        prompt: str,
        subagent_type: str,
        runtime: ToolRuntime[RunContext],
        max_turns: int | None = None,
    ) -> ToolMessage:
        run = find_run_context(runtime.context)
        if run is not None and run.subagents is not None:
            return await task(description, prompt, subagent_type, runtime, max_turns)
        order = TaskRequest(runtime.tool_call_id or "", description, prompt, subagent_type, max_turns)
        inherited = InheritedState(inherit_state(runtime.state), find_tracers())
        # The task has a context of its own, in which the stream of the lead agent is unknown.
        outer = copy_context()
        execution = TaskExecution(order, subagent, lambda event: outer.run(runtime.stream_writer, event))
        return build_task_message(order, await in_new_context(execution.run(run, inherited)))

    return build_task_tool([subagent.config.name]).model_copy(update={"coroutine": execute})


def restrict_subagent_types(tool: BaseTool, subagent_types: Sequence[str]) -> BaseTool:
    """Return `tool` with a schema that accepts only the given subagent types."""
    base_schema: Any = tool.args_schema
    accepted: Any = Literal[tuple(subagent_types)]
    field = Field(description="What kind of subagent is to do it.")
    schema = create_model(tool.name, __base__=base_schema, __doc__=base_schema.__doc__, subagent_type=(accepted, field))
    return tool.model_copy(update={"args_schema": schema})


@resumable
async def task(
    description: str,
    prompt: str,
    subagent_type: str,
    runtime: ToolRuntime[RunContext],
    max_turns: int | None = None,
) -> ToolMessage:
    """Give a piece of work to a subagent and wait for its answer. Several calls in one reply run side by side.

    Args:
        description: What it is about, in three to five words.
        prompt: Everything the subagent needs to know; it sees nothing of this conversation.
        subagent_type: What kind of subagent is to do it.
        max_turns: At most so many turns; leave it out for the usual number.
    """
    subagents, inherited = get_subagents(runtime)
    if not prompt.strip():
        raise InvalidRequest("the prompt is empty; say what is to be done, for the subagent sees nothing else")
    order = TaskRequest(runtime.tool_call_id or "", description, prompt, subagent_type, max_turns)
    return build_task_message(order, await subagents.execute(order, inherited))


def get_subagents(runtime: ToolRuntime[RunContext]) -> tuple[Subagents, InheritedState]:
    """Return the subagents of the run and the state that they inherit.

    Raises:
        InvalidRequest: Subagents are not available in this run.
    """
    subagents = require_run_context(runtime).subagents
    if subagents is None:
        raise InvalidRequest("work cannot be given to others here; do it yourself")
    return subagents, InheritedState(inherit_state(runtime.state), find_tracers())


def inherit_state(state: Mapping[str, object]) -> dict[str, object]:
    """Return the values of the state that subagents inherit."""
    return {key: state[key] for key in INHERITED if state.get(key)}


def find_tracers() -> AsyncCallbackManager | None:
    """Return the tracers of the current tool call, without the handlers that stream to the reader of the run."""
    manager = ensure_config().get("callbacks")
    if not isinstance(manager, BaseCallbackManager):
        return None
    tracers: list[BaseCallbackHandler] = [each for each in manager.handlers if isinstance(each, LangChainTracer)]
    return AsyncCallbackManager(tracers, tracers, manager.parent_run_id) if tracers else None


def build_task_message(order: TaskRequest, outcome: TaskOutcome) -> ToolMessage:
    """Return the tool result: text for the lead agent and metadata for programs."""
    cost = outcome.cost
    text = OUTCOME_TEXTS[outcome.status].format(result=outcome.result or "(nothing)", error=outcome.error)
    metadata = {
        "subagent_status": outcome.status,
        "subagent_stop_reason": outcome.stop_reason,
        "subagent_error": outcome.error,
        "subagent_result_brief": outcome.result[:BRIEF_CHARS] or None,
        "subagent_result_sha256": sha256_hex(outcome.result) if outcome.result else None,
        "subagent_model_name": outcome.model_name,
        "subagent_token_usage": {
            "input_tokens": outcome.usage.input_tokens,
            "output_tokens": outcome.usage.output_tokens,
            "total_tokens": outcome.usage.total_tokens,
        },
        "subagent_cost": {"amount": str(cost.amount), "currency": cost.currency} if cost else None,
        "subagent_duration_s": round(outcome.duration_s, 3),
    }
    return ToolMessage(
        text,
        tool_call_id=order.task_id,
        name="task",
        status="success" if outcome.status in ("completed", "capped") else "error",
        additional_kwargs={key: value for key, value in metadata.items() if value is not None},
    )


def sha256_hex(text: str) -> str:
    """Return the SHA-256 digest of a text, which may contain lone surrogates."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


MAX_ITEMS = 5000
MAX_FILE_BYTES = 20 * 1024 * 1024
MAX_CONCURRENCY, MAX_RETRIES = 16, 5
MAX_SHOWN_ERRORS = 5
MAX_SHOWN_CHARS = 200
MAX_NAME_CHARS = 40


def build_task_batch_tool(subagent_types: Sequence[str]) -> BaseTool:
    """Return the `task_batch` tool for the given subagent types."""
    return restrict_subagent_types(as_tool(task_batch), subagent_types)


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
    run, (subagents, inherited) = require_run_context(runtime), get_subagents(runtime)
    resolved = await resolve_items(run.files, items, file)
    call_id = runtime.tool_call_id or ""
    order = BatchRequest(
        call_id,
        description,
        prompt,
        subagent_type,
        resolved,
        concurrency=min(max(concurrency, 1), MAX_CONCURRENCY),
        retries=min(max(retries, 0), MAX_RETRIES),
        max_turns=max_turns,
    )
    path = f"{OUTPUTS}/{build_file_name(description, run.run_id, find_request_id(runtime.state), call_id)}"

    async def save(done: Sequence[ItemOutcome]) -> None:
        await run.files.write(path, await asyncio.to_thread(to_jsonl, resolved, done))

    outcomes = await subagents.execute_batch(order, inherited, save)
    await save(outcomes)
    return Command(update={"artifacts": [path], "messages": [build_batch_message(call_id, path, outcomes)]})


async def resolve_items(files: ThreadFiles, items: Sequence[object] | None, file: str | None) -> Sequence[object]:
    """Return the items of a batch.

    Raises:
        InvalidRequest: There are no items, or too many.
        FileProblem: The file cannot be parsed as its suffix says.
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
    """Read the items from a file."""
    size = (await files.stat(path)).size
    if size > MAX_FILE_BYTES:
        raise FileProblem(f"{path!r} has {format_size(size)}, more than {format_size(MAX_FILE_BYTES)}; split it")
    content = await files.read(path)
    try:
        return await asyncio.to_thread(parse_items, path, content)
    except ValueError as error:
        raise FileProblem(f"{path!r} cannot be read: {error}") from None


def parse_items(path: str, content: bytes) -> Sequence[object]:
    """Parse the content of a file by its suffix, in linear time."""
    text = content.decode("utf-8-sig")
    if path.lower().endswith(".csv"):
        try:
            return list(csv.DictReader(io.StringIO(text, newline="")))
        except csv.Error as error:
            raise ValueError(str(error)) from None
    if path.lower().endswith(".json"):
        found = orjson.loads(text)
        if not isinstance(found, list):
            raise ValueError("it is not a list")
        return found
    # Not `splitlines`: JSON strings may contain characters that it treats as line ends.
    return [parse_line(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def parse_line(number: int, line: str) -> object:
    """Parse one line of JSON."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"line {number}: {error}") from None


def find_request_id(state: Mapping[str, Any]) -> str:
    """Return the id of the latest assistant message."""
    replies = (message.id for message in reversed(state.get("messages", ())) if message.type == "ai")
    return next(replies, None) or ""


def build_file_name(description: str, *call: str) -> str:
    """Return a name for the result file, unique to the call.

    Models may reuse a call id, but not in the same message of the same run. A resumed run gets the same name.
    """
    slug = "-".join("".join(each if each.isalnum() else " " for each in description).split())
    return f"batch-{slug[:MAX_NAME_CHARS] or 'results'}-{hashlib.sha256(repr(call).encode()).hexdigest()[:8]}.jsonl"


def to_jsonl(items: Sequence[object], outcomes: Sequence[ItemOutcome]) -> bytes:
    """Return one line of JSON for each item that has an outcome."""
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


def build_batch_message(call_id: str, path: str, outcomes: Sequence[ItemOutcome]) -> ToolMessage:
    """Return the tool result of a batch: text for the lead agent and metadata for programs."""
    counts = Counter(outcome.status for outcome in outcomes)
    summary = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.most_common())
    failures = [each for each in outcomes if each.status != "completed"][:MAX_SHOWN_ERRORS]
    lines = [
        f"Batch of {len(outcomes)} items: {summary}.",
        f"{path}, which the user sees too, has a line of JSON for each: index, item, status, result, error.",
        *(f"item {each.index}, {each.status}: {(each.error or '')[:MAX_SHOWN_CHARS]}" for each in failures),
    ]
    metadata = {
        "batch_outcomes": dict(counts),
        "batch_tokens": sum(each.tokens for each in outcomes),
        "batch_file": path,
    }
    status = "success" if counts["completed"] or counts["capped"] else "error"
    return ToolMessage(
        "\n".join(lines), tool_call_id=call_id, name="task_batch", status=status, additional_kwargs=metadata
    )

"""`task`: gives a piece of work to a subagent."""

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from pydantic import Field, create_model

from deerflow.domain.context import RunContext
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.ledger import resumable
from deerflow.domain.subagents import Inherited, Subagents, TaskOrder, TaskOutcome
from deerflow.tools.functions import as_tool
from deerflow.tools.run import current_run

INHERITED = ("sandbox", "thread_data", "skill_context", "promoted", "untrusted")
BRIEF_CHARS = 2_000
ENDINGS = MappingProxyType(
    {
        "completed": "Task Succeeded. Result: {result}",
        "capped": "Task stopped: {error}. What it had by then: {result}",
        "failed": "Task failed. Error: {error}",
        "timed_out": "Task timed out. Error: {error}",
        "interrupted": "Task interrupted. Error: {error}",
    }
)


def task_tool(kinds: Sequence[str]) -> BaseTool:
    """The tool that gives work to subagents of these kinds."""
    return for_kinds(as_tool(task), kinds)


def for_kinds(tool: BaseTool, kinds: Sequence[str]) -> BaseTool:
    """`tool` with exactly these kinds of subagents in its schema."""
    described: Any = tool.args_schema
    known: Any = Literal[tuple(kinds)]
    field = Field(description="What kind of subagent is to do it.")
    schema = create_model(tool.name, __base__=described, __doc__=described.__doc__, subagent_type=(known, field))
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
    subagents, inherited = subagents_of(runtime)
    if not prompt.strip():
        raise InvalidRequest("the prompt is empty; say what is to be done, for the subagent sees nothing else")
    order = TaskOrder(runtime.tool_call_id or "", description, prompt, subagent_type, max_turns)
    return to_message(order, await subagents.carry_out(order, inherited))


def subagents_of(runtime: ToolRuntime[RunContext]) -> tuple[Subagents, Inherited]:
    """Those to whom work can be given, and what they find when they begin.

    Raises:
        InvalidRequest: There is nobody.
    """
    subagents = current_run(runtime).subagents
    if subagents is None:
        raise InvalidRequest("work cannot be given to others here; do it yourself")
    state: Mapping[str, object] = runtime.state
    return subagents, Inherited({key: state[key] for key in INHERITED if state.get(key)})


def to_message(order: TaskOrder, outcome: TaskOutcome) -> ToolMessage:
    """What the lead agent is told of a task, and what programs can read of it."""
    cost = outcome.cost
    text = ENDINGS[outcome.status].format(result=outcome.result or "(nothing)", error=outcome.error)
    known = {
        "subagent_status": outcome.status,
        "subagent_stop_reason": outcome.stop_reason,
        "subagent_error": outcome.error,
        "subagent_result_brief": outcome.result[:BRIEF_CHARS] or None,
        "subagent_result_sha256": digest(outcome.result) if outcome.result else None,
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
        additional_kwargs={key: value for key, value in known.items() if value is not None},
    )


def digest(text: str) -> str:
    """A short name of a text, which may have halves of characters."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()

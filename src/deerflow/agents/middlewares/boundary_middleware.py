"""Boundary to models and tools: what they return can be recorded, and a cancelled call ends."""

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agent_support.replies import (
    AsyncModelHandler,
    AsyncToolHandler,
    ModelHandler,
    Reply,
    Request,
    ToolHandler,
    is_storable,
    make_message_storable,
    make_storable,
)
from deerflow.agent_support.thread_state import ThreadState
from deerflow.agent_support.tools import is_blocking, run_in_threads
from deerflow.domain.context import RunContext, find_run_context

logger = logging.getLogger(__name__)

T = TypeVar("T")
Result = ToolMessage | Command[Any]

MODEL_CANCEL_S, TOOL_CANCEL_S = 0.05, 1.5
"""Seconds before a cancellation is repeated. Tools clean up when they are cancelled, which takes longer."""
CANCEL_LIMIT_S = 7.5
"""Seconds after which work that ignores all cancellations is left alone."""


class BoundaryMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Replaces values in replies and tool results that no store can represent, and cancels model calls reliably.

    Tools that block run in threads of their own, so that they cannot hold up anything else.
    """

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        return make_reply_storable(handler(request))

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        return make_reply_storable(await cancel_until_done(handler(request), MODEL_CANCEL_S))

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler[Result]) -> Result:
        return make_result_storable(handler(request))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AsyncToolHandler[Result]) -> Result:
        run = find_run_context(request.runtime.context)
        if run is not None and run.tool_threads is not None and request.tool is not None and is_blocking(request.tool):
            request = request.override(tool=run_in_threads(request.tool, run.tool_threads))
        return make_result_storable(await cancel_until_done(handler(request), TOOL_CANCEL_S))


async def cancel_until_done(work: Awaitable[T], interval_s: float) -> T:
    """Return the result of `work`. A cancellation is repeated until `work` ends, or for `CANCEL_LIMIT_S`.

    Clients of vendors may ignore one: `asyncio.wait_for` of Python 3.11 does when data arrives at the same moment.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        for _ in range(int(CANCEL_LIMIT_S / interval_s)):
            task.cancel()
            with suppress(asyncio.CancelledError):  # of a caller that repeats it as well
                await asyncio.wait({task}, timeout=interval_s)
            if task.done():
                break
        if not task.done():
            logger.error("%s ignored all cancellations and goes on", task.get_name())
        elif not task.cancelled():
            task.exception()  # retrieved: there is no waiter for the result any more
        raise


def make_reply_storable(reply: Reply) -> Reply:
    """Return `reply` with storable messages; the same object if they are."""
    messages = [make_message_storable(message) for message in reply.result]
    is_same = all(new is old for new, old in zip(messages, reply.result, strict=True))
    return reply if is_same else replace(reply, result=messages)


def make_result_storable(result: Result) -> Result:
    """Return the result of a tool with storable messages and values."""
    if isinstance(result, BaseMessage):
        return make_message_storable(result)
    if not isinstance(result.update, dict):
        return result
    return replace(result, update={key: make_update_storable(value) for key, value in result.update.items()})


def make_update_storable(value: Any) -> Any:
    """Return a state update in a storable form."""
    if isinstance(value, list) and any(isinstance(each, BaseMessage) for each in value):
        return [make_message_storable(each) if isinstance(each, BaseMessage) else each for each in value]
    return value if is_storable(value) else make_storable(value)

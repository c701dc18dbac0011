"""Every tool call is put before a guardrail first."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agents.middlewares.guardrails import (
    GuardrailDecision,
    GuardrailProvider,
    GuardrailReason,
    GuardrailRequest,
)
from deerflow.agents.middlewares.replies import RunTool, RunToolAsync
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext, run_in
from deerflow.models.sync_face import run

logger = logging.getLogger(__name__)

Result: TypeAlias = ToolMessage | Command[Any]

MAX_DECISION_S = 30.0
NOT_CHECKED = GuardrailReason("guardrail_failed", "the check of this call failed")


class GuardrailMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Refuses the calls its provider does not allow; when the provider itself fails, `fail_closed` decides."""

    def __init__(self, provider: GuardrailProvider, fail_closed: bool = True, is_subagent: bool = False) -> None:
        super().__init__()
        self._provider = provider
        self._fail_closed = fail_closed
        self._is_subagent = is_subagent

    def wrap_tool_call(self, request: ToolCallRequest, handler: RunTool[Result]) -> Result:
        decision = run(self._decide(request))
        return handler(request) if decision.allow else refusal(request, decision)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: RunToolAsync[Result]) -> Result:
        decision = await self._decide(request)
        return await handler(request) if decision.allow else refusal(request, decision)

    async def _decide(self, request: ToolCallRequest) -> GuardrailDecision:
        try:
            async with asyncio.timeout(MAX_DECISION_S):
                return await self._provider.aevaluate(asked(request, self._is_subagent))
        except GraphBubbleUp:
            raise
        except Exception:
            logger.exception("guardrail %r failed on %r", self._provider.name, request.tool_call["name"])
            return GuardrailDecision(not self._fail_closed, (NOT_CHECKED,))


def asked(request: ToolCallRequest, is_subagent: bool) -> GuardrailRequest:
    """What a provider is told about a call."""
    call = request.tool_call
    context = run_in(request.runtime.context)
    return GuardrailRequest(
        tool_name=call["name"],
        tool_input=call["args"],
        tool_call_id=call["id"],
        timestamp=datetime.now(UTC),
        agent_id=context.agent_name if context else None,
        thread_id=context.thread_id if context else None,
        run_id=context.run_id if context else None,
        user_id=context.user_id if context else None,
        is_subagent=is_subagent,
    )


def refusal(request: ToolCallRequest, decision: GuardrailDecision) -> ToolMessage:
    """What the model is told about a call that is not allowed."""
    name = request.tool_call["name"]
    reasons = "; ".join(reason.message for reason in decision.reasons) or "no reason given"
    refused = f"Error: {name} was not called, for it is not allowed: {reasons}."
    text = f"{refused} Do not try it again; find another way or say so."
    return ToolMessage(text, name=name, tool_call_id=request.tool_call["id"], status="error")

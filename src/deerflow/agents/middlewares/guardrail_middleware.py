"""Every tool call is put before a guardrail first, and whose words a tool brought is noted after."""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agents.middlewares.guardrail_approval import has_been_answered, with_note, word_of_a_person
from deerflow.agents.middlewares.guardrail_facts import CallFacts, Reach, ToolFacts, undeclared_in
from deerflow.agents.middlewares.guardrail_reading import changed, noting, showing
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
NOT_HERE = "a person would have to agree, and a subagent cannot ask one; leave it to the agent that gave you the work"
NO_REACH = Reach()


class GuardrailMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Refuses the calls its provider does not allow, and has a person decide where it says so.

    When the provider itself fails, `fail_closed` decides. A question pauses the run as an approval does: it is kept
    with the thread, and the call is judged anew when it is answered.
    """

    state_schema = ThreadState

    def __init__(
        self,
        provider: GuardrailProvider,
        fail_closed: bool = True,
        is_subagent: bool = False,
        reach: Reach = NO_REACH,
        approved_anyway: Collection[str] = (),
    ) -> None:
        """`approved_anyway` are tools of which every call is put before a person by somebody else."""
        super().__init__()
        self._provider = provider
        self._fail_closed = fail_closed
        self._is_subagent = is_subagent
        self._reach = reach
        self._approved_anyway = frozenset(approved_anyway)

    def wrap_tool_call(self, request: ToolCallRequest, handler: RunTool[Result]) -> Result:
        kind = self._kind(request)
        settled = self._settle(request, run(self._decide(request, kind)))
        if isinstance(settled, ToolMessage):
            return settled
        showing(settled)
        return self._noted(request, settled, handler(settled), kind)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: RunToolAsync[Result]) -> Result:
        kind = self._kind(request)
        settled = self._settle(request, await self._decide(request, kind))
        if isinstance(settled, ToolMessage):
            return settled
        showing(settled)
        return self._noted(request, settled, await handler(settled), kind)

    def _kind(self, request: ToolCallRequest) -> ToolFacts:
        return self._reach.facts_of(request.tool, request.tool_call["name"])

    async def _decide(self, request: ToolCallRequest, kind: ToolFacts) -> GuardrailDecision:
        try:
            async with asyncio.timeout(MAX_DECISION_S):
                return await self._provider.aevaluate(asked(request, kind, self._is_subagent))
        except GraphBubbleUp:
            raise
        except Exception:
            logger.exception("guardrail %r failed on %r", self._provider.name, request.tool_call["name"])
            return GuardrailDecision(not self._fail_closed, (NOT_CHECKED,))

    def _settle(self, request: ToolCallRequest, decision: GuardrailDecision) -> ToolCallRequest | ToolMessage:
        """The call to make, as a person may have changed it, or what the model is told instead."""
        asks = decision.ask and request.tool_call["name"] not in self._approved_anyway
        if decision.allow or (decision.ask and not asks):
            # The policy may have become milder since somebody was asked, but a word is a word.
            return word_of_a_person(request, decision) if has_been_answered(request) else request
        if asks and not self._is_subagent:
            return word_of_a_person(request, decision)
        return refusal(request, replace(decision, reasons=for_a_subagent(decision)) if asks else decision)

    def _noted(self, request: ToolCallRequest, made: ToolCallRequest, result: Result, kind: ToolFacts) -> Result:
        if made is not request:
            result = changed(made, result, partial(with_note, made))
        return noting(made, result, kind, self._is_subagent)


def asked(request: ToolCallRequest, kind: ToolFacts, is_subagent: bool) -> GuardrailRequest:
    """What a provider is told about a call."""
    call, state = request.tool_call, request.state
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
        channel=context.channel if context else None,
        undeclared=undeclared_in(call["args"], request.tool),
        tool=kind,
        facts=CallFacts(state.get("messages") or (), state.get("untrusted") or (), context, kind, is_subagent),
    )


def refusal(request: ToolCallRequest, decision: GuardrailDecision) -> ToolMessage:
    """What the model is told about a call that is not allowed."""
    name = request.tool_call["name"]
    reasons = "; ".join(reason.message for reason in decision.reasons) or "no reason given"
    refused = f"Error: {name} was not called, for it is not allowed: {reasons}."
    text = f"{refused} Do not try it again; find another way or say so."
    return ToolMessage(text, name=name, tool_call_id=request.tool_call["id"], status="error")


def for_a_subagent(decision: GuardrailDecision) -> tuple[GuardrailReason, ...]:
    """Why a call that a person would be asked about is refused where nobody can be asked."""
    return (*decision.reasons, GuardrailReason("nobody_to_ask", NOT_HERE))

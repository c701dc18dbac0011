"""Middlewares that check tool calls: by a guardrail provider, by human approval, and by permissions of the thread."""

import asyncio
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, HumanInTheLoopMiddleware
from langchain.agents.middleware.human_in_the_loop import ActionRequest, HITLRequest, ReviewConfig
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from deerflow.agent_support.replies import AsyncToolHandler, ToolHandler
from deerflow.agent_support.thread_state import ThreadState, iterate_sources
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.taint import extract_host, is_url
from deerflow.domain.tools import ToolPermission
from deerflow.guardrails.call_context import (
    EgressCapability,
    ThreadCallContext,
    ToolTraits,
    find_undeclared_arguments,
    iter_leaves,
)
from deerflow.guardrails.providers import (
    GuardrailDecision,
    GuardrailProvider,
    GuardrailReason,
    GuardrailRequest,
)
from deerflow.guardrails.taint import ToolCallResult, add_mark, map_own_message, record_taint, share_with_subagents
from deerflow.models import run_sync

EDIT_NOTE = "Note: a human reviewer replaced this tool call before it ran, which is what the user wants."
GUARDRAIL = "guardrail"
SCRATCHPAD = "__pregel_scratchpad"
"""Key of the `configurable` under which LangGraph keeps the resume values of a step."""
PERMISSION_MARK = "allowed_in_thread"
"""Set in messages of calls that were not asked about because the user has allowed them in the thread."""
EDITED_CALLS = "hitl_edited_tool_calls"
"""State key of LangChain's approval middleware."""


def request_approval(request: ToolCallRequest, decision: GuardrailDecision) -> ToolCallRequest | ToolMessage:
    """Interrupt the run until a person has decided. Return the call to make, or the message for the model instead."""
    answer = interrupt(build_interrupt(request, decision))
    decisions = answer.get("decisions") if isinstance(answer, Mapping) else None
    first: Mapping[str, Any] = decisions[0] if isinstance(decisions, list) and decisions else {"type": "reject"}
    if first["type"] == "approve":
        return request
    if first["type"] == "edit":
        return apply_edit(request, first["edited_action"])
    if first["type"] == "respond":
        return tool_message(request, first["message"], "success")
    return tool_message(request, format_rejection(request.tool_call["name"], first.get("message")), "error")


def format_rejection(name: str, reason: str | None) -> str:
    """Return the text for the model about a rejected call. The page recognises a rejection by this wording."""
    if reason:
        return f"User rejected the tool call for `{name}` with reason: {reason}"
    return (
        f"User rejected the tool call for `{name}`. It was not made; do not try it again unless the user asks for it."
    )


def build_interrupt(request: ToolCallRequest, decision: GuardrailDecision) -> dict[str, Any]:
    """Return the interrupt value, in the shape that all clients know from approvals."""
    name, args = request.tool_call["name"], request.tool_call["args"]
    reasons = "; ".join(reason.message for reason in decision.reasons) or "the policy wants a person to decide"
    action = ActionRequest(name=name, args=args, description=f"Approval needed for {name}: {reasons}.")
    review = ReviewConfig(action_name=name, allowed_decisions=["approve", "edit", "reject"])
    request_value = HITLRequest(action_requests=[action], review_configs=[review])
    codes = [{"code": reason.code, "message": reason.message} for reason in decision.reasons]
    permission = describe_permission(name, args, decision)
    offered = {"permission": {"rule": permission.rule, "hosts": list(permission.hosts)}} if permission else {}
    return {**request_value, "asked_by": GUARDRAIL, "reasons": codes, **offered}


def describe_permission(tool: str, args: Mapping[str, Any], decision: GuardrailDecision) -> ToolPermission | None:
    """Return the permission that would cover a call and others like it; None when the rule does not allow one."""
    if not decision.ask or not decision.allow_in_thread:
        return None
    hosts = {extract_host(leaf) for leaf in iter_leaves(args) if isinstance(leaf, str) and is_url(leaf)}
    return ToolPermission(tool, ",".join(reason.code for reason in decision.reasons), tuple(sorted(hosts)))


def apply_edit(request: ToolCallRequest, action: Mapping[str, Any]) -> ToolCallRequest | ToolMessage:
    """Return the call with the arguments a person has given. It must stay a call of the same tool."""
    name = request.tool_call["name"]
    if action["name"] != name:
        return tool_message(request, f"Error: the user wants {action['name']} to be called instead of {name}.", "error")
    return request.override(tool_call={**request.tool_call, "args": dict(action["args"])})


def add_edit_note(request: ToolCallRequest, message: ToolMessage) -> ToolMessage:
    """Return a result that states the arguments really used. The page recognises an edited call by this wording."""
    name, args = request.tool_call["name"], json.dumps(request.tool_call["args"], default=str)
    note = f"{EDIT_NOTE} Executed instead: {name} with arguments {args}.\n\nTool response:"
    content = message.content
    annotated = f"{note}\n{content}" if isinstance(content, str) else [{"type": "text", "text": note}, *content]
    return message.model_copy(update={"content": annotated})


def was_approval_answered(request: ToolCallRequest) -> bool:
    """Return whether a person has already decided about this call."""
    answer = first_answer(request.runtime.config)
    # Tools raise interrupts of their own too.
    return answer.get("asked_by") == GUARDRAIL


def first_answer(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first answer to an interrupt of the current step; empty before there is one."""
    answers: Sequence[Any] = getattr((config.get("configurable") or {}).get(SCRATCHPAD), "resume", None) or ()
    return answers[0] if answers and isinstance(answers[0], Mapping) else {}


def is_for_thread(decision: object) -> bool:
    """Return whether a person has approved a call and others like it for the rest of the thread."""
    return isinstance(decision, Mapping) and (decision.get("type"), decision.get("scope")) == ("approve", "thread")


async def grant_permission(request: ToolCallRequest, decision: GuardrailDecision) -> None:
    """Store what a person has just allowed for the rest of the thread."""
    context = find_run_context(request.runtime.context)
    answers = first_answer(request.runtime.config).get("decisions") if was_approval_answered(request) else None
    permission = describe_permission(request.tool_call["name"], request.tool_call["args"], decision)
    if context and context.permissions and permission and answers and is_for_thread(answers[0]):
        await context.permissions.grant(permission)


def tool_message(request: ToolCallRequest, text: str, status: Any) -> ToolMessage:
    """Return the message that takes the place of a tool result."""
    return ToolMessage(text, name=request.tool_call["name"], tool_call_id=request.tool_call["id"], status=status)


logger = logging.getLogger(__name__)

MAX_DECISION_S = 30.0
CHECK_FAILED = GuardrailReason("guardrail_failed", "the check of this call failed")
NO_APPROVER = (
    "a person would have to agree, and a subagent cannot ask one; leave it to the agent that gave you the work"
)
NO_EGRESS = EgressCapability()


class GuardrailMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Refuses calls that its provider does not allow, and requests human approval where the provider wants it.

    `fail_closed` decides when the provider itself fails. An approval request interrupts the run: it is stored with the
    thread, and the call is evaluated again after the answer.
    """

    state_schema = ThreadState

    def __init__(
        self,
        provider: GuardrailProvider,
        fail_closed: bool = True,
        is_subagent: bool = False,
        egress: EgressCapability = NO_EGRESS,
        approved_elsewhere: Collection[str] = (),
    ) -> None:
        """Store the provider. Another middleware requests approval for all calls of `approved_elsewhere` tools."""
        super().__init__()
        self._provider = provider
        self._fail_closed = fail_closed
        self._is_subagent = is_subagent
        self._egress = egress
        self._approved_elsewhere = frozenset(approved_elsewhere)

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler[ToolCallResult]) -> ToolCallResult:
        traits = self._traits(request)
        decision = run_sync(self._decide(request, traits))
        resolved = self._resolve(request, decision)
        if isinstance(resolved, ToolMessage):
            return resolved
        share_with_subagents(resolved)
        return self._annotate(request, resolved, handler(resolved), traits)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: AsyncToolHandler[ToolCallResult]
    ) -> ToolCallResult:
        traits = self._traits(request)
        decision = await self._decide(request, traits)
        resolved = self._resolve(request, decision)
        if isinstance(resolved, ToolMessage):
            return resolved
        await grant_permission(request, decision)
        share_with_subagents(resolved)
        result = self._annotate(request, resolved, await handler(resolved), traits)
        if not decision.metadata.get(PERMISSION_MARK):
            return result
        return map_own_message(resolved, result, lambda message: add_mark(message, PERMISSION_MARK, True))

    def _traits(self, request: ToolCallRequest) -> ToolTraits:
        return self._egress.classify(request.tool, request.tool_call["name"])

    async def _decide(self, request: ToolCallRequest, traits: ToolTraits) -> GuardrailDecision:
        decision = await decide(self._provider, build_request(request, traits, self._is_subagent), self._fail_closed)
        if not await self._is_permitted(request, decision):
            return decision
        return replace(decision, allow=True, ask=False, metadata={**decision.metadata, PERMISSION_MARK: True})

    async def _is_permitted(self, request: ToolCallRequest, decision: GuardrailDecision) -> bool:
        """Return whether the user has allowed such calls in the thread; a decision about this call comes first."""
        context, name = find_run_context(request.runtime.context), request.tool_call["name"]
        if context is None or context.permissions is None or was_approval_answered(request):
            return False
        if name in self._approved_elsewhere:
            return (decision.allow or decision.ask) and await context.permissions.allows(ToolPermission(name))
        wanted = describe_permission(name, request.tool_call["args"], decision)
        return wanted is not None and await context.permissions.allows(wanted)

    def _resolve(self, request: ToolCallRequest, decision: GuardrailDecision) -> ToolCallRequest | ToolMessage:
        """Return the call to make, possibly edited by a person, or the message for the model instead."""
        asks = decision.ask and request.tool_call["name"] not in self._approved_elsewhere
        if decision.allow or (decision.ask and not asks):
            # The policy may allow the call by now, but a person has already decided and their decision counts.
            return request_approval(request, decision) if was_approval_answered(request) else request
        if asks and not self._is_subagent:
            return request_approval(request, decision)
        return build_refusal(request, replace(decision, reasons=add_subagent_reason(decision)) if asks else decision)

    def _annotate(
        self, request: ToolCallRequest, made: ToolCallRequest, result: ToolCallResult, traits: ToolTraits
    ) -> ToolCallResult:
        if made is not request:
            result = map_own_message(made, result, partial(add_edit_note, made))
        return record_taint(made, result, traits, self._is_subagent)


async def decide(provider: GuardrailProvider, request: GuardrailRequest, fail_closed: bool) -> GuardrailDecision:
    """Return the decision of a provider; `fail_closed` decides when the provider itself fails."""
    try:
        async with asyncio.timeout(MAX_DECISION_S):
            return await provider.aevaluate(request)
    except GraphBubbleUp:
        raise
    except Exception:
        logger.exception("guardrail %r failed on %r", provider.name, request.tool_name)
        return GuardrailDecision(not fail_closed, (CHECK_FAILED,))


def build_request(request: ToolCallRequest, traits: ToolTraits, is_subagent: bool) -> GuardrailRequest:
    """Return the request for a provider about a call."""
    call, state = request.tool_call, request.state
    context = find_run_context(request.runtime.context)
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
        undeclared=find_undeclared_arguments(call["args"], request.tool),
        tool=traits,
        context=ThreadCallContext(
            state.get("messages") or (),
            set(iterate_sources(state.get("untrusted"))),
            context,
            traits,
            is_subagent,
        ),
    )


def build_refusal(request: ToolCallRequest, decision: GuardrailDecision) -> ToolMessage:
    """Return the message for the model about a call that is not allowed."""
    name = request.tool_call["name"]
    reasons = "; ".join(reason.message for reason in decision.reasons) or "no reason given"
    error = f"Error: {name} was not called, for it is not allowed: {reasons}."
    text = f"{error} Do not try it again; find another way or say so."
    return ToolMessage(text, name=name, tool_call_id=request.tool_call["id"], status="error")


def add_subagent_reason(decision: GuardrailDecision) -> tuple[GuardrailReason, ...]:
    """Return the reasons of a decision, plus the one that a subagent cannot request approval."""
    return (*decision.reasons, GuardrailReason("nobody_to_ask", NO_APPROVER))


class ThreadApprovalMiddleware(HumanInTheLoopMiddleware[Any, RunContext, Any]):
    """Requests approval for every call of the given tools, except for those that the user has allowed in the thread."""

    def __init__(self, tools: Collection[str]) -> None:
        super().__init__(dict.fromkeys(sorted(tools), True))

    @property
    def name(self) -> str:
        """Return the name of the node, which paused threads have stored."""
        return HumanInTheLoopMiddleware.__name__

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[RunContext]) -> dict[str, Any] | None:
        context = find_run_context(runtime.context)
        permissions = context.permissions if context is not None else None
        calls = [call for call in find_latest_calls(state) if call["name"] in self.interrupt_on]
        if permissions is None or not calls:
            return await super().aafter_model(state, runtime)
        answer = first_answer(get_config())
        # All or none: decisions are matched with the calls by position, also if something is revoked meanwhile.
        if not answer and all([await permissions.allows(ToolPermission(call["name"])) for call in calls]):
            return {EDITED_CALLS: {}} if state.get(EDITED_CALLS) else None
        update = await super().aafter_model(state, runtime)
        for call, decision in zip(calls, answer.get("decisions") or (), strict=False):
            if is_for_thread(decision):
                await permissions.grant(ToolPermission(call["name"]))
        return update


def find_latest_calls(state: Mapping[str, Any]) -> Sequence[ToolCall]:
    """Return the tool calls of the latest answer of the model."""
    latest = next((each for each in reversed(state["messages"]) if isinstance(each, AIMessage)), None)
    return latest.tool_calls if latest is not None else ()

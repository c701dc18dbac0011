"""A person's word on a single call: asked by pausing the run, and kept with the thread until it is there."""

import json
from collections.abc import Mapping
from typing import Any

from langchain.agents.middleware.human_in_the_loop import ActionRequest, HITLRequest, ReviewConfig
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import interrupt

from deerflow.agents.middlewares.guardrails import GuardrailDecision

REPLACED = "Note: a human reviewer replaced this tool call before it ran, which is what the user wants."
GUARDRAIL = "guardrail"
SCRATCHPAD = "__pregel_scratchpad"
"""Where the graph keeps the answers to what a step has asked."""


def word_of_a_person(request: ToolCallRequest, decision: GuardrailDecision) -> ToolCallRequest | ToolMessage:
    """Pause the run until a person has decided; then the call to make, or what the model is told instead."""
    answer = interrupt(question(request, decision))
    decisions = answer.get("decisions") if isinstance(answer, Mapping) else None
    word: Mapping[str, Any] = decisions[0] if isinstance(decisions, list) and decisions else {"type": "reject"}
    if word["type"] == "approve":
        return request
    if word["type"] == "edit":
        return edited(request, word["edited_action"])
    if word["type"] == "respond":
        return told(request, word["message"], "success")
    return told(request, rejection(request.tool_call["name"], word.get("message")), "error")


def rejection(name: str, why: str | None) -> str:
    """What the model is told of a no, in the words by which the page knows one."""
    if why:
        return f"User rejected the tool call for `{name}` with reason: {why}"
    return (
        f"User rejected the tool call for `{name}`. It was not made; do not try it again unless the user asks for it."
    )


def question(request: ToolCallRequest, decision: GuardrailDecision) -> dict[str, Any]:
    """What a person is asked, in the shape that all ways in know from approvals."""
    name, args = request.tool_call["name"], request.tool_call["args"]
    why = "; ".join(reason.message for reason in decision.reasons) or "the policy wants a person to decide"
    asks = ActionRequest(name=name, args=args, description=f"A person has to agree to {name}: {why}.")
    review = ReviewConfig(action_name=name, allowed_decisions=["approve", "edit", "reject"])
    return {**HITLRequest(action_requests=[asks], review_configs=[review]), "asked_by": GUARDRAIL}


def edited(request: ToolCallRequest, action: Mapping[str, Any]) -> ToolCallRequest | ToolMessage:
    """The call as a person has changed it; it stays a call of the same tool."""
    name = request.tool_call["name"]
    if action["name"] != name:
        return told(request, f"Error: the user wants {action['name']} to be called instead of {name}.", "error")
    return request.override(tool_call={**request.tool_call, "args": dict(action["args"])})


def with_note(request: ToolCallRequest, message: ToolMessage) -> ToolMessage:
    """A result that says with which arguments the call was really made, in the words by which the page knows it."""
    name, args = request.tool_call["name"], json.dumps(request.tool_call["args"], default=str)
    note = f"{REPLACED} Executed instead: {name} with arguments {args}.\n\nTool response:"
    content = message.content
    changed = f"{note}\n{content}" if isinstance(content, str) else [{"type": "text", "text": note}, *content]
    return message.model_copy(update={"content": changed})


def has_been_answered(request: ToolCallRequest) -> bool:
    """Whether a person was asked about this very call before, and has decided."""
    pad = (request.runtime.config.get("configurable") or {}).get(SCRATCHPAD)
    answers: list[Any] = getattr(pad, "resume", None) or []
    # Tools ask people by themselves too.
    return bool(answers) and isinstance(answers[0], Mapping) and answers[0].get("asked_by") == GUARDRAIL


def told(request: ToolCallRequest, text: str, status: Any) -> ToolMessage:
    """What the model reads in place of a result."""
    return ToolMessage(text, name=request.tool_call["name"], tool_call_id=request.tool_call["id"], status=status)

"""`invoke_acp_agent`: the tool that delegates a task to an external agent."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool
from langgraph.types import interrupt
from pydantic import Field, create_model

from deerflow.agent_support.tools import as_tool, require_run_context
from deerflow.config.sections.agents import AcpAgentConfig
from deerflow.domain.context import RunContext
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.subagents import AcpRequest, AcpResult, AcpTurn, PermissionRequest
from deerflow.domain.tools import UNTRUSTED
from deerflow.sandbox.tools import ToolProgress

NAME = "invoke_acp_agent"
ACP_GROUP = "acp"
"""Tool group that custom agents name to get the tool."""
STOP_REASON_TEXTS = {
    "max_tokens": "It stopped because it had no tokens left.",
    "max_turn_requests": "It stopped because it had asked its model too often.",
    "refusal": "It refused.",
    "cancelled": "It was stopped before it was done.",
}
RESULT_LOCATION = "What it has made is in /mnt/acp-workspace, which you can read; copy what the user should get."


def create_acp_tool(agents: Mapping[str, AcpAgentConfig]) -> BaseTool:
    """Return the tool that delegates to these agents."""
    tool = as_tool(invoke_acp_agent)
    described: Any = tool.args_schema
    known: Any = Literal[tuple(agents)]
    listed = "; ".join(f"{name}: {config.description}" for name, config in agents.items())
    field = Field(description=f"Who is to do it. {listed}")
    schema = create_model(tool.name, __base__=described, __doc__=described.__doc__, agent=(known, field))
    return tool.model_copy(update={"args_schema": schema, "metadata": {**(tool.metadata or {}), UNTRUSTED: True}})


async def invoke_acp_agent(agent: str, prompt: str, runtime: ToolRuntime[RunContext]) -> str:
    """Give a piece of work to another agent and wait for its answer.

    It works in /mnt/acp-workspace, which you can read but not write, and can read /mnt/user-data. It knows nothing of
    this conversation, and begins anew with each call; files it has made before are still there.

    Args:
        agent: Who is to do it.
        prompt: Everything it needs to know.
    """
    run = require_run_context(runtime)
    if run.acp is None:
        raise InvalidRequest("there are no other agents here; do it yourself")
    call_id = runtime.tool_call_id or ""
    progress = ToolProgress(runtime.stream_writer, call_id, NAME)
    request = AcpRequest(call_id, agent, prompt, can_ask=run.inbox is not None, on_progress=progress.add)
    try:
        answer = await wait_for_result(await run.acp.begin(request), agent)
    finally:
        progress.close()
    text = answer.text.strip() or "(it said nothing)"
    return "\n\n".join(filter(None, [text, STOP_REASON_TEXTS.get(answer.stop_reason), RESULT_LOCATION]))


async def wait_for_result(work: AcpTurn, agent: str) -> AcpResult:
    """Wait for the result. Permission requests on the way interrupt the run."""
    for question in work.answered:
        interrupt(build_interrupt(agent, question))  # answered before: returns the same answer again
    while True:
        try:
            outcome = await work.wait()
        except asyncio.CancelledError:
            await work.cancel()
            raise
        if isinstance(outcome, AcpResult):
            return outcome
        work.answer(is_allowed=is_approved(interrupt(build_interrupt(agent, outcome))))


def build_interrupt(agent: str, question: PermissionRequest) -> dict[str, Any]:
    """Return the interrupt value of a permission request."""
    args = {"agent": agent, "wants": question.title, "kind": question.kind, "input": dict(question.arguments)}
    return {
        "action_requests": [{"name": NAME, "args": args, "description": f"{agent} wants to: {question.title}"}],
        "review_configs": [{"action_name": NAME, "allowed_decisions": ["approve", "reject"]}],
    }


def is_approved(answer: object) -> bool:
    """Return whether a person has approved; everything else is a rejection."""
    decisions: Sequence[object] = answer.get("decisions", ()) if isinstance(answer, Mapping) else ()
    return bool(decisions) and all(isinstance(each, Mapping) and each.get("type") == "approve" for each in decisions)

"""`invoke_acp_agent`: gives a piece of work to an agent of somebody else's."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool
from langgraph.types import interrupt
from pydantic import Field, create_model

from deerflow.config.acp_agents import AcpAgentConfig
from deerflow.domain.acp import AcpAnswer, AcpOrder, PendingWork, PermissionQuestion
from deerflow.domain.context import RunContext
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.tool_marks import UNTRUSTED
from deerflow.sandbox.progress import Progress
from deerflow.tools.functions import as_tool
from deerflow.tools.run import current_run

NAME = "invoke_acp_agent"
ACP_GROUP = "acp"
"""The group that custom agents name to have the tool, where they name groups."""
STOPPED = {
    "max_tokens": "It stopped because it had no tokens left.",
    "max_turn_requests": "It stopped because it had asked its model too often.",
    "refusal": "It refused.",
    "cancelled": "It was stopped before it was done.",
}
WHERE = "What it has made is in /mnt/acp-workspace, which you can read; copy what the user should get."


def acp_tool(agents: Mapping[str, AcpAgentConfig]) -> BaseTool:
    """The tool that gives work to these agents."""
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
    run = current_run(runtime)
    if run.acp is None:
        raise InvalidRequest("there are no other agents here; do it yourself")
    call_id = runtime.tool_call_id or ""
    progress = Progress(runtime.stream_writer, call_id, NAME)
    order = AcpOrder(call_id, agent, prompt, can_ask=run.inbox is not None, hear=progress.hear)
    try:
        answer = await follow(await run.acp.begin(order), agent)
    finally:
        progress.close()
    said = answer.text.strip() or "(it said nothing)"
    return "\n\n".join(filter(None, [said, STOPPED.get(answer.stop_reason), WHERE]))


async def follow(work: PendingWork, agent: str) -> AcpAnswer:
    """Wait for the end of the work, and have a person decide what is asked meanwhile."""
    for question in work.answered:
        interrupt(payload(agent, question))  # answered before: this gives the same answer again
    while True:
        try:
            happened = await work.proceed()
        except asyncio.CancelledError:
            await work.cancel()
            raise
        if isinstance(happened, AcpAnswer):
            return happened
        work.answer(is_allowed=is_approved(interrupt(payload(agent, happened))))


def payload(agent: str, question: PermissionQuestion) -> dict[str, Any]:
    """The question as pages and programs read it."""
    args = {"agent": agent, "wants": question.title, "kind": question.kind, "input": dict(question.arguments)}
    return {
        "action_requests": [{"name": NAME, "args": args, "description": f"{agent} wants to: {question.title}"}],
        "review_configs": [{"action_name": NAME, "allowed_decisions": ["approve", "reject"]}],
    }


def is_approved(answer: object) -> bool:
    """Whether a person has said yes; everything else is no."""
    decisions: Sequence[object] = answer.get("decisions", ()) if isinstance(answer, Mapping) else ()
    return bool(decisions) and all(isinstance(each, Mapping) and each.get("type") == "approve" for each in decisions)

"""/tools and /policy: what agents can use, and what is asked before"""

import asyncio
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from deerflow.config.policy import Outcome, ToolSource
from deerflow.gateway.dependencies import TheHarness, Who

router = APIRouter(tags=["tools"])


class ToolInfo(BaseModel):
    """One tool. `source`: ours, the web, an MCP server's, or written for this installation."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    description: str
    source: ToolSource
    server: str | None
    brings_untrusted: bool
    """Whether it returns words of strangers."""
    reaches_out: bool
    """Whether it can send something elsewhere."""
    needs_approval: bool
    """Whether a person approves each use, by the tool's entry in the configuration."""


class AllTools(BaseModel):
    """The tools of the lead agent, in the order the model sees them."""

    tools: list[ToolInfo]


class RuleInfo(BaseModel):
    """One rule of the policy."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    outcome: Outcome
    reason: str
    is_shipped: bool
    """Whether it comes with DeerFlow."""
    conditions: dict[str, Any]
    """Which calls it is about, as `policy.yaml` has it."""


class PolicyInfo(BaseModel):
    """What becomes of calls of tools: the first rule that fits decides."""

    model_config = ConfigDict(from_attributes=True)

    enabled: bool
    rules: list[RuleInfo]
    otherwise: Outcome


@router.get("/tools", summary="What agents can use")
async def list_tools(harness: TheHarness, who: Who) -> AllTools:
    """The tools of the lead agent: built in, configured, and of the MCP servers that are ready."""
    cards = await asyncio.to_thread(harness.agents.tool_cards, who.user_id)
    return AllTools(tools=[ToolInfo.model_validate(card) for card in cards])


@router.get("/policy", summary="What is asked before tools are used")
async def get_policy(harness: TheHarness, who: Who) -> PolicyInfo:
    """The rules in force, those of `policy.yaml` first, then those that come with DeerFlow."""
    return PolicyInfo.model_validate(await asyncio.to_thread(harness.agents.policy_card))

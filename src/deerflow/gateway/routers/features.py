"""Models, tools, sandbox and features of the server: /models, /starters, /tools, /policy, /sandbox and /features."""

import asyncio
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from deerflow.agents.pool import ModelCard
from deerflow.config.sections.guardrails import Outcome, ToolSource
from deerflow.gateway.dependencies import CurrentUser, HarnessDep
from deerflow.models.detection import KeyStatus
from deerflow.sandbox.sandbox_provider import IsolationTier, SandboxProblem, ToolboxOwner

models_router = APIRouter(tags=["models"])


class Model(BaseModel):
    """Model without its address; of its key, only the status is shown."""

    name: str
    model: str
    display_name: str
    description: str | None
    supports_thinking: bool
    supports_reasoning_effort: bool
    supports_vision: bool
    scripted: bool
    key: KeyStatus

    @classmethod
    def from_domain(cls, card: ModelCard) -> "Model":
        return cls.model_validate(card, from_attributes=True)


class TokenUsage(BaseModel):
    """Token usage setting."""

    enabled: bool = True


class Models(BaseModel):
    """Configured models, and the default."""

    models: list[Model]
    default: str
    token_usage: TokenUsage = TokenUsage()
    problem: str | None = None
    """Error in the configuration files as they are now; the last valid version is in use. Null if they are valid."""


class Starter(BaseModel):
    """Suggested first prompt."""

    id: str
    title: str
    prompt: str
    is_plan_mode: bool


class Starters(BaseModel):
    """Suggested first prompts."""

    starters: list[Starter]


@models_router.get("/models")
async def list_models(harness: HarnessDep, user: CurrentUser) -> Models:
    """List the configured models as they are now, and the error in a changed configuration that is invalid."""
    await harness.core.saved_models.refresh()
    cards = await asyncio.to_thread(harness.core.agents.model_cards, user.user_id)
    source = harness.core.source
    problem = source.redact(source.problem) if source.problem else None
    return Models(models=[Model.from_domain(card) for card in cards], default=cards[0].name, problem=problem)


@models_router.get("/models/{name}")
async def get_model(name: str, harness: HarnessDep, user: CurrentUser) -> Model:
    """Get a model."""
    return Model.from_domain(harness.core.agents.model_card(name, user.user_id))


@models_router.get("/starters")
async def list_starters(harness: HarnessDep, user: CurrentUser) -> Starters:
    """List suggested first prompts."""
    skills = await harness.core.skills.list(user.user_id)
    found = await asyncio.to_thread(harness.core.agents.starters, [skill.name for skill in skills.enabled])
    return Starters(starters=[Starter.model_validate(starter, from_attributes=True) for starter in found])


tools_router = APIRouter(tags=["tools"])


class ToolInfo(BaseModel):
    """Tool. `source`: built-in, web, MCP server or configured."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    description: str
    source: ToolSource
    server: str | None
    brings_untrusted: bool
    """Its results are untrusted content."""
    reaches_out: bool
    """It can send data out."""
    needs_approval: bool
    """Each call needs approval, by the configuration of the tool."""
    group: str | None
    """Group that custom agents can be limited to; null: every agent has it."""


class AllTools(BaseModel):
    """Tools of the lead agent, in the order of the model request."""

    tools: list[ToolInfo]


class RuleInfo(BaseModel):
    """Rule of the policy."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    outcome: Outcome
    reason: str
    is_shipped: bool
    """It is a built-in rule."""
    conditions: dict[str, Any]
    """Conditions of the rule, as in `policy.yaml`."""


class PolicyInfo(BaseModel):
    """Policy for tool calls: the first matching rule decides."""

    model_config = ConfigDict(from_attributes=True)

    enabled: bool
    rules: list[RuleInfo]
    otherwise: Outcome


@tools_router.get("/tools", summary="List tools")
async def list_tools(harness: HarnessDep, user: CurrentUser) -> AllTools:
    """List the tools of the lead agent: built-in, configured, and those of connected MCP servers."""
    cards = await asyncio.to_thread(harness.core.agents.tool_cards, user.user_id)
    return AllTools(tools=[ToolInfo.model_validate(card) for card in cards])


@tools_router.get("/policy", summary="Get the policy for tool calls")
async def get_policy(harness: HarnessDep, user: CurrentUser) -> PolicyInfo:
    """Get the effective rules: those of `policy.yaml` first, then the built-in ones."""
    return PolicyInfo.model_validate(await asyncio.to_thread(harness.core.agents.policy_card))


sandbox_router = APIRouter(tags=["sandbox"])


class ToolboxInfo(BaseModel):
    """Build state of the Python packages of the sandbox; `installed` of `total` while they are being installed."""

    status: Literal["ready", "building", "failed", "missing", "off"]
    installed: int
    total: int


class SandboxInfo(BaseModel):
    """Isolation of commands. `code` names the problem; the sentences are for operators."""

    tier: IsolationTier
    network: str
    code: SandboxProblem | None
    detail: str
    problem: str | None
    remedy: str | None
    toolbox: ToolboxInfo | None


@sandbox_router.get("/sandbox")
async def get_sandbox(harness: HarnessDep, user: CurrentUser) -> SandboxInfo:
    """Get the isolation of commands and the state of their Python packages."""
    report, provider = harness.core.sandbox_report, harness.core.sandboxes
    toolbox = await provider.toolbox_state() if isinstance(provider, ToolboxOwner) else None
    return SandboxInfo(
        tier=report.tier,
        network=harness.features(user.user_id).sandbox.network,
        code=report.code,
        detail=report.detail,
        problem=report.problem,
        remedy=report.remedy,
        toolbox=ToolboxInfo.model_validate(toolbox, from_attributes=True) if toolbox else None,
    )


features_router = APIRouter(tags=["features"])


class SandboxFeature(BaseModel):
    """Capabilities of the sandbox."""

    tier: IsolationTier
    runs_commands: bool
    network: str
    allow_host_bash: bool


class ModelsFeature(BaseModel):
    """Capabilities that at least one model has."""

    count: int
    thinking: bool
    vision: bool
    scripted_only: bool


class Features(BaseModel):
    """Enabled features, the sandbox and the models."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "version": "0.1.0",
                "enabled": {"search": True, "suggestions": True, "memory": False},
                "sandbox": {
                    "tier": "isolated",
                    "runs_commands": True,
                    "network": "none",
                    "allow_host_bash": False,
                },
                "models": {"count": 2, "thinking": True, "vision": False, "scripted_only": False},
            }
        }
    )

    version: str
    enabled: dict[str, bool]
    sandbox: SandboxFeature
    models: ModelsFeature


@features_router.get("/features", summary="Get the enabled features")
async def get_features(harness: HarnessDep, user: CurrentUser) -> Features:
    """Get the features of this server, so that clients need not probe for them."""
    harness.runs.prepare()  # the page asks for this when it is opened, and a run is likely to follow
    return Features.model_validate(harness.features(user.user_id), from_attributes=True)

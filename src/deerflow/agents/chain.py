"""Middleware chain: the built-in middlewares in order, each with the reason for its position.

The first is outermost: it sees a request first and the reply last. `wrap_*` hooks are preferred, because every
`before_*` and `after_*` hook adds a step to the graph and a checkpoint.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel

from deerflow.agents.features import Feature, RuntimeFeatures
from deerflow.agents.middlewares.boundary_middleware import BoundaryMiddleware
from deerflow.agents.middlewares.clarification_middleware import ClarificationMiddleware
from deerflow.agents.middlewares.dangling_tool_call_middleware import DanglingToolCallMiddleware
from deerflow.agents.middlewares.deferred_tool_filter_middleware import DeferredToolFilterMiddleware
from deerflow.agents.middlewares.loop_detection_middleware import LoopDetectionMiddleware
from deerflow.agents.middlewares.model_calls import (
    DynamicContextMiddleware,
    EmptyAnswerMiddleware,
    ModelRecoveryMiddleware,
    SteeringMiddleware,
)
from deerflow.agents.middlewares.subagent_limit_middleware import SubagentLimitMiddleware
from deerflow.agents.middlewares.summarization_middleware import SummarizationMiddleware
from deerflow.agents.middlewares.thread_data_middleware import ThreadDataMiddleware
from deerflow.agents.middlewares.title_middleware import TitleMiddleware
from deerflow.agents.middlewares.todo_middleware import TodoMiddleware
from deerflow.agents.middlewares.token_usage_middleware import TokenUsageMiddleware
from deerflow.agents.middlewares.tool_calls import (
    ReadBeforeWriteMiddleware,
    ToolLedgerMiddleware,
    ToolOutputMiddleware,
)
from deerflow.agents.middlewares.tool_error_handling_middleware import ToolErrorHandlingMiddleware
from deerflow.agents.middlewares.view_image_middleware import ViewImageMiddleware
from deerflow.agents.spec import ChainSettings
from deerflow.budget.middleware import BudgetMiddleware, MeteringMiddleware
from deerflow.domain.usage import LEAD_AGENT, SUBAGENT
from deerflow.guardrails.middleware import GuardrailMiddleware, ThreadApprovalMiddleware
from deerflow.guardrails.policy import PolicyProvider
from deerflow.guardrails.providers import CombinedProvider, GuardrailProvider, create_provider
from deerflow.memory.middleware import MemoryMiddleware
from deerflow.sandbox.middleware import SandboxMiddleware
from deerflow.skills.contract_middleware import SkillContractMiddleware
from deerflow.skills.middleware import SkillActivationMiddleware, SkillToolPolicyMiddleware
from deerflow.tools.deferred import DeferredTools
from deerflow.uploads.middleware import UploadsMiddleware

AnyMiddleware = AgentMiddleware[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class ChainInputs:
    """Inputs of the middlewares of one agent."""

    features: RuntimeFeatures
    settings: ChainSettings = ChainSettings()
    fallbacks: Sequence[BaseChatModel] = ()
    summary_model: BaseChatModel | None = None
    needs_approval: frozenset[str] = frozenset()
    max_concurrent_subagents: int = 3
    deferred: DeferredTools | None = None
    """Tools that the model has to search for."""
    skills: frozenset[str] | None = None
    """Skills that the agent may use; None means all skills of the run."""
    caller: str = LEAD_AGENT
    """Caller of the model in usage records."""


@dataclass(frozen=True, slots=True)
class MiddlewareSpec:
    """One position in the chain."""

    create: Callable[[ChainInputs], AnyMiddleware | None]
    reason: str
    feature: str | None = None
    """Field of `RuntimeFeatures` that switches it; None means always on."""
    for_subagents: bool = True
    replaceable: bool = True
    """Whether a middleware given for the feature takes this position; the feature's other positions are then empty."""


CHAIN = (
    MiddlewareSpec(lambda _: ThreadDataMiddleware(), "all below may need file paths", "sandbox", replaceable=False),
    MiddlewareSpec(
        lambda _: UploadsMiddleware(), "uploads are part of the message for all below", "sandbox", False, False
    ),
    MiddlewareSpec(lambda _: SandboxMiddleware(), "tools need the sandbox, and it needs the files", "sandbox"),
    MiddlewareSpec(
        lambda _: SteeringMiddleware(), "steering messages are part of the request for all below", None, False
    ),
    MiddlewareSpec(lambda of: SkillActivationMiddleware(of.skills), "an activated skill is part of the request"),
    MiddlewareSpec(lambda _: DanglingToolCallMiddleware(), "nothing below may see a call without a result"),
    MiddlewareSpec(
        lambda of: SkillToolPolicyMiddleware(of.skills), "tools outside active skills are neither shown nor checked"
    ),
    MiddlewareSpec(lambda of: create_deferred_filter(of), "deferred tools are neither shown nor checked"),
    MiddlewareSpec(lambda of: create_guardrail(of), "a call is checked before anything is done for it", "guardrail"),
    MiddlewareSpec(
        lambda of: ToolLedgerMiddleware(of.settings.reach), "a call that waits for approval has not started"
    ),
    MiddlewareSpec(
        lambda of: SkillContractMiddleware(of.skills), "everything done for a call obeys the skill contract"
    ),
    MiddlewareSpec(
        lambda of: ToolOutputMiddleware(of.settings.tool_output), "limits results and errors", "tool_output"
    ),
    MiddlewareSpec(lambda _: ToolErrorHandlingMiddleware(), "every tool error becomes a tool message"),
    MiddlewareSpec(lambda _: ReadBeforeWriteMiddleware(), "its refusals are tool errors", "read_before_write"),
    MiddlewareSpec(lambda of: create_approval(of), "users are asked about valid calls only", for_subagents=False),
    MiddlewareSpec(lambda _: DynamicContextMiddleware(), "the date is added again after compaction", "dynamic_context"),
    MiddlewareSpec(lambda _: TodoMiddleware(), "the list is added again after compaction", "todo", False),
    MiddlewareSpec(
        lambda of: TitleMiddleware(of.settings.title), "titles the thread after its first answer", "auto_title", False
    ),
    MiddlewareSpec(lambda _: MemoryMiddleware(), "memory comes before the request", "memory", False),
    MiddlewareSpec(lambda _: ViewImageMiddleware(), "images come after a complete history", "vision"),
    MiddlewareSpec(
        lambda of: SubagentLimitMiddleware(of.max_concurrent_subagents), "drops excess task calls", "subagent", False
    ),
    MiddlewareSpec(
        lambda of: LoopDetectionMiddleware(of.settings.loop_detection),
        "sees replies before they are modified",
        "loop_detection",
    ),
    MiddlewareSpec(lambda _: TokenUsageMiddleware(), "counts each reply that is kept", "token_usage"),
    MiddlewareSpec(lambda _: EmptyAnswerMiddleware(), "retries replies that are empty"),
    MiddlewareSpec(lambda of: ModelRecoveryMiddleware(of.settings.llm_call, of.fallbacks), "retries the call alone"),
    MiddlewareSpec(
        lambda of: create_summarization(of), "nothing is added after the request was made to fit", "summarization"
    ),
    MiddlewareSpec(lambda of: BudgetMiddleware(of.caller), "reserves tokens for the request as it will be sent"),
    MiddlewareSpec(lambda of: MeteringMiddleware(of.caller), "counts every call, including failed ones"),
    MiddlewareSpec(lambda _: BoundaryMiddleware(), "what comes from models and tools can be recorded"),
    MiddlewareSpec(lambda _: ClarificationMiddleware(), "last: nothing may change a question", None, False),
)


def build_chain(inputs: ChainInputs, *, for_subagent: bool = False) -> list[AnyMiddleware]:
    """Return the middlewares of a lead agent, or of a subagent."""
    if for_subagent and inputs.caller == LEAD_AGENT:
        inputs = replace(inputs, caller=SUBAGENT)
    specs = [spec for spec in CHAIN if spec.for_subagents or not for_subagent]
    created = [create_middleware(spec, inputs) for spec in specs]
    return [middleware for middleware in created if middleware is not None]


def create_middleware(spec: MiddlewareSpec, inputs: ChainInputs) -> AnyMiddleware | None:
    """Return the middleware of one position: the built-in one, the user's replacement, or None."""
    feature: Feature = True if spec.feature is None else getattr(inputs.features, spec.feature)
    if isinstance(feature, AgentMiddleware):
        return feature if spec.replaceable else None
    return spec.create(inputs) if feature else None


def create_guardrail(of: ChainInputs) -> AnyMiddleware:
    """Return the guardrail: the policy, and the configured provider if there is one."""
    settings, is_subagent = of.settings, of.caller != LEAD_AGENT
    return GuardrailMiddleware(
        create_guardrail_provider(settings),
        settings.guardrails.fail_closed,
        is_subagent,
        settings.reach,
        of.needs_approval,
    )


def create_guardrail_provider(settings: ChainSettings) -> GuardrailProvider:
    """Return the policy, combined with the configured provider if there is one."""
    policy = PolicyProvider(settings.policy)
    configured = settings.guardrails.provider
    return policy if configured is None else CombinedProvider((policy, create_provider(configured)))


def create_deferred_filter(of: ChainInputs) -> AnyMiddleware | None:
    """Return the filter of deferred tools, if there are any."""
    return DeferredToolFilterMiddleware(of.deferred) if of.deferred is not None else None


def create_approval(of: ChainInputs) -> AnyMiddleware | None:
    """Return the middleware that asks for approval. It is a node of the graph, so only if a tool needs approval."""
    if not of.needs_approval:
        return None
    return ThreadApprovalMiddleware(of.needs_approval)


def create_summarization(of: ChainInputs) -> AnyMiddleware:
    """Return the summarization, by the model of the agent or a dedicated one."""
    return SummarizationMiddleware(of.settings.summarization, of.summary_model)

"""The chain: which middlewares stand around a model, in which order, and why there.

The first is outermost: it sees a request before all others and a reply after them. Only `wrap_*` hooks are used where
they suffice, for every `before_*` and `after_*` hook is a step of the graph and a checkpoint of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel

from deerflow.agents.features import Feature, RuntimeFeatures
from deerflow.agents.middlewares.budget_middleware import BudgetMiddleware
from deerflow.agents.middlewares.clarification_middleware import ClarificationMiddleware
from deerflow.agents.middlewares.dangling_tool_call_middleware import DanglingToolCallMiddleware
from deerflow.agents.middlewares.deferred_tool_filter_middleware import DeferredToolFilterMiddleware
from deerflow.agents.middlewares.dynamic_context_middleware import DynamicContextMiddleware
from deerflow.agents.middlewares.empty_answer_middleware import EmptyAnswerMiddleware
from deerflow.agents.middlewares.guardrail_middleware import GuardrailMiddleware
from deerflow.agents.middlewares.guardrail_policy import PolicyProvider
from deerflow.agents.middlewares.guardrails import AllOf, GuardrailProvider, create_provider
from deerflow.agents.middlewares.loop_detection_middleware import LoopDetectionMiddleware
from deerflow.agents.middlewares.memory_middleware import MemoryMiddleware
from deerflow.agents.middlewares.metering_middleware import MeteringMiddleware
from deerflow.agents.middlewares.model_recovery_middleware import ModelRecoveryMiddleware
from deerflow.agents.middlewares.read_before_write_middleware import ReadBeforeWriteMiddleware
from deerflow.agents.middlewares.skill_activation_middleware import SkillActivationMiddleware
from deerflow.agents.middlewares.skill_contract_middleware import SkillContractMiddleware
from deerflow.agents.middlewares.skill_tool_policy_middleware import SkillToolPolicyMiddleware
from deerflow.agents.middlewares.steering_middleware import SteeringMiddleware
from deerflow.agents.middlewares.subagent_limit_middleware import SubagentLimitMiddleware
from deerflow.agents.middlewares.summarization_middleware import SummarizationMiddleware
from deerflow.agents.middlewares.thread_data_middleware import ThreadDataMiddleware
from deerflow.agents.middlewares.title_middleware import TitleMiddleware
from deerflow.agents.middlewares.todo_middleware import TodoMiddleware
from deerflow.agents.middlewares.token_usage_middleware import TokenUsageMiddleware
from deerflow.agents.middlewares.tool_error_handling_middleware import ToolErrorHandlingMiddleware
from deerflow.agents.middlewares.tool_ledger_middleware import ToolLedgerMiddleware
from deerflow.agents.middlewares.tool_output_middleware import ToolOutputMiddleware
from deerflow.agents.middlewares.uploads_middleware import UploadsMiddleware
from deerflow.agents.middlewares.view_image_middleware import ViewImageMiddleware
from deerflow.agents.settings import ChainSettings
from deerflow.domain.usage import LEAD_AGENT, SUBAGENT
from deerflow.sandbox.middleware import SandboxMiddleware
from deerflow.tools.deferred import DeferredTools

AnyMiddleware = AgentMiddleware[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What the middlewares of one agent are made from."""

    features: RuntimeFeatures
    settings: ChainSettings = ChainSettings()
    fallbacks: Sequence[BaseChatModel] = ()
    summary_model: BaseChatModel | None = None
    needs_approval: frozenset[str] = frozenset()
    max_concurrent_subagents: int = 3
    deferred: DeferredTools | None = None
    """The tools that have to be asked for."""
    skills: frozenset[str] | None = None
    """The only skills the agent may use; None: all of its run."""
    caller: str = LEAD_AGENT
    """Who asks the model, as the bill says it."""


@dataclass(frozen=True, slots=True)
class Link:
    """One place in the chain."""

    make: Callable[[Ingredients], AnyMiddleware | None]
    why: str
    feature: str | None = None
    """The switch of `RuntimeFeatures` it obeys; None: it is always there."""
    for_subagents: bool = True
    is_face: bool = True
    """Whether a middleware given for the feature goes here; the feature's other links are then left out."""


CHAIN = (
    Link(lambda _: ThreadDataMiddleware(), "everything below may ask where the files are", "sandbox", is_face=False),
    Link(lambda _: UploadsMiddleware(), "uploads are part of the message for all below", "sandbox", False, False),
    Link(lambda _: SandboxMiddleware(), "tools need it, and it needs the files", "sandbox"),
    Link(lambda _: SteeringMiddleware(), "what people say meanwhile is part of the request for all below", None, False),
    Link(lambda of: SkillActivationMiddleware(of.skills), "a skill that is asked for is part of the request too"),
    Link(lambda _: DanglingToolCallMiddleware(), "nothing below may see a call without a result"),
    Link(lambda of: SkillToolPolicyMiddleware(of.skills), "what a skill has no use for is neither shown nor judged"),
    Link(lambda of: deferred(of), "what the model has not asked for is neither shown nor judged"),
    Link(lambda of: guardrail(of), "a call is judged before anything is done for it", "guardrail"),
    Link(lambda _: ToolLedgerMiddleware(), "a call that waits for a person was not begun"),
    Link(lambda of: SkillContractMiddleware(of.skills), "all that is done for a call is done within the contract"),
    Link(lambda of: tool_output(of), "cuts what tools say, and what their errors say", "tool_output"),
    Link(lambda _: ToolErrorHandlingMiddleware(), "whatever a tool raises, the model is told"),
    Link(lambda _: ReadBeforeWriteMiddleware(), "refuses like a tool that failed", "read_before_write"),
    Link(lambda of: approval(of), "a person is asked only for calls that are sound", for_subagents=False),
    Link(lambda _: DynamicContextMiddleware(), "the date is told again when it was compacted away", "dynamic_context"),
    Link(lambda _: TodoMiddleware(), "the list is shown again when it was compacted away", "todo", False),
    Link(lambda of: TitleMiddleware(of.settings.title), "names the thread after its first answer", "auto_title", False),
    Link(lambda _: MemoryMiddleware(), "what is remembered goes before what is asked", "memory", False),
    Link(lambda _: ViewImageMiddleware(), "images go behind a history that is settled", "vision"),
    Link(lambda of: subagent_limit(of), "cuts what was asked too much at once", "subagent", False),
    Link(lambda of: loop_detection(of), "sees replies as the model meant them", "loop_detection"),
    Link(lambda _: TokenUsageMiddleware(), "counts each reply that is kept", "token_usage"),
    Link(lambda _: EmptyAnswerMiddleware(), "asks again where there was nothing to read"),
    Link(lambda of: recovery(of), "repeats the call alone, and none of the work above"),
    Link(lambda of: summarization(of), "nothing is added after the request was made to fit", "summarization"),
    Link(lambda of: BudgetMiddleware(of.caller), "sets aside what the request, as it will be sent, may take"),
    Link(lambda of: MeteringMiddleware(of.caller), "counts what is really asked, also what comes to nothing"),
    Link(lambda _: ClarificationMiddleware(), "last: nothing stands between a question and its end", None, False),
)


def build_chain(ingredients: Ingredients, *, for_subagent: bool = False) -> list[AnyMiddleware]:
    """The middlewares of a lead agent, or of a subagent."""
    if for_subagent and ingredients.caller == LEAD_AGENT:
        ingredients = replace(ingredients, caller=SUBAGENT)
    links = [link for link in CHAIN if link.for_subagents or not for_subagent]
    made = [make_link(link, ingredients) for link in links]
    return [middleware for middleware in made if middleware is not None]


def make_link(link: Link, ingredients: Ingredients) -> AnyMiddleware | None:
    """The middleware of one place: the built-in one, the user's in its place, or none."""
    feature: Feature = True if link.feature is None else getattr(ingredients.features, link.feature)
    if isinstance(feature, AgentMiddleware):
        return feature if link.is_face else None
    return link.make(ingredients) if feature else None


def guardrail(of: Ingredients) -> AnyMiddleware:
    """The policy, and the configured provider where there is one."""
    settings = of.settings.guardrails
    provider: GuardrailProvider = PolicyProvider(of.settings.policy)
    if settings.provider is not None:
        provider = AllOf((provider, create_provider(settings.provider)))
    is_subagent = of.caller != LEAD_AGENT
    return GuardrailMiddleware(provider, settings.fail_closed, is_subagent, of.settings.reach, of.needs_approval)


def deferred(of: Ingredients) -> AnyMiddleware | None:
    """Hides the tools that have to be asked for, where there are some."""
    return DeferredToolFilterMiddleware(of.deferred) if of.deferred is not None else None


def tool_output(of: Ingredients) -> AnyMiddleware:
    """Keeps large results in files."""
    return ToolOutputMiddleware(of.settings.tool_output)


def approval(of: Ingredients) -> AnyMiddleware | None:
    """Pauses the run before a tool that wants a person's word; a node of its own, so only where one does."""
    if not of.needs_approval:
        return None
    return HumanInTheLoopMiddleware(dict.fromkeys(sorted(of.needs_approval), True))


def subagent_limit(of: Ingredients) -> AnyMiddleware:
    """Bounds how much is handed to others at once."""
    return SubagentLimitMiddleware(of.max_concurrent_subagents)


def loop_detection(of: Ingredients) -> AnyMiddleware:
    """Ends a turn that goes round in circles."""
    return LoopDetectionMiddleware(of.settings.loop_detection)


def recovery(of: Ingredients) -> AnyMiddleware:
    """Asks again, then asks others."""
    return ModelRecoveryMiddleware(of.settings.llm_call, of.fallbacks)


def summarization(of: Ingredients) -> AnyMiddleware:
    """Shortens the conversation by the model that answers, or by one for the purpose."""
    return SummarizationMiddleware(of.settings.summarization, of.summary_model)

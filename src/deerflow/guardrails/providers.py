"""Guardrail providers: the protocol, its request and decision, and the built-in implementations."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from deerflow.config.imports import load_class
from deerflow.config.sections.guardrails import GuardrailProviderConfig
from deerflow.domain.errors import ConfigError
from deerflow.guardrails.call_context import CallContext, ThreadCallContext, ToolTraits

EMPTY_CONTEXT = ThreadCallContext((), (), None, ToolTraits())


@dataclass(frozen=True, slots=True)
class GuardrailRequest:
    """Tool call to be evaluated. A graph used without a harness has no run, thread or user."""

    tool_name: str
    tool_input: Mapping[str, Any]
    tool_call_id: str | None
    timestamp: datetime
    agent_id: str | None = None
    thread_id: str | None = None
    run_id: str | None = None
    user_id: str | None = None
    is_subagent: bool = False
    channel: str | None = None
    """Channel the message came from; None for the page and the API."""
    undeclared: tuple[str, ...] = ()
    """Names of arguments that are not in the schema of the tool."""
    tool: ToolTraits = ToolTraits()
    context: CallContext = EMPTY_CONTEXT
    """Lazily computed context of the thread."""


@dataclass(frozen=True, slots=True)
class GuardrailReason:
    """Reason for a refusal: `code` for programs, `message` for the model."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class GuardrailDecision:
    """Decision about a tool call."""

    allow: bool
    reasons: tuple[GuardrailReason, ...] = ()
    policy_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    ask: bool = False
    """Request human approval. Used with `allow=False`, which applies where no approval is possible."""
    allow_in_thread: bool = True
    """The person who is asked may allow such calls for the rest of the thread."""


@runtime_checkable
class GuardrailProvider(Protocol):
    """Decides about tool calls."""

    @property
    def name(self) -> str: ...

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision: ...


class AllowlistProvider:
    """Allows only the given tools, or all but the denied ones. A denied tool stays denied even when allowed."""

    name = "allowlist"

    def __init__(self, allowed_tools: Collection[str] | None = None, denied_tools: Collection[str] = ()) -> None:
        self._allowed = None if allowed_tools is None else frozenset(allowed_tools)
        self._denied = frozenset(denied_tools)

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        tool = request.tool_name
        if tool in self._denied:
            reason = GuardrailReason("denied_tool", f"{tool} is among the tools that must not be used here")
        elif self._allowed is not None and tool not in self._allowed:
            reason = GuardrailReason("tool_not_allowed", f"{tool} is not among the tools that may be used here")
        else:
            return GuardrailDecision(allow=True)
        return GuardrailDecision(allow=False, reasons=(reason,), policy_id=self.name)


class CombinedProvider:
    """Evaluates several providers; the strictest decision wins."""

    def __init__(self, providers: Sequence[GuardrailProvider]) -> None:
        self._providers = providers
        self.name = " and ".join(provider.name for provider in providers)

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        approval: GuardrailDecision | None = None
        for provider in self._providers:
            decision = await provider.aevaluate(request)
            if not decision.allow and not decision.ask:
                return decision
            approval = approval or (decision if decision.ask else None)
        return approval or GuardrailDecision(allow=True)


def load_provider_class(settings: GuardrailProviderConfig) -> Callable[..., object]:
    """Return the class named in the configuration, which is checked before it is called.

    Raises:
        ConfigError: The class does not exist, or is not a class of providers.
    """
    found = load_class(settings.use, object)
    if not hasattr(found, "aevaluate"):
        raise ConfigError(f"guardrails.provider.use: {settings.use!r} has no `name` and `aevaluate(request)`")
    return found


def create_provider(settings: GuardrailProviderConfig) -> GuardrailProvider:
    """Return the provider named in the configuration.

    Raises:
        ConfigError: The class does not exist, rejects the settings, or is not a provider.
    """
    provider_class = load_provider_class(settings)
    try:
        # The parameters are defined by the configured class.
        provider = provider_class(**settings.config)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"invalid guardrails.provider.config for {settings.use!r}: {error}") from error
    if not isinstance(provider, GuardrailProvider):
        raise ConfigError(f"guardrails.provider.use: {settings.use!r} has no `name` and `aevaluate(request)`")
    return provider

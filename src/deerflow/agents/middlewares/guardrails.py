"""Who decides whether a tool may be called, and what they are told."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, cast, runtime_checkable

from deerflow.agents.middlewares.guardrail_facts import CallFacts, Facts, ToolFacts
from deerflow.config.guardrails import GuardrailProviderConfig
from deerflow.config.imports import load_class
from deerflow.domain.errors import ConfigError

NOTHING_READ = CallFacts((), (), None, ToolFacts())


@dataclass(frozen=True, slots=True)
class GuardrailRequest:
    """One tool call that is about to be made; a graph used bare has no run, thread or user."""

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
    """Where the message came from; None: from the page or the API."""
    undeclared: tuple[str, ...] = ()
    """Names of arguments that the tool does not know, which may hold anything."""
    tool: ToolFacts = ToolFacts()
    facts: Facts = NOTHING_READ
    """What can be found out about the thread."""


@dataclass(frozen=True, slots=True)
class GuardrailReason:
    """Why a call is refused: `code` for programs, `message` for the model."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class GuardrailDecision:
    """Whether a call may be made."""

    allow: bool
    reasons: tuple[GuardrailReason, ...] = ()
    policy_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    ask: bool = False
    """Whether a person decides; goes with `allow=False`, which is what holds where nobody can be asked."""


@runtime_checkable
class GuardrailProvider(Protocol):
    """Decides about tool calls."""

    @property
    def name(self) -> str: ...

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision: ...


class AllowlistProvider:
    """Allows the named tools, or all but the named ones; what is denied stays denied."""

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


class AllOf:
    """Asks several; the most careful of them decides."""

    def __init__(self, providers: Sequence[GuardrailProvider]) -> None:
        self._providers = providers
        self.name = " and ".join(provider.name for provider in providers)

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        asks: GuardrailDecision | None = None
        for provider in self._providers:
            decision = await provider.aevaluate(request)
            if not decision.allow and not decision.ask:
                return decision
            asks = asks or (decision if decision.ask else None)
        return asks or GuardrailDecision(allow=True)


def create_provider(settings: GuardrailProviderConfig) -> GuardrailProvider:
    """The provider a configuration names.

    Raises:
        ConfigError: There is no such class, it does not take these settings, or it decides nothing.
    """
    provider_class = load_class(settings.use, object)
    try:
        # What the class takes is known to the class alone.
        provider = cast(Any, provider_class)(**settings.config)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"guardrails.provider.config does not suit {settings.use!r}: {error}") from error
    if not isinstance(provider, GuardrailProvider):
        raise ConfigError(f"guardrails.provider.use: {settings.use!r} has no `name` and `aevaluate(request)`")
    return provider

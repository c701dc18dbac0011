"""Descriptions of tools and policies for the API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deerflow.agents.spec import ChainSettings
from deerflow.config.sections.guardrails import Outcome, PolicyRule, ToolSource, load_default_policy
from deerflow.config.sections.tools import ToolConfig
from deerflow.domain.tools import MCP_SOURCE
from deerflow.guardrails.call_context import EgressCapability
from deerflow.tools.assembly import SANDBOX_TOOLS, ToolSet

SAID = frozenset({"name", "outcome", "reason"})


@dataclass(frozen=True, slots=True)
class ToolCard:
    """Tool with its source, and whether it is untrusted, can send data out, or needs approval."""

    name: str
    description: str
    source: ToolSource
    server: str | None
    brings_untrusted: bool
    reaches_out: bool
    needs_approval: bool
    group: str | None
    """Group that custom agents can be limited to; None: every agent has it."""


@dataclass(frozen=True, slots=True)
class RuleCard:
    """Rule of the policy; `conditions` as written in the file."""

    name: str
    outcome: Outcome
    reason: str
    is_shipped: bool
    conditions: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PolicyCard:
    """Policy: the first matching rule decides."""

    enabled: bool
    rules: tuple[RuleCard, ...]
    otherwise: Outcome


def tool_cards(tools: ToolSet, reach: EgressCapability, configured: Sequence[ToolConfig] = ()) -> tuple[ToolCard, ...]:
    """Return the descriptions of tools, in the order the model sees them."""
    groups = {function.__name__: group for group, functions in SANDBOX_TOOLS.items() for function in functions}
    groups |= {entry.name: entry.group for entry in configured if entry.group}
    cards = []
    for tool in tools.tools:
        traits = reach.classify(tool, tool.name)
        approved = tool.name in tools.needs_approval
        cards.append(
            ToolCard(
                name=tool.name,
                description=tool.description,
                source=traits.source,
                server=traits.server,
                brings_untrusted=traits.brings_untrusted,
                reaches_out=traits.reaches_out,
                needs_approval=approved,
                group=f"{MCP_SOURCE}:{traits.server}" if traits.source == MCP_SOURCE else groups.get(tool.name),
            )
        )
    return tuple(cards)


def policy_card(settings: ChainSettings) -> PolicyCard:
    """Return the rules of the policy, in order."""
    policy, shipped = settings.policy, load_default_policy() if settings.policy.shipped_rules else None
    rules = [rule_card(rule, is_shipped=False) for rule in policy.rules]
    rules += [rule_card(rule, is_shipped=True) for rule in (shipped.rules if shipped else ())]
    return PolicyCard(settings.guardrails.enabled, tuple(rules), policy.otherwise)


def rule_card(rule: PolicyRule, *, is_shipped: bool) -> RuleCard:
    """Return the description of a rule."""
    conditions = rule.model_dump(mode="json", exclude_defaults=True, exclude=set(SAID))
    return RuleCard(rule.name, rule.outcome, rule.reason, is_shipped, conditions)

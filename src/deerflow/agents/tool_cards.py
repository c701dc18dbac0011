"""The tools an agent has and what is asked before one is used, as people read it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deerflow.agents.middlewares.guardrail_facts import Reach
from deerflow.agents.settings import ChainSettings
from deerflow.config.policy import Outcome, PolicyRule, ToolSource, shipped_policy
from deerflow.tools.tools import ToolSet

SAID = frozenset({"name", "outcome", "reason"})


@dataclass(frozen=True, slots=True)
class ToolCard:
    """One tool: where it comes from, what it brings in and lets out, and whether each use of it is approved."""

    name: str
    description: str
    source: ToolSource
    server: str | None
    brings_untrusted: bool
    reaches_out: bool
    needs_approval: bool


@dataclass(frozen=True, slots=True)
class RuleCard:
    """One rule of the policy; `conditions` as they are written in the file."""

    name: str
    outcome: Outcome
    reason: str
    is_shipped: bool
    conditions: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PolicyCard:
    """What becomes of calls: the first rule that fits decides."""

    enabled: bool
    rules: tuple[RuleCard, ...]
    otherwise: Outcome


def tool_cards(tools: ToolSet, reach: Reach) -> tuple[ToolCard, ...]:
    """The tools as people read of them, in the order the model sees them."""
    cards = []
    for tool in tools.tools:
        facts = reach.facts_of(tool, tool.name)
        approved = tool.name in tools.needs_approval
        words = tool.description
        cards.append(
            ToolCard(tool.name, words, facts.source, facts.server, facts.brings_untrusted, facts.reaches_out, approved)
        )
    return tuple(cards)


def policy_card(settings: ChainSettings) -> PolicyCard:
    """The rules in force, in the order in which they are looked at."""
    policy, shipped = settings.policy, shipped_policy() if settings.policy.shipped_rules else None
    rules = [rule_card(rule, is_shipped=False) for rule in policy.rules]
    rules += [rule_card(rule, is_shipped=True) for rule in (shipped.rules if shipped else ())]
    return PolicyCard(settings.guardrails.enabled, tuple(rules), policy.otherwise)


def rule_card(rule: PolicyRule, *, is_shipped: bool) -> RuleCard:
    """A rule as people read it."""
    conditions = rule.model_dump(mode="json", exclude_defaults=True, exclude=set(SAID))
    return RuleCard(rule.name, rule.outcome, rule.reason, is_shipped, conditions)

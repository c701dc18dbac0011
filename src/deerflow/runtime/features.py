"""What is on in this server, read from what it is made of and from its settings."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from deerflow import __version__
from deerflow.agents.pool import ModelCard
from deerflow.sandbox.sandbox_provider import SandboxReport, Tier

PARTS = {
    "agents": "custom_agents",
    "artifact_bundles": "artifacts",
    "artifact_editing": "artifacts",
    "artifacts": "artifacts",
    "channels": "channels",
    "export": "exporter",
    "feedback": "feedback",
    "input_polish": "input_polish",
    "mcp": "mcp",
    "memory": "memory",
    "scheduled_tasks": "scheduler",
    "search": "search",
    "sharing": "sharing",
    "skill_editing": "workshop",
    "skills": "skills",
    "suggestions": "suggestions",
    "token_usage": "usage",
    "uploads": "uploads",
    "user_profile": "profiles",
}
"""What is offered, and the part that a harness has then."""


@dataclass(frozen=True, slots=True)
class SandboxFeature:
    """What an agent can do with its computer."""

    tier: Tier
    runs_commands: bool
    network: str
    allow_host_bash: bool


@dataclass(frozen=True, slots=True)
class ModelsFeature:
    """What at least one of the models can do."""

    count: int
    thinking: bool
    vision: bool
    scripted_only: bool


@dataclass(frozen=True, slots=True)
class Features:
    """What is on."""

    version: str
    enabled: Mapping[str, bool]
    sandbox: SandboxFeature
    models: ModelsFeature


def enabled_features(parts: Collection[str], switches: Mapping[str, bool]) -> dict[str, bool]:
    """What there is a part for and no switch turns off, and the other switches."""
    there = {name: part in parts and switches.get(name, True) for name, part in PARTS.items()}
    return dict(sorted({**switches, **there}.items()))


def describe(
    enabled: Mapping[str, bool], report: SandboxReport, network: str, allow_host_bash: bool, cards: Sequence[ModelCard]
) -> Features:
    """What is on."""
    return Features(
        __version__,
        enabled,
        SandboxFeature(report.tier, report.runs_commands, network, allow_host_bash),
        ModelsFeature(
            count=len(cards),
            thinking=any(card.supports_thinking for card in cards),
            vision=any(card.supports_vision for card in cards),
            scripted_only=all(card.scripted for card in cards),
        ),
    )

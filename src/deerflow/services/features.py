"""Features of the server, derived from its configuration and its parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deerflow import __version__
from deerflow.agents.pool import ModelCard
from deerflow.sandbox.sandbox_provider import IsolationTier, SandboxReport

OFFERED = (
    "agents",
    "artifact_bundles",
    "artifact_editing",
    "artifacts",
    "export",
    "feedback",
    "file_previews",
    "input_polish",
    "mcp",
    "memory",
    "search",
    "sharing",
    "skill_editing",
    "skills",
    "suggestions",
    "token_usage",
    "uploads",
    "user_profile",
)
"""Features that every server has unless a section of the configuration disables them."""
PLANNED = ("scheduled_tasks",)
SWITCHED_SECTIONS = (
    "suggestions",
    "input_polish",
    "title",
    "summarization",
    "guardrails",
    "loop_detection",
    "sharing",
    "memory",
)
"""Sections of the configuration that have `enabled`."""


@dataclass(frozen=True, slots=True)
class SandboxSummary:
    """Capabilities of the sandbox."""

    tier: IsolationTier
    runs_commands: bool
    network: str
    allow_host_bash: bool


@dataclass(frozen=True, slots=True)
class ModelsSummary:
    """Capabilities of at least one of the models."""

    count: int
    thinking: bool
    vision: bool
    scripted_only: bool


@dataclass(frozen=True, slots=True)
class ServerFeatures:
    """Features that are enabled."""

    version: str
    enabled: Mapping[str, bool]
    sandbox: SandboxSummary
    models: ModelsSummary


def enabled_features(switches: Mapping[str, bool]) -> dict[str, bool]:
    """Return all features by name, and whether they are enabled."""
    offered = {name: switches.get(name, True) for name in OFFERED}
    return dict(sorted({**switches, **offered, **dict.fromkeys(PLANNED, False)}.items()))


def describe_features(
    enabled: Mapping[str, bool], report: SandboxReport, network: str, allow_host_bash: bool, cards: Sequence[ModelCard]
) -> ServerFeatures:
    """Return the features of the server."""
    return ServerFeatures(
        __version__,
        enabled,
        SandboxSummary(report.tier, report.runs_commands, network, allow_host_bash),
        ModelsSummary(
            count=len(cards),
            thinking=any(card.supports_thinking for card in cards),
            vision=any(card.supports_vision for card in cards),
            scripted_only=all(card.scripted for card in cards),
        ),
    )

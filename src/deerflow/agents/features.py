"""Feature switches of an agent."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from deerflow.agents.ordering import AnyMiddleware

Feature: TypeAlias = "bool | AnyMiddleware"
"""True: the built-in one. False: none. An instance: that one in its place."""


@dataclass(frozen=True, slots=True)
class RuntimeFeatures:
    """Switches of the built-in middlewares."""

    sandbox: Feature = True
    memory: Feature = False
    summarization: Feature = False
    subagent: Feature = False
    vision: Feature = False
    auto_title: Feature = False
    guardrail: Feature = False
    loop_detection: Feature = True
    token_usage: Feature = True
    todo: Feature = False
    tool_output: Feature = True
    read_before_write: Feature = True
    dynamic_context: Feature = True

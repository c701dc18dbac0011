"""What is wanted of agents, before any is built."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig

from deerflow.agents.anchors import AnyMiddleware
from deerflow.agents.features import RuntimeFeatures
from deerflow.domain.runs import AgentSpec
from deerflow.subagents.kinds import SubagentConfig

BOOTSTRAP_SKILL = "bootstrap"
"""The one skill of an agent that makes agents."""


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """What a program that embeds agents wants changed in all of them."""

    model: BaseChatModel | None = None
    features: RuntimeFeatures | None = None
    extra_middleware: Sequence[AnyMiddleware] = ()
    subagents: Sequence[SubagentConfig] = ()


def read_spec(config: RunnableConfig) -> AgentSpec:
    """The spec that LangGraph's `configurable` and `context` ask for; the latter wins."""
    context = cast(Mapping[str, Any], config.get("context") or {})
    asked = {**config.get("configurable", {}), **context}
    named = {**asked, "model_name": asked.get("model_name") or asked.get("model"), "owner": asked.get("user_id")}
    known = {each.name: named[each.name] for each in fields(AgentSpec) if named.get(each.name) is not None}
    return AgentSpec.of(known)

"""Agents: model, tools, prompt and middlewares made into a graph."""

from typing import TYPE_CHECKING

from deerflow.agents.anchors import Next, Prev
from deerflow.agents.entry import make_lead_agent
from deerflow.agents.features import RuntimeFeatures
from deerflow.config.imports import load_object

if TYPE_CHECKING:
    from deerflow.agents.factory import create_deerflow_agent

__all__ = ["Next", "Prev", "RuntimeFeatures", "create_deerflow_agent", "make_lead_agent"]


def __getattr__(name: str) -> object:
    """What is loaded when it is used: every middleware comes with it, and a server starts without them."""
    if name == "create_deerflow_agent":
        return load_object("deerflow.agents.factory:create_deerflow_agent")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

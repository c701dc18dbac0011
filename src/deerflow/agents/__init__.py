"""Agents: model, tools, prompt and middlewares compiled into a graph."""

from typing import TYPE_CHECKING

from deerflow.agents.entry import make_lead_agent
from deerflow.agents.features import RuntimeFeatures
from deerflow.agents.ordering import Next, Prev

if TYPE_CHECKING:
    from deerflow.agents.factory import create_deerflow_agent

__all__ = ["Next", "Prev", "RuntimeFeatures", "create_deerflow_agent", "make_lead_agent"]


def __getattr__(name: str) -> object:
    """Import `create_deerflow_agent` on first use: it loads every middleware, and a server starts without them."""
    if name == "create_deerflow_agent":
        from deerflow.agents.factory import create_deerflow_agent

        return create_deerflow_agent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

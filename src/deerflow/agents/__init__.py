"""Agents: model, tools, prompt and middlewares made into a graph."""

from deerflow.agents.anchors import Next, Prev
from deerflow.agents.entry import make_lead_agent
from deerflow.agents.factory import create_deerflow_agent
from deerflow.agents.features import RuntimeFeatures

__all__ = ["Next", "Prev", "RuntimeFeatures", "create_deerflow_agent", "make_lead_agent"]

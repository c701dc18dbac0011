"""The composition root. Nobody else decides which implementation of a part is used."""

from deerflow.harness.agents import build_bare_lead_agent
from deerflow.harness.harness import Harness, open_harness

__all__ = ["Harness", "build_bare_lead_agent", "open_harness"]

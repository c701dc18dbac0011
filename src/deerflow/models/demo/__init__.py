"""The built-in demo model: scripted, offline, and honest about it."""

from deerflow.models.demo.model import DemoChatModel
from deerflow.models.demo.scripts import Starter, starters

__all__ = ["DemoChatModel", "Starter", "starters"]

"""The built-in demo model: scripted and offline."""

from deerflow.models.demo.model import DemoChatModel
from deerflow.models.demo.scripts import StarterPrompt, list_starters

__all__ = ["DemoChatModel", "StarterPrompt", "list_starters"]

"""Chat model for endpoints that implement the OpenAI chat completions API."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deerflow.models.openai_compatible.client import OpenAICompatibleChatModel

__all__ = ["OpenAICompatibleChatModel"]


def __getattr__(name: str) -> object:
    """Import the model on first use: it loads the HTTP client, and other modules of this package do not need it."""
    if name == "OpenAICompatibleChatModel":
        from deerflow.models.openai_compatible.client import OpenAICompatibleChatModel

        return OpenAICompatibleChatModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Sandbox contract, re-exported for custom providers."""

from deerflow.domain.sandbox import (
    BackgroundOutput,
    BackgroundProcess,
    CommandResult,
    GrepMatch,
    GrepMatches,
    OutputListener,
    PathListing,
    Sandbox,
)

__all__ = [
    "BackgroundOutput",
    "BackgroundProcess",
    "CommandResult",
    "GrepMatch",
    "GrepMatches",
    "OutputListener",
    "PathListing",
    "Sandbox",
]

"""What a sandbox can do, under the names that providers of your own are written with."""

from deerflow.domain.sandbox import (
    BackgroundOutput,
    BackgroundProcess,
    CommandResult,
    Found,
    GrepMatch,
    Matches,
    OutputListener,
    Sandbox,
)

__all__ = [
    "BackgroundOutput",
    "BackgroundProcess",
    "CommandResult",
    "Found",
    "GrepMatch",
    "Matches",
    "OutputListener",
    "Sandbox",
]

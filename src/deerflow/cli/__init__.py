"""Command line interface."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer


def load_channels() -> "typer.Typer":
    """Load `deerflow channels`."""
    from deerflow.cli.channels import app

    return app


def load_policy() -> "typer.Typer":
    """Load `deerflow policy`."""
    from deerflow.cli.policy import app

    return app

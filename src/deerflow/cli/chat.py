"""`deerflow chat`: one message from the terminal."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, cast

import typer

from deerflow.cli.memory import carry_out, memory_order
from deerflow.config.imports import load_object
from deerflow.domain.errors import InvalidRequest


def chat(
    message: Annotated[str, typer.Argument(help="What to say; '-' reads it from standard input.")],
    thread: Annotated[str | None, typer.Option(help="Go on in this thread.")] = None,
    model: Annotated[str | None, typer.Option(help="The model that answers.")] = None,
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
    subagents: Annotated[bool, typer.Option("--subagents", help="Let the agent give work to others.")] = False,
) -> None:
    """Send a message and print the answer as it comes; `/memory` shows what is known about you instead."""
    text = sys.stdin.read() if message == "-" else message
    if not text.strip():
        raise InvalidRequest("there is nothing to send: the message is empty")
    if (order := memory_order(text)) is not None:
        carry_out(order, None, config)
        return
    # Loaded when it is used: the server is started by the same command and has no use for it.
    talk = cast(Callable[..., None], load_object("deerflow.cli.talk:talk"))
    talk(text, thread, model, config, subagents)

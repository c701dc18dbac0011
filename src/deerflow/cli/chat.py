"""`deerflow chat`: one message from the terminal."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from deerflow.cli.memory import carry_out, memory_order
from deerflow.cli.tasks import line_of
from deerflow.client import DeerFlowClient, text_of
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
    with DeerFlowClient(config_path=config, model_name=model, subagent_enabled=subagents) as client:
        for event in client.stream(text, thread_id=thread):
            if event.type == "messages-tuple" and event.data["type"] == "ai":
                typer.echo(text_of(event.data["content"]), nl=False)
            elif event.type == "custom" and (line := line_of(event.data)):
                typer.echo(line, err=True)  # the answer alone goes where a pipe would take it
    typer.echo()

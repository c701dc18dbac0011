"""Says something to an agent and prints what it answers."""

from pathlib import Path

import typer

from deerflow.cli.tasks import line_of
from deerflow.client import DeerFlowClient, text_of


def talk(text: str, thread: str | None, model: str | None, config: Path | None, subagents: bool) -> None:
    """Send a message and print the answer as it comes."""
    with DeerFlowClient(config_path=config, model_name=model, subagent_enabled=subagents) as client:
        for event in client.stream(text, thread_id=thread):
            if event.type == "messages-tuple" and event.data["type"] == "ai":
                typer.echo(text_of(event.data["content"]), nl=False)
            elif event.type == "custom" and (line := line_of(event.data)):
                typer.echo(line, err=True)  # the answer alone goes where a pipe would take it
    typer.echo()

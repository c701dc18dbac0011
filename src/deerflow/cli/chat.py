"""`deerflow chat`, `deerflow mcp` and `deerflow acp`: the agent on standard input and output."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import InvalidRequest
from deerflow.tracing.logs import start_logging

ConfigFile = Annotated[Path | None, typer.Option(help="Configuration file.")]


def chat(
    message: Annotated[str, typer.Argument(help="Message to send; '-' reads it from standard input.")],
    thread: Annotated[str | None, typer.Option(help="Continue this thread.")] = None,
    model: Annotated[str | None, typer.Option(help="Model to use.")] = None,
    config: ConfigFile = None,
    subagents: Annotated[bool, typer.Option("--subagents", help="Allow the agent to use subagents.")] = False,
) -> None:
    """Send a message and print the answer; `/memory` shows your memory instead."""
    from deerflow.cli.memory import parse_memory_command, run_action

    text = sys.stdin.read() if message == "-" else message
    if not text.strip():
        raise InvalidRequest("the message is empty")
    if (action := parse_memory_command(text)) is not None:
        run_action(action, None, config)
        return
    print_answer(text, thread, model, config, subagents)


def print_answer(text: str, thread: str | None, model: str | None, config: Path | None, subagents: bool) -> None:
    """Send a message and print the answer while it is generated."""
    from deerflow.cli.runs import format_task_event
    from deerflow.client import DeerFlowClient, extract_text

    with DeerFlowClient(config_path=config, model_name=model, subagent_enabled=subagents) as client:
        for event in client.stream(text, thread_id=thread):
            if event.type == "messages-tuple" and event.data["type"] == "ai":
                typer.echo(extract_text(event.data["content"]), nl=False)
            elif event.type == "custom" and (line := format_task_event(event.data)):
                typer.echo(line, err=True)  # standard output contains only the answer, for pipes
    typer.echo()


def mcp(config: ConfigFile = None) -> None:
    """Run an MCP server on standard input and output."""
    from deerflow.serving.mcp_server import serve_mcp

    run_until_terminated(serve_mcp(open_logged_source(config)))


def acp(
    config: ConfigFile = None,
    read_only: Annotated[bool, typer.Option(help="Give the agent read-only access to the project.")] = False,
) -> None:
    """Run an ACP agent on standard input and output, for editors."""
    from deerflow.serving.acp_agent import serve_acp

    open_logged_source(config)
    run_until_terminated(serve_acp(config, read_only))


def open_logged_source(config: Path | None) -> ConfigSource:
    """Open the configuration and log to standard error; standard output belongs to the protocol."""
    source = open_source(config)
    settings = source.current.config
    start_logging(settings.log_level, settings.logging.format, redact=source.redact)
    return source


def run_until_terminated(server: Coroutine[Any, Any, None]) -> None:
    """Run a server until its input ends or the process is interrupted."""
    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(cancel_on_sigterm(server))


async def cancel_on_sigterm(server: Coroutine[Any, Any, None]) -> None:
    """Await a server and cancel it on SIGTERM, so that active runs are stopped."""
    task = asyncio.ensure_future(server)
    if sys.platform != "win32":  # its event loops have no signal handlers
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await task

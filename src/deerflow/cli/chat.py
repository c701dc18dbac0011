"""`deerflow chat`, `deerflow mcp` and `deerflow acp`: the agent on standard input and output."""

import asyncio
import json
import signal
import sys
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import new_id
from deerflow.tracing.logs import start_logging

if TYPE_CHECKING:
    from deerflow.client.runs import StreamEvent

WAITS_FOR_USER, INTERRUPTED = 3, 130
"""Exit codes: the agent waits for an answer or an approval; the user has pressed Ctrl+C."""

ConfigFile = Annotated[Path | None, typer.Option(help="Configuration file.")]


def chat(
    message: Annotated[str, typer.Argument(help="Message to send; '-' reads it from standard input.")],
    thread: Annotated[str | None, typer.Option(help="Continue this thread.")] = None,
    model: Annotated[str | None, typer.Option(help="Model to use.")] = None,
    config: ConfigFile = None,
    subagents: Annotated[bool, typer.Option("--subagents", help="Allow the agent to use subagents.")] = False,
) -> None:
    """Send a message and print the answer; `/memory` shows your memory instead.

    Questions and approvals are asked on the terminal. Without one they are printed, and the exit code is 3.
    """
    from deerflow.cli.memory import parse_memory_command, run_action

    text = sys.stdin.read() if message == "-" else message
    if not text.strip():
        raise InvalidRequest("the message is empty")
    if (action := parse_memory_command(text)) is not None:
        run_action(action, None, config)
        return
    try:
        code = print_answer(text, thread, model, config, subagents)
    except KeyboardInterrupt:
        typer.echo(err=True)
        code = INTERRUPTED
    if code:
        raise typer.Exit(code)


def print_answer(text: str, thread: str | None, model: str | None, config: Path | None, subagents: bool) -> int:
    """Send a message, print the answer while it is generated, ask what the agent asks, and return the exit code."""
    from deerflow.client import DeerFlowClient

    thread = thread or new_id()
    with DeerFlowClient(config_path=config, model_name=model, subagent_enabled=subagents) as client:
        events = client.stream(text, thread_id=thread)
        while True:
            is_question = print_events(events)
            pending = client.approvals.list(thread)
            if not (pending or is_question):
                return 0
            if not sys.stdin.isatty():
                hint = "the agent waits for an approval" if pending else "the agent waits for an answer"
                typer.echo("".join(f"{line}\n" for line in format_calls(pending)), nl=False, err=True)
                typer.echo(f"{hint}: open thread {thread} in the page, or continue on a terminal", err=True)
                return WAITS_FOR_USER
            if pending:
                events = client.runs.stream_resume(thread, ask_decisions(pending))
            else:
                events = client.stream(typer.prompt("Answer", err=True), thread_id=thread)


def print_events(events: Iterable["StreamEvent"]) -> bool:
    """Print the answer, or the question, of a run and return whether it is a question."""
    from deerflow.cli.runs import format_task_event
    from deerflow.client import extract_text
    from deerflow.runtime.journal.serialization import CLARIFICATION_TOOL

    is_question = False
    for event in events:
        if event.type == "messages-tuple":
            asks = event.data["type"] == "tool" and event.data.get("name") == CLARIFICATION_TOOL
            is_question = is_question or asks
            if asks or event.data["type"] == "ai":
                typer.echo(extract_text(event.data["content"]), nl=False)
        elif event.type == "custom" and (line := format_task_event(event.data)):
            typer.echo(line, err=True)  # standard output contains only the answer, for pipes
    typer.echo()
    return is_question


def ask_decisions(pending: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Ask whether to allow each pending tool call, and return the answers by interrupt."""
    answers = {}
    for interrupt in pending:
        decisions = []
        for line in format_calls([interrupt]):
            typer.echo(line, err=True)
            is_allowed = typer.confirm("Allow this call?", err=True)
            decisions.append({"type": "approve"} if is_allowed else {"type": "reject"})
        answers[interrupt["id"]] = {"decisions": decisions}
    return answers


def format_calls(pending: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each tool call that waits for an approval."""
    from deerflow.client.runs import get_action_requests

    calls = [call for interrupt in pending for call in get_action_requests(interrupt)]
    return [f"approval needed: {call['name']} {json.dumps(call['args'], ensure_ascii=False)}" for call in calls]


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

"""`deerflow mcp` and `deerflow acp`: the agent for a program that speaks a protocol on standard input and output."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from deerflow.config.imports import load_object
from deerflow.config.source import ConfigSource, open_source
from deerflow.tracing.logs import start_logging

MCP, ACP = "deerflow.serving.mcp_stdio:serve_mcp", "deerflow.serving.acp_stdio:serve_acp"
Serve = Callable[..., Coroutine[Any, Any, None]]
ConfigFile = Annotated[Path | None, typer.Option(help="The configuration file.")]


def mcp(config: ConfigFile = None) -> None:
    """Be an MCP server on standard input and output, so that other programs can ask the agent."""
    source = logged(config)
    speak(MCP, source)


def acp(
    config: ConfigFile = None,
    read_only: Annotated[bool, typer.Option(help="Let the agent read the project, but change nothing in it.")] = False,
) -> None:
    """Be an ACP agent on standard input and output, so that editors can talk to the agent."""
    logged(config)
    speak(ACP, config, read_only)


def logged(config: Path | None) -> ConfigSource:
    """The configuration, with a log on standard error: what is printed belongs to the protocol."""
    source = open_source(config)
    settings = source.current.config
    start_logging(settings.log_level, settings.logging.format, hide=source.hide)
    return source


def speak(protocol: str, *given: object) -> None:
    """Speak until the other end is done; what that needs is imported only now."""
    serve = cast(Serve, load_object(protocol))
    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(until_told(serve(*given)))


async def until_told(serving: Coroutine[Any, Any, None]) -> None:
    """Serve until it is over, or somebody ends the program: what is under way is then stopped and not left behind."""
    task = asyncio.ensure_future(serving)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await task

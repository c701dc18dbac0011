"""`deerflow doctor`: what works here, and how to mend what does not."""

import asyncio
import platform
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from deerflow.agents.pool import is_scripted
from deerflow.config.load import Loaded
from deerflow.config.source import open_source
from deerflow.domain.errors import ConfigError, DeerFlowError
from deerflow.gateway.page import STATIC
from deerflow.harness.agents import create_sandboxes, find_fallback_models
from deerflow.mcp.advice import unheeded_in
from deerflow.models.factory import ModelCatalog
from deerflow.skills.lock import find_changed_skills

MODEL_LIMIT_S = 30.0
NEEDED_BYTES = 500_000_000
MAX_TOLD = 10
MARKS = {"ok": "[green]✓[/]", "note": "[yellow]![/]", "failed": "[red]✗[/]"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    subject: str
    state: Literal["ok", "note", "failed"]
    text: str
    remedy: str | None = None


def doctor(config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None) -> None:
    """Look at configuration, model, sandbox, disk, port and versions; exit code 1 when something has to be mended."""
    sys.exit(asyncio.run(report(config, Console(highlight=False, soft_wrap=True))))


async def report(config: Path | None, console: Console) -> int:
    """Print each finding as it comes; the exit code."""
    failed = False
    async for finding in examine(config):
        failed |= finding.state == "failed"
        console.print(f"{MARKS[finding.state]} {finding.subject}: ", end="")
        console.print(finding.text, markup=False)
        if finding.remedy:
            console.print(f"  → {finding.remedy}", markup=False)
    return int(failed)


async def examine(config: Path | None) -> AsyncIterator[Finding]:
    """Everything there is to look at."""
    yield look_at_versions()
    yield look_at_page()
    try:
        loaded = open_source(config).current
    except ConfigError as problem:
        yield Finding("configuration", "failed", str(problem), "mend the file, then run `deerflow config check`")
        return
    where = loaded.config_file or "no config.yaml: defaults (`deerflow config init` writes one)"
    yield Finding("configuration", "ok", str(where))
    yield await look_at_model(loaded)
    async for finding in look_at_sandbox(loaded):
        yield finding
    for finding in look_at_servers(loaded):
        yield finding
    yield await asyncio.to_thread(look_at_skills, loaded)
    yield look_at_disk(loaded.home)
    yield look_at_port(loaded.config.server.host, loaded.config.server.port)


def look_at_versions() -> Finding:
    """What runs."""
    parts = ", ".join(f"{name} {version(name)}" for name in ("deerflow", "langchain", "langgraph"))
    return Finding("versions", "ok", f"{parts}, Python {platform.python_version()} on {platform.system()}")


def look_at_page() -> Finding:
    """Whether the web page has been built."""
    if (STATIC / "index.html").is_file():
        return Finding("web page", "ok", "built")
    return Finding("web page", "failed", "not built", "run `make web`")


async def look_at_model(loaded: Loaded) -> Finding:
    """Whether the model that answers by default does answer."""
    catalog = ModelCatalog(loaded.config.models or await find_fallback_models(loaded))
    model = catalog.default
    if is_scripted(model):
        remedy = "set a key such as OPENAI_API_KEY, start Ollama, or run `deerflow config init`"
        return Finding("model", "note", "only the built-in demo model, which plays scripts", remedy)
    try:
        async with asyncio.timeout(MODEL_LIMIT_S):
            await catalog.create(model.name).ainvoke("Answer with the word ok.")
    except (DeerFlowError, TimeoutError) as problem:
        reason = str(problem) or f"no answer within {MODEL_LIMIT_S:g} s"
        return Finding("model", "failed", f"{model.name!r}: {reason}", "check its key, address and name in config.yaml")
    finally:
        await catalog.aclose()
    return Finding("model", "ok", f"{model.name!r} answers")


async def look_at_sandbox(loaded: Loaded) -> AsyncIterator[Finding]:
    """How far commands are isolated, each limit in force, and what is missing."""
    try:
        provider = create_sandboxes(loaded)
    except ConfigError as problem:
        yield Finding("sandbox", "failed", str(problem), "name a provider there, or leave the key out")
        return
    try:
        report = await provider.open()
        good = report.tier in ("isolated", "container")
        text = report.detail if report.problem is None else f"{report.detail} ({report.problem})"
        yield Finding("sandbox", "ok" if good else "note", f"{report.tier}: {text}", report.remedy)
        for limit in report.limits:
            by = f"by {limit.enforced_by}" if limit.enforced_by else "not enforced here"
            yield Finding(f"limit of {limit.name}", "ok" if limit.enforced_by else "note", f"{limit.value}, {by}")
        for part in await provider.parts():
            yield Finding(part.name, part.state, part.detail, part.remedy)
    finally:
        await provider.aclose()


def look_at_servers(loaded: Loaded) -> Iterator[Finding]:
    """What the entries of MCP servers ask for in vain."""
    for name, server in loaded.extensions.mcp_servers.items():
        for sentence in unheeded_in(server):
            yield Finding(f"MCP server {name!r}", "note", sentence, "take it out of extensions_config.json")


def look_at_skills(loaded: Loaded) -> Finding:
    """Whether the custom skills of everybody are as DeerFlow left them."""
    told = [
        f"{skill} of {owner}: {what}"
        for owner, skill, changes in find_changed_skills(loaded.home)
        for what in changes[:MAX_TOLD]
    ]
    if not told:
        return Finding("custom skills", "ok", "as DeerFlow left them")
    more = f"; and {len(told) - MAX_TOLD} more" if len(told) > MAX_TOLD else ""
    remedy = "they stay in use; look at the files, and delete or install the skill again if nobody you know did that"
    return Finding("custom skills", "note", "; ".join(told[:MAX_TOLD]) + more, remedy)


def look_at_disk(home: Path) -> Finding:
    """Whether state can be written, and for how long."""
    place = next(path for path in (home, *home.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    text = f"{free / 1e9:.1f} GB free for {home}"
    if free < NEEDED_BYTES:
        return Finding("disk", "failed", text, "make room, or point DEER_FLOW_HOME at another disk")
    return Finding("disk", "ok", text)


def look_at_port(host: str, port: int) -> Finding:
    """Whether the port is free, or a server of ours has it."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            remedy = f"if that is not DeerFlow itself, choose another: make start PORT={port + 1}"
            return Finding("port", "note", f"{host}:{port} cannot be had: {problem.strerror}", remedy)
    return Finding("port", "ok", f"{host}:{port} is free")

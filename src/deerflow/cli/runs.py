"""`deerflow runs` and `deerflow threads`: the log of runs as text, and exports of threads."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from deerflow.client import extract_text
from deerflow.client.agents import serialize_prefix_cache
from deerflow.config.load import load
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRecord
from deerflow.domain.usage import PrefixCacheUsage
from deerflow.harness.resources import list_thread_files
from deerflow.persistence.engine import open_database
from deerflow.persistence.queries.events import LoggedEvent
from deerflow.runtime.runs.job import Timeline
from deerflow.services.export import ExportFormat, ThreadExporter

runs = typer.Typer(help="Inspect runs.", no_args_is_help=True)
threads = typer.Typer(help="Export threads.", no_args_is_help=True)

ConfigOption = Annotated[Path | None, typer.Option("--config", help="Configuration file to use.")]
FAILURES = {"task_failed": "failed", "task_timed_out": "timed out", "task_cancelled": "cancelled"}
SUCCESSES = frozenset({"completed", "capped"})
IGNORED_EVENTS = frozenset({"tool_progress"})
"""Custom events whose content is logged again by another event."""
MAX_TASK_LINE = 160
MAX_TEXT = 200


@runs.command("list")
def list_runs(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of runs.")] = 20,
    config: ConfigOption = None,
) -> None:
    """List the latest runs."""
    asyncio.run(print_latest(limit, config))


@runs.command()
def show(
    run: Annotated[str, typer.Argument(help="Run id or its first characters.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the run as JSON.")] = False,
    config: ConfigOption = None,
) -> None:
    """Print the prefix cache hit rate of a run, and its events with their times."""
    asyncio.run(print_run(run, as_json, config))


@threads.callback()
def options() -> None:
    """Export threads."""


@threads.command()
def export(
    thread_id: Annotated[str, typer.Argument(help="Thread id.")],
    form: Annotated[ExportFormat, typer.Option("--format", help="Output format.")] = "markdown",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: standard output.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Export a thread as one file."""
    asyncio.run(write_export(thread_id, form, output, config))


async def print_latest(limit: int, config: Path | None) -> None:
    """Print one line per run."""
    async with open_timeline(config) as timeline:
        found = await timeline.latest(LOCAL_USER, limit)
    for run in found:
        typer.echo(f"{run.run_id}  {run.created_at.astimezone():%Y-%m-%d %H:%M:%S}  {run.status:11}  {run.thread_id}")
    if not found:
        typer.echo("no runs yet")


async def print_run(prefix: str, as_json: bool, config: Path | None) -> None:
    """Print a run as a timeline, or as JSON."""
    async with open_timeline(config) as timeline:
        run = await timeline.find(LOCAL_USER, prefix)
        cache = await timeline.prefix_cache(run)
        if as_json:
            events = [serialize_event(logged) async for logged in timeline.events(run)]
            found = {**asdict(run), "prefix_cache": serialize_prefix_cache(cache), "events": events}
            typer.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
            return
        async for line in format_run(run, cache, timeline.events(run)):
            typer.echo(line)


async def write_export(thread_id: str, form: ExportFormat, output: Path | None, config: Path | None) -> None:
    """Write a thread to a file or to standard output."""
    loaded = load(config)
    async with open_database(loaded.config.database.get_location(loaded.home), loaded.home) as database:
        exported = await ThreadExporter(database, partial(list_thread_files, loaded.home)).export(
            thread_id, LOCAL_USER, form
        )
        content = b"".join([chunk async for chunk in exported.content])
    if output is None:
        sys.stdout.buffer.write(content)
        return
    await asyncio.to_thread(output.write_bytes, content)
    typer.echo(f"{output}: {len(content)} bytes")


@asynccontextmanager
async def open_timeline(config: Path | None) -> AsyncIterator[Timeline]:
    """Open the database without a harness: runs that wait for a server are not started."""
    loaded = load(config)
    async with open_database(loaded.config.database.get_location(loaded.home), loaded.home) as database:
        yield Timeline(database)


def serialize_event(logged: LoggedEvent) -> dict[str, Any]:
    """Return a logged event in the shape of the HTTP API."""
    event = logged.event
    data = orjson.loads(event.data)
    return {"seq": event.seq, "event": event.event, "data": data, "created_at": logged.created_at}


async def format_run(run: RunRecord, cache: PrefixCacheUsage, events: AsyncIterator[LoggedEvent]) -> AsyncIterator[str]:
    """Yield the lines of a run."""
    attempts = f", {run.attempt} attempts" if run.attempt > 1 else ""
    yield f"run {run.run_id} in thread {run.thread_id}: {run.status.value}{attempts}"
    yield f"{run.created_at.astimezone():%Y-%m-%d %H:%M:%S %Z}, {run.assistant_id}"
    for line in format_prefix_cache(cache):
        yield line
    formatter = RunFormatter(run)
    async for logged in events:
        for line in formatter.format(logged):
            yield f"{elapsed(run.created_at, logged.created_at):>9} {line}"
    for line in formatter.format_unfinished():
        yield f"{'':9} {line}"


def format_prefix_cache(cache: PrefixCacheUsage) -> Iterator[str]:
    """Yield the lines on the prefix cache."""
    if not cache.requests:
        return
    covered, cached = cache.prefix_fraction, cache.cached_fraction
    reused = "no request before is known" if covered is None else f"{covered:.1%} of the input repeats earlier requests"
    reported = f"{cached:.1%} cached" if cached else "no cached tokens"
    yield f"prefix cache: {reused}; the provider reported {reported}"
    for each in cache.breaks:
        word = "changed" if each.broken.cause == "model" else each.broken.cause
        lost = f"{each.broken.lost_tokens} tokens not covered"
        yield f"  request {each.request} ({each.caller}): {each.broken} {word}, {lost}"


class RunFormatter:
    """Formats the logged events of a run; joins message chunks and matches tool results with their calls."""

    def __init__(self, run: RunRecord) -> None:
        self._run = run
        self._partial_texts: dict[str, str] = {}
        self._active_calls: dict[str, tuple[str, datetime]] = {}

    def format(self, logged: LoggedEvent) -> Iterator[str]:
        """Yield the lines of an event."""
        data = orjson.loads(logged.event.data)
        match logged.event.event:
            case "metadata":
                yield "started"
            case "messages":
                self._add_chunk(data[0])
            case "changes":
                yield from self._format_changes(data)
            case "tool_intent":
                self._active_calls[data["tool_call_id"]] = data["tool"], logged.created_at
                yield f"  {data['tool']} started"
            case "tool_outcome":
                tool, at = self._active_calls.pop(data["tool_call_id"], ("tool", logged.created_at))
                yield f"  {tool} finished after {elapsed(at, logged.created_at)}"
            case "steered":
                yield from (f"steering: {one_line(message)}" for message in data["messages"])
            case "custom":
                yield from format_custom(data)
            case "error":
                yield f"error: {data['name']}: {data['message']}"
            case "end":
                yield f"ended: {self._run.status.value}"

    def format_unfinished(self) -> Iterator[str]:
        """Yield a line for each incomplete message and active tool call."""
        yield from (f"ai (incomplete): {clip(text)}" for text in self._partial_texts.values() if text.strip())
        yield from (f"  {tool} is running" for tool, _ in self._active_calls.values())

    def _add_chunk(self, chunk: Mapping[str, Any]) -> None:
        if chunk["type"] == "AIMessageChunk":
            text = self._partial_texts.get(chunk["id"], "")
            self._partial_texts[chunk["id"]] = text + extract_text(chunk["content"])

    def _format_changes(self, data: Mapping[str, Any]) -> Iterator[str]:
        for message in data["messages"]:
            self._partial_texts.pop(message["id"], None)
            yield from format_message(message)
        for message_id in data["removed"]:
            text = self._partial_texts.pop(message_id, None)
            yield f"removed: {clip(text)}" if text else f"removed: message {message_id}"
        yield from (f"{name}: {clip(orjson.dumps(value).decode())}" for name, value in data["values"].items())


def format_message(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a message and its tool calls."""
    if message["type"] == "tool":
        yield f"  {message.get('name') or 'tool'} result: {one_line(message)}"
        return
    if one_line(message):
        yield f"{message['type']}: {one_line(message)}"
    for call in message.get("tool_calls") or ():
        yield f"  calls {call['name']} {clip(orjson.dumps(call['args']).decode())}"


def format_custom(data: object) -> Iterator[str]:
    """Yield the lines of a custom event."""
    fields = data if isinstance(data, Mapping) else {}
    kind = fields.get("type")
    if kind == "handed_over":
        yield "handed over: the server stopped; the next one resumes the run"
    elif kind == "workspace_changes":
        counts = [f"{count} {word}" for word, count in fields.items() if isinstance(count, int) and count]
        yield f"files: {', '.join(counts) or 'unknown'}"
    elif kind == "memory":
        if fields["considered"]:
            facts = f"{len(fields['injected'])} of {fields['considered']} facts"
            yield f"memory: injected {facts}, {fields['tokens']} tokens"
    elif "task_id" in fields:
        yield from filter(None, [format_task_event(fields)])
    elif kind not in IGNORED_EVENTS:
        yield f"custom: {clip(orjson.dumps(data).decode())}"


def format_task_event(event: Mapping[str, Any]) -> str | None:
    """Return one line for a custom event of a subagent task or batch; None for other events."""
    text = format_task(event) if "task_id" in event else None
    # Descriptions of a model and errors of an endpoint may contain line breaks.
    name = event.get("description") or event.get("task_id")
    return " ".join(f"[{name}] {text}".split())[:MAX_TASK_LINE] if text else None


def format_task(event: Mapping[str, Any]) -> str | None:
    """Return the state of a task or batch."""
    match event["type"]:
        case "task_queued":
            return "queued"
        case "task_started":
            return f"started ({event.get('subagent_type')})"
        case "task_running":
            calls = event["message"].get("tool_calls") or ()
            return f"calls {', '.join(call['name'] for call in calls)}" if calls else None
        case "task_completed":
            state = f"limit reached ({event['stop_reason']})" if event.get("stop_reason") else "completed"
            return f"{state} after {event['duration_s']:.1f} s, {event['usage']['total_tokens']} tokens"
        case "task_failed" | "task_timed_out" | "task_cancelled" as kind:
            return f"{FAILURES[kind]}: {event.get('error')}"
        case "batch_started" | "batch_progress" | "batch_completed":
            return format_progress(event)
        case "batch_cancelled":
            return f"cancelled, {format_progress(event)}"
    return None


def format_progress(event: Mapping[str, Any]) -> str:
    """Return the number of finished and failed items of a batch."""
    counts = event.get("outcomes") or {}
    failed = sum(count for outcome, count in counts.items() if outcome not in SUCCESSES)
    return f"{event['done']} of {event['total']} done" + (f", {failed} failed" if failed else "")


def one_line(message: Mapping[str, Any]) -> str:
    """Return the text of a message in one line."""
    return clip(extract_text(message["content"]))


def clip(text: str) -> str:
    """Return `text` in one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT else f"{line[:MAX_TEXT]} … ({len(line)} characters)"


def elapsed(start: datetime, now: datetime) -> str:
    """Return the time between two moments in seconds."""
    return f"{(now - start).total_seconds():.3f} s"

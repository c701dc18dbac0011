"""`deerflow memory`, and `/memory` in `deerflow chat`: inspect and edit your memory."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from deerflow.cli.runs import ConfigOption, clip
from deerflow.config.source import open_source
from deerflow.domain.errors import InvalidRequest, NotFound
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.memory import (
    Fact,
    FactProvenance,
    FactSource,
    MemoryChange,
    MemoryItem,
    MemoryScope,
    MemoryState,
    Summary,
)
from deerflow.harness.memory import create_memories
from deerflow.memory.document import to_document, to_utc
from deerflow.memory.service import MemoryService
from deerflow.persistence.engine import open_database

ACTORS = {"model": "extracted", "user": "by you", "agent": "by an agent", "import": "imported"}


def format_state(state: MemoryState) -> Iterator[str]:
    """Yield the lines of summaries, then of facts."""
    for key, kept in state.summaries.items():
        yield f"{key}: {clip(kept.summary)}"
    yield from format_facts(state.facts)
    if not state.facts and not state.summaries:
        yield "memory is empty"


def format_facts(facts: Sequence[Fact]) -> Iterator[str]:
    """Yield one line per fact."""
    for fact in facts:
        details = f"{fact.category}, confidence {fact.confidence:.0%}, {format_source(fact.source)}"
        yield f"{fact.id}  {fact.content}  ({details})"


def format_provenance(why: FactProvenance) -> Iterator[str]:
    """Yield the lines of a fact with its source, its changes and the facts it replaced."""
    yield from format_facts([why.fact])
    if why.fact.source is not None and why.fact.source.quote is not None:
        yield f"quote: {why.fact.source.quote}"
    if why.fact.source_error is not None:
        yield f"corrects: {why.fact.source_error}"
    yield from (f"replaced: {fact.content}" for fact in why.superseded)
    yield from format_changes(why.changes)


def format_changes(changes: Sequence[MemoryChange]) -> Iterator[str]:
    """Yield the lines of changes: id, time, kind, author and content."""
    for change in changes:
        kind, who = change.kind.replace("_", " "), ACTORS[change.actor]
        yield f"{change.change_id}  {change.at.astimezone():%Y-%m-%d %H:%M:%S}  {kind}, {who}"
        yield from (
            f"  {sign} {clip(text)}"
            for sign, text in (("-", get_text(change.before)), ("+", get_text(change.after)))
            if text
        )


def format_source(source: FactSource | None) -> str:
    """Return the source of a fact."""
    if source is None:
        return "added manually"
    return f"from thread {source.thread_id}" if source.thread_id is not None else "from a deleted thread"


def get_text(known: MemoryItem | None) -> str:
    """Return the text of a fact or a summary."""
    if known is None:
        return ""
    return known.summary if isinstance(known, Summary) else known.content


app = typer.Typer(help="Inspect, edit and erase your memory.", no_args_is_help=True)

AgentOption = Annotated[str | None, typer.Option("--agent", help="Memory of this custom agent.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Lines = Iterable[str]
MemoryAction = Callable[[MemoryService, MemoryScope], Awaitable[Lines]]
MAX_HITS = 20


@app.command("list")
def list_memory(
    as_of: Annotated[datetime | None, typer.Option(help="Show the memory at this time.")] = None,
    agent: AgentOption = None,
    config: ConfigOption = None,
) -> None:
    """Print summaries and facts."""

    async def look(memories: MemoryService, scope: MemoryScope) -> Lines:
        return format_state(await memories.read(scope, to_utc(as_of) if as_of else None))

    run_action(look, agent, config)


@app.command()
def search(
    words: Annotated[str, typer.Argument(help="Words to search for.")],
    agent: AgentOption = None,
    config: ConfigOption = None,
) -> None:
    """Print the facts that contain any of the words, best match first."""
    run_action(search_action(words), agent, config)


@app.command()
def why(
    fact_id: Annotated[str, typer.Argument(help="Fact id.")], agent: AgentOption = None, config: ConfigOption = None
) -> None:
    """Print the source and the changes of a fact."""

    async def explain(memories: MemoryService, scope: MemoryScope) -> Lines:
        return format_provenance(await memories.explain(scope, fact_id))

    run_action(explain, agent, config)


@app.command()
def history(
    limit: Annotated[int, typer.Option(min=1, max=200, help="Maximum number of changes.")] = 20,
    agent: AgentOption = None,
    config: ConfigOption = None,
) -> None:
    """Print the changes, newest first."""

    async def look(memories: MemoryService, scope: MemoryScope) -> Lines:
        return format_changes(await memories.read_history(scope, limit))

    run_action(look, agent, config)


@app.command()
def undo(
    change: Annotated[str | None, typer.Argument(help="Change id; default: the latest change.")] = None,
    agent: AgentOption = None,
    config: ConfigOption = None,
) -> None:
    """Undo a change."""
    run_action(undo_action(change), agent, config)


@app.command()
def erase(
    fact_id: Annotated[str | None, typer.Argument(help="Fact id.")] = None,
    thread: Annotated[str | None, typer.Option(help="Erase all memory extracted from this thread.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Erase the whole memory.")] = False,
    yes: YesOption = False,
    agent: AgentOption = None,
    config: ConfigOption = None,
) -> None:
    """Permanently erase a fact, the memory of a thread, or the whole memory."""
    if [fact_id is not None, thread is not None, everything].count(True) != 1:
        raise InvalidRequest("give exactly one of: a fact id, --thread, --all")
    if not yes:
        typer.confirm("This cannot be undone. Erase?", abort=True)

    async def wipe(memories: MemoryService, scope: MemoryScope) -> Lines:
        if fact_id is not None:
            await memories.delete_fact(scope, fact_id)
        elif thread is not None:
            await memories.erase_thread(scope, thread)
        else:
            await memories.clear(scope)
        return ["erased permanently"]

    run_action(wipe, agent, config)


@app.command()
def export(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: standard output.")
    ] = None,
    agent: AgentOption = None,
    config: ConfigOption = None,
) -> None:
    """Export the memory as a memory.json."""

    async def write(memories: MemoryService, scope: MemoryScope) -> Lines:
        content = orjson.dumps(to_document(await memories.read(scope)), option=orjson.OPT_INDENT_2)
        if output is None:
            return [content.decode()]
        await asyncio.to_thread(output.write_bytes, content)
        return [f"{output}: {len(content)} bytes"]

    run_action(write, agent, config)


@app.command("import")
def import_memory(
    file: Annotated[Path, typer.Argument(help="memory.json to import; '-' reads standard input.")],
    agent: AgentOption = None,
    config: ConfigOption = None,
) -> None:
    """Replace the memory by a memory.json; this can be undone."""
    document = read_json(file)

    async def take(memories: MemoryService, scope: MemoryScope) -> Lines:
        changes = await memories.import_document(scope, document)
        return [f"{len(changes)} changes; undo them with `deerflow memory undo`"]

    run_action(take, agent, config)


@app.command()
def on(agent: AgentOption = None, config: ConfigOption = None) -> None:
    """Enable memory."""
    run_action(switch_action(is_on=True), agent, config)


@app.command()
def off(agent: AgentOption = None, config: ConfigOption = None) -> None:
    """Disable memory extraction and injection; stored memory is kept."""
    run_action(switch_action(is_on=False), agent, config)


def parse_memory_command(text: str) -> MemoryAction | None:
    """Return the action of a `/memory …` message, or None for any other message."""
    command, _, rest = text.strip().partition(" ")
    if command != "/memory":
        return None
    verb, _, what = rest.strip().partition(" ")
    if verb == "undo":
        return undo_action(what.strip() or None)
    if verb == "forget":
        return delete_action(what.strip())
    return search_action(rest.strip()) if verb else show_all


async def show_all(memories: MemoryService, scope: MemoryScope) -> Lines:
    """Return the lines of the whole memory."""
    return format_state(await memories.read(scope))


def search_action(words: str) -> MemoryAction:
    """Return an action that searches facts."""

    async def look(memories: MemoryService, scope: MemoryScope) -> Lines:
        hits = await memories.search(scope, words, MAX_HITS)
        return format_facts([hit.fact for hit in hits]) if hits else ["no facts found"]

    return look


def undo_action(which: str | None) -> MemoryAction:
    """Return an action that undoes a change, by default the latest."""

    async def take_back(memories: MemoryService, scope: MemoryScope) -> Lines:
        newest = await memories.read_history(scope, 1)
        if which is None and not newest:
            raise NotFound("no changes to undo")
        return format_changes(await memories.undo(scope, which or newest[0].group))

    return take_back


def delete_action(fact_id: str) -> MemoryAction:
    """Return an action that deletes a fact; it can be undone."""
    if not fact_id:
        raise InvalidRequest("no fact id given; use `/memory forget fact_…`")

    async def take(memories: MemoryService, scope: MemoryScope) -> Lines:
        await memories.delete_fact(scope, fact_id, keep_history=True)
        return ["deleted; `/memory undo` restores it, `deerflow memory erase` erases it permanently"]

    return take


def switch_action(*, is_on: bool) -> MemoryAction:
    """Return an action that enables or disables memory."""

    async def switch(memories: MemoryService, scope: MemoryScope) -> Lines:
        await memories.set_enabled(scope, is_on=is_on)
        return ["memory enabled" if is_on else "memory disabled: no extraction and no injection"]

    return switch


def run_action(action: MemoryAction, agent: str | None, config: Path | None) -> None:
    """Run an action on the memory and print its lines."""

    async def act() -> None:
        async with open_memories(config) as memories:
            for line in await action(memories, MemoryScope(LOCAL_USER.user_id, agent)):
                typer.echo(line)

    asyncio.run(act())


@asynccontextmanager
async def open_memories(config: Path | None) -> AsyncIterator[MemoryService]:
    """Open the memories of the configured database."""
    source = open_source(config)
    async with open_database(
        source.current.config.database.get_location(source.current.home), source.current.home
    ) as database:
        yield create_memories(database, source)


def read_json(file: Path) -> dict[str, Any]:
    """Read a memory document from a file.

    Raises:
        InvalidRequest: the file cannot be read or is not a memory document.
    """
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        document = orjson.loads(content)
    except OSError as problem:
        raise InvalidRequest(f"cannot read {str(file)!r}: {problem.strerror}") from problem
    except orjson.JSONDecodeError as problem:
        raise InvalidRequest(f"{str(file)!r} is not JSON: {problem}") from problem
    if not isinstance(document, dict):
        raise InvalidRequest(f"{str(file)!r} is not a memory document")
    return document

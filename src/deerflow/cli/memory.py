"""`deerflow memory`: what agents know about you; also `/memory`, said in a chat."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from deerflow.cli.memory_words import tell_changes, tell_facts, tell_state, tell_why
from deerflow.cli.runs import ConfigOption
from deerflow.config.source import open_source
from deerflow.domain.errors import InvalidRequest, NotFound
from deerflow.domain.memory import MemoryScope
from deerflow.domain.principal import LOCAL_USER
from deerflow.harness.memory import make_memories
from deerflow.memory.document import in_utc, to_document
from deerflow.memory.memories import Memories
from deerflow.persistence.database import open_database

app = typer.Typer(help="Look at what agents know about you, correct and erase it.", no_args_is_help=True)

AgentOption = Annotated[str | None, typer.Option("--agent", help="The custom agent whose memory is meant.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Lines = Iterable[str]
Doing = Callable[[Memories, MemoryScope], Awaitable[Lines]]
FOUND = 20


@app.command("list")
def list_memory(
    as_of: Annotated[datetime | None, typer.Option(help="What was known at that moment instead.")] = None,
    agent: AgentOption = None,
    config: ConfigOption = None,
) -> None:
    """Print what is known."""

    async def look(memories: Memories, scope: MemoryScope) -> Lines:
        return tell_state(await memories.read(scope, in_utc(as_of) if as_of else None))

    carry_out(look, agent, config)


@app.command()
def search(
    words: Annotated[str, typer.Argument(help="What to look for.")],
    agent: AgentOption = None,
    config: ConfigOption = None,
) -> None:
    """Print the facts with any of the words, the best first."""
    carry_out(searching(words), agent, config)


@app.command()
def why(
    fact_id: Annotated[str, typer.Argument(help="A fact.")], agent: AgentOption = None, config: ConfigOption = None
) -> None:
    """Print where a fact comes from, and what happened to it."""

    async def explain(memories: Memories, scope: MemoryScope) -> Lines:
        return tell_why(await memories.why(scope, fact_id))

    carry_out(explain, agent, config)


@app.command()
def history(
    limit: Annotated[int, typer.Option(min=1, max=200, help="So many changes at most.")] = 20,
    agent: AgentOption = None,
    config: ConfigOption = None,
) -> None:
    """Print what happened, newest first."""

    async def look(memories: Memories, scope: MemoryScope) -> Lines:
        return tell_changes(await memories.history(scope, limit))

    carry_out(look, agent, config)


@app.command()
def undo(
    change: Annotated[str | None, typer.Argument(help="The change; else what was done last.")] = None,
    agent: AgentOption = None,
    config: ConfigOption = None,
) -> None:
    """Undo a change."""
    carry_out(undoing(change), agent, config)


@app.command()
def erase(
    fact_id: Annotated[str | None, typer.Argument(help="A fact.")] = None,
    thread: Annotated[str | None, typer.Option(help="All that was learned in this thread.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that is known.")] = False,
    yes: YesOption = False,
    agent: AgentOption = None,
    config: ConfigOption = None,
) -> None:
    """Erase a fact, what was learned in a thread, or everything, for good."""
    if [fact_id is not None, thread is not None, everything].count(True) != 1:
        raise InvalidRequest("say one of: a fact, --thread, --all")
    if not yes:
        typer.confirm("This cannot be undone. Erase it?", abort=True)

    async def wipe(memories: Memories, scope: MemoryScope) -> Lines:
        if fact_id is not None:
            await memories.delete_fact(scope, fact_id)
        elif thread is not None:
            await memories.erase_thread(scope, thread)
        else:
            await memories.clear(scope)
        return ["erased for good"]

    carry_out(wipe, agent, config)


@app.command()
def export(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; else it is printed.")
    ] = None,
    agent: AgentOption = None,
    config: ConfigOption = None,
) -> None:
    """Write what is known as a memory.json."""

    async def write(memories: Memories, scope: MemoryScope) -> Lines:
        content = orjson.dumps(to_document(await memories.read(scope)), option=orjson.OPT_INDENT_2)
        if output is None:
            return [content.decode()]
        await asyncio.to_thread(output.write_bytes, content)
        return [f"{output}: {len(content)} bytes"]

    carry_out(write, agent, config)


@app.command("import")
def import_memory(
    file: Annotated[Path, typer.Argument(help="A memory.json; '-' reads it from standard input.")],
    agent: AgentOption = None,
    config: ConfigOption = None,
) -> None:
    """Have what is known be what a file says; that can be undone."""
    document = read_json(file)

    async def take(memories: Memories, scope: MemoryScope) -> Lines:
        changes = await memories.put_in(scope, document)
        return [f"{len(changes)} changes; `deerflow memory undo` takes them back"]

    carry_out(take, agent, config)


@app.command()
def on(agent: AgentOption = None, config: ConfigOption = None) -> None:
    """Have agents remember you."""
    carry_out(switching(is_on=True), agent, config)


@app.command()
def off(agent: AgentOption = None, config: ConfigOption = None) -> None:
    """Have nothing be learned and nothing be told; what is known stays."""
    carry_out(switching(is_on=False), agent, config)


def memory_order(text: str) -> Doing | None:
    """What `/memory …`, said in a chat, asks for; None where a text is something else."""
    command, _, rest = text.strip().partition(" ")
    if command != "/memory":
        return None
    verb, _, what = rest.strip().partition(" ")
    if verb == "undo":
        return undoing(what.strip() or None)
    if verb == "forget":
        return forgetting(what.strip())
    return searching(rest.strip()) if verb else showing


async def showing(memories: Memories, scope: MemoryScope) -> Lines:
    """What is known."""
    return tell_state(await memories.read(scope))


def searching(words: str) -> Doing:
    """Facts with any of the words."""

    async def look(memories: Memories, scope: MemoryScope) -> Lines:
        hits = await memories.search(scope, words, FOUND)
        return tell_facts([hit.fact for hit in hits]) if hits else ["no fact has these words"]

    return look


def undoing(which: str | None) -> Doing:
    """Undo a change, or what was done last."""

    async def take_back(memories: Memories, scope: MemoryScope) -> Lines:
        newest = await memories.history(scope, 1)
        if which is None and not newest:
            raise NotFound("there is nothing to undo")
        return tell_changes(await memories.undo(scope, which or newest[0].group))

    return take_back


def forgetting(fact_id: str) -> Doing:
    """Take a fact away, so that it can be brought back."""
    if not fact_id:
        raise InvalidRequest("say which fact to forget, as in `/memory forget fact_…`")

    async def take(memories: Memories, scope: MemoryScope) -> Lines:
        await memories.delete_fact(scope, fact_id, keep_history=True)
        return ["forgotten; `/memory undo` brings it back, `deerflow memory erase` leaves no trace of it"]

    return take


def switching(*, is_on: bool) -> Doing:
    """Switch a memory."""

    async def switch(memories: Memories, scope: MemoryScope) -> Lines:
        await memories.switch(scope, is_on=is_on)
        return ["memory is on" if is_on else "memory is off: nothing is learned and nothing is told"]

    return switch


def carry_out(doing: Doing, agent: str | None, config: Path | None) -> None:
    """Do something with a memory and print what is to be said of it."""

    async def act() -> None:
        async with opened(config) as memories:
            for line in await doing(memories, MemoryScope(LOCAL_USER.user_id, agent)):
                typer.echo(line)

    asyncio.run(act())


@asynccontextmanager
async def opened(config: Path | None) -> AsyncIterator[Memories]:
    """The memories of this machine's database."""
    source = open_source(config)
    async with open_database(source.current.config.database.place(source.current.home)) as database:
        yield make_memories(database, source)


def read_json(file: Path) -> dict[str, Any]:
    """The document in a file, or `InvalidRequest`."""
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        document = orjson.loads(content)
    except OSError as problem:
        raise InvalidRequest(f"{str(file)!r} cannot be read: {problem.strerror}") from problem
    except orjson.JSONDecodeError as problem:
        raise InvalidRequest(f"{str(file)!r} is not JSON: {problem}") from problem
    if not isinstance(document, dict):
        raise InvalidRequest(f"{str(file)!r} is not the document of a memory")
    return document

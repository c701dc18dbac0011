"""What is known about somebody, in lines for a terminal."""

from collections.abc import Iterator, Sequence

from deerflow.cli.timeline import clip
from deerflow.domain.memory import Change, Fact, Known, MemoryState, Source, Summary, Why

ACTORS = {"model": "learned", "user": "by you", "agent": "by an agent", "import": "from a file"}


def tell_state(state: MemoryState) -> Iterator[str]:
    """Summaries, then facts."""
    for key, kept in state.summaries.items():
        yield f"{key}: {clip(kept.summary)}"
    yield from tell_facts(state.facts)
    if not state.facts and not state.summaries:
        yield "nothing is known yet"


def tell_facts(facts: Sequence[Fact]) -> Iterator[str]:
    """A line for each fact."""
    for fact in facts:
        yield f"{fact.id}  {fact.content}  ({fact.category}, {fact.confidence:.0%} sure, {origin(fact.source)})"


def tell_why(why: Why) -> Iterator[str]:
    """Where a fact comes from."""
    yield from tell_facts([why.fact])
    if why.fact.source is not None and why.fact.source.quote is not None:
        yield f"the words: {why.fact.source.quote}"
    if why.fact.source_error is not None:
        yield f"corrects: {why.fact.source_error}"
    yield from (f"took the place of: {fact.content}" for fact in why.superseded)
    yield from tell_changes(why.changes)


def tell_changes(changes: Sequence[Change]) -> Iterator[str]:
    """What was changed, by whom, and by which name it can be undone."""
    for change in changes:
        kind, who = change.kind.replace("_", " "), ACTORS[change.actor]
        yield f"{change.change_id}  {change.at.astimezone():%Y-%m-%d %H:%M:%S}  {kind}, {who}"
        yield from (
            f"  {sign} {clip(text)}" for sign, text in (("-", said(change.before)), ("+", said(change.after))) if text
        )


def origin(source: Source | None) -> str:
    """Where a fact was learned."""
    if source is None:
        return "written by hand"
    return f"from thread {source.thread_id}" if source.thread_id is not None else "from a deleted thread"


def said(known: Known | None) -> str:
    """The text of a fact or a summary."""
    if known is None:
        return ""
    return known.summary if isinstance(known, Summary) else known.content

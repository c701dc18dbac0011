"""Whatever happens to a memory: undoing brings back what was, any moment can be seen again, erasing leaves nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from deerflow.domain.memory import (
    SUMMARY_KEYS,
    Fact,
    FactSource,
    MemoryEdit,
    MemoryScope,
    MemoryState,
    Summary,
    remove_fact,
    set_summary,
    supersede_fact,
    upsert_fact,
)
from deerflow.memory.ledger import Ledger, clean_text
from deerflow.persistence.engine.database import DatabaseLocation
from tests.canary import files_with, tables_with
from tests.memory.support import make_fact

TEXTS = some.text(max_size=30).map(lambda text: f"a{text}z")
THREADS = some.sampled_from([None, "t1", "t2"])
KNOWING = some.tuples(some.just("know"), some.integers(0, 4), TEXTS, THREADS)
FORGETTING = some.tuples(some.just("forget"), some.integers(0, 4), some.just(""), THREADS)
SUPERSEDING = some.tuples(some.just("supersede"), some.integers(0, 4), TEXTS, THREADS)
SUMMARISING = some.tuples(some.just("summary"), some.integers(0, 5), some.just("") | TEXTS, THREADS)
Step = tuple[str, int, str, str | None]
UPDATES = some.lists(
    some.lists(KNOWING | FORGETTING | SUPERSEDING | SUMMARISING, min_size=1, max_size=4), min_size=1, max_size=6
)
few = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass(frozen=True)
class Observation:
    """State after an update."""

    at: datetime
    facts: Sequence[Fact]
    summaries: Mapping[str, Summary]


@few
@given(updates=UPDATES)
async def test_undo_restores_the_state_and_can_be_undone(ledger: Ledger, updates: list[list[Step]]) -> None:
    scope, places = MemoryScope(uuid4().hex), make_slots()
    befores: list[Observation] = []
    groups: list[str] = []
    for update in updates:
        before = await observe(ledger, scope)
        changes = await ledger.apply(scope, build_edits(update, places, await ledger.read_state(scope)), "model")
        if changes:
            after = await observe(ledger, scope)
            undone = await ledger.undo(scope, changes[0].group)
            assert_same(await observe(ledger, scope), before)
            await ledger.undo(scope, undone[0].group)
            assert_same(await observe(ledger, scope), after)
            befores.append(before)
            groups.append((await ledger.read_history(scope, 1))[0].group)
    for before, group in zip(reversed(befores), reversed(groups), strict=True):
        await ledger.undo(scope, group)
        assert_same(await observe(ledger, scope), before)
    assert (await ledger.read_state(scope)).facts == ()


@few
@given(updates=UPDATES, undo=some.booleans())
async def test_reads_the_state_at_any_time(ledger: Ledger, updates: list[list[Step]], undo: bool) -> None:
    scope, places = MemoryScope(uuid4().hex, "agent"), make_slots()
    moments: list[Observation] = []
    for update in updates:
        changes = await ledger.apply(scope, build_edits(update, places, await ledger.read_state(scope)), "model")
        moments.append(await observe(ledger, scope))
        if undo and changes:
            await ledger.undo(scope, changes[0].group)
            moments.append(await observe(ledger, scope))
    for moment in moments:
        then = await ledger.read_state(scope, moment.at)
        assert_same(Observation(moment.at, then.facts, then.summaries), moment)
    assert await ledger.read_state(scope, datetime(2020, 1, 1, tzinfo=UTC)) == MemoryState()


@settings(few, max_examples=6)
@given(updates=UPDATES, whole=some.sampled_from(["fact", "thread", "all"]))
async def test_erasing_leaves_no_byte_and_keeps_the_rest(
    ledger: Ledger, place: DatabaseLocation, updates: list[list[Step]], whole: str
) -> None:
    scope, places = MemoryScope(uuid4().hex), make_slots()
    word = f"canary{uuid4().hex}"
    canary = make_fact(f"Knows {word}", thread=f"thread-{word}")
    for number, update in enumerate(updates):
        state = await ledger.read_state(scope)
        edits = [upsert_fact(replace(canary, content=f"{canary.content} {number}"))]
        if whole != "fact":
            edits.append(set_summary("user.topOfMind", f"About {word} {number}", canary.created_at, canary.source))
        others = [edit for edit in build_edits(update, places, state) if edit.target != "user.topOfMind"]
        await ledger.apply(scope, [*edits, *others], "model")
    before = await ledger.read_state(scope)
    if whole == "fact":
        assert await ledger.erase_fact(scope, canary.id)
    elif whole == "thread":
        assert await ledger.erase_thread(scope, f"thread-{word}")
    else:
        assert await ledger.erase_all(scope)
    left = files_with(word, place.parent) if isinstance(place, Path) else tables_with(word, place)
    assert left == []
    kept = [] if whole == "all" else [each for each in before.facts if each.id != canary.id]
    assert list((await ledger.read_state(scope)).facts) == kept


def make_slots() -> list[Fact]:
    """Return facts that are added and removed by steps."""
    return [make_fact(f"Fact {number}") for number in range(5)]


def build_edits(update: Sequence[Step], places: list[Fact], state: MemoryState) -> list[MemoryEdit]:
    """Return the possible steps as edits; the state is tracked from one to the next."""
    known = {each.id: each for each in state.facts}
    made: list[MemoryEdit] = []
    for kind, number, text, thread in update:
        source = FactSource(thread, "m", text) if thread else None
        if kind == "summary":
            made.append(set_summary(SUMMARY_KEYS[number], clean_text(text), datetime.now(UTC), source))
            continue
        place = places[number]
        if kind == "know":
            known[place.id] = replace(place, content=clean_text(text), source=source)
            made.append(upsert_fact(known[place.id]))
        elif place.id in known and kind == "forget":
            del known[place.id]
            made.append(remove_fact(place.id))
        elif place.id in known:
            new = make_fact(clean_text(text), source=source)
            made += supersede_fact(known.pop(place.id), new, datetime.now(UTC))
            known[new.id] = new
            places[number] = new
    return made


async def observe(ledger: Ledger, scope: MemoryScope) -> Observation:
    state = await ledger.read_state(scope)
    leading = await ledger.read_top_facts(scope, 50)
    assert {each.id: each for each in leading} == {each.id: each for each in state.facts}
    return Observation(state.last_updated or datetime(2020, 1, 1, tzinfo=UTC), state.facts, state.summaries)


def assert_same(found: Observation, expected: Observation) -> None:
    assert (found.facts, found.summaries) == (expected.facts, expected.summaries)

"""Erasure from the state, the history, the index and the database files."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select, text

from deerflow.domain.errors import NotFound
from deerflow.domain.memory import FactSource, MemoryScope, remove_fact, set_summary, supersede_fact, upsert_fact
from deerflow.memory.ledger import Ledger
from deerflow.persistence.engine.database import DatabaseLocation
from deerflow.persistence.queries.threads import insert_thread
from deerflow.persistence.tables import deletions, memory_pending, memory_watermarks
from tests.canary import files_with, tables_with
from tests.memory.support import SCOPE, list_contents, make_fact

CANARY = "kingfisher"


def find_traces(place: DatabaseLocation, word: str = CANARY) -> list[str]:
    """Return the files or tables that contain a word."""
    return files_with(word, place.parent) if isinstance(place, Path) else tables_with(word, place)


async def test_erasing_a_fact_leaves_no_byte_of_it_and_its_references(ledger: Ledger, place: DatabaseLocation) -> None:
    old = make_fact(f"Breeds {CANARY}s", thread="t1")
    new = make_fact("Breeds herons", "correction", thread="t2", source_error=f"I said {CANARY}s")
    await ledger.apply(SCOPE, [upsert_fact(make_fact(f"Other thing {number}")) for number in range(200)], "import")
    await ledger.apply(SCOPE, [upsert_fact(old)], "model")
    change = await ledger.apply(SCOPE, [upsert_fact(replace(old, content=f"Breeds many {CANARY}s"))], "user")
    await ledger.undo(SCOPE, change[0].change_id)
    await ledger.apply(SCOPE, supersede_fact(old, new, datetime.now(UTC)), "model")
    assert find_traces(place), "the test looks in the right place"

    assert await ledger.erase_fact(SCOPE, old.id)
    assert find_traces(place) == [] and find_traces(place, old.id) == []
    why = await ledger.explain(SCOPE, new.id)
    assert (why.fact.supersedes, why.fact.source_error, why.superseded) == (None, None, [])
    assert len((await ledger.read_state(SCOPE)).facts) == 201
    with pytest.raises(NotFound):
        await ledger.erase_fact(SCOPE, old.id)
    with pytest.raises(NotFound):
        await ledger.undo(SCOPE, change[0].change_id)


async def test_erasing_a_thread_restores_the_earlier_state(ledger: Ledger, place: DatabaseLocation) -> None:
    now, here = datetime.now(UTC), FactSource("t1", "m1", f"{CANARY} said")
    tea = make_fact("Likes tea", thread="t0")
    await ledger.apply(SCOPE, [upsert_fact(tea), set_summary("user.topOfMind", "Tea", now)], "model")
    learned = [
        upsert_fact(replace(tea, content=f"Likes tea from {CANARY}", source=here)),
        upsert_fact(make_fact(f"Knows a {CANARY}", source=here)),
        set_summary("user.topOfMind", f"The {CANARY}", now, here),
    ]
    await ledger.apply(SCOPE, learned, "model")
    # What is written later is written from what was there.
    await ledger.apply(SCOPE, [upsert_fact(replace(tea, content=f"Likes all tea, {CANARY}'s too"))], "user")
    await ledger.apply(SCOPE, [set_summary("user.topOfMind", f"{CANARY}s and more", now, FactSource("t2"))], "model")

    assert await ledger.erase_thread(SCOPE, "t1")
    state = await ledger.read_state(SCOPE)
    assert list(state.facts) == [tea] and state.summaries["user.topOfMind"].summary == "Tea"
    assert [hit.fact for hit in await ledger.search(SCOPE, "tea")] == [tea]
    assert find_traces(place) == []


async def test_erasing_everything_skips_pending_messages(ledger: Ledger, place: DatabaseLocation) -> None:
    now = datetime.now(UTC)
    waiting = {
        **{"owner": "me", "agent": "", "thread_id": "t1", "last_message_id": "m9", "data": {"text": CANARY}},
        **{"is_correction": False, "is_reinforcement": False, "due_at": now, "attempts": 0},
    }
    await ledger.database.write(lambda connection: insert_thread(connection, "t1", "me", {}))
    await ledger.database.write(lambda connection: connection.execute(insert(memory_pending), waiting).rowcount)
    await ledger.apply(
        SCOPE, [upsert_fact(make_fact(f"Knows a {CANARY}")), upsert_fact(make_fact("Likes tea"))], "model"
    )
    await ledger.apply(SCOPE, [remove_fact((await ledger.read_state(SCOPE)).facts[0].id)], "user")
    await ledger.set_off(SCOPE, is_off=True)
    assert await ledger.erase_all(SCOPE)
    assert find_traces(place) == [] and list_contents(await ledger.read_state(SCOPE)) == []
    seen = await ledger.database.read(select_all(select(memory_watermarks.c.thread_id, memory_watermarks.c.message_id)))
    assert seen == [("t1", "m9")]
    assert await ledger.is_off(SCOPE), "that somebody does not want to be remembered is not forgotten"


@pytest.mark.parametrize("with_facts", [False, True])
async def test_a_deleted_thread_leaves_no_quotes(ledger: Ledger, place: DatabaseLocation, with_facts: bool) -> None:
    helper = MemoryScope("me", "helper")
    for scope in (SCOPE, helper):
        fact = make_fact("Likes tea", source=FactSource("t-canary", "m-canary", f"{CANARY} tea"))
        await ledger.apply(scope, [upsert_fact(fact)], "model")
        await ledger.apply(scope, [upsert_fact(replace(fact, confidence=0.9))], "user")
    await ledger.forget_thread("t-canary", "me", with_facts=with_facts)
    await ledger.erase_all(MemoryScope("me", "nobody"))
    await ledger.purge()
    assert [find_traces(place, word) for word in (CANARY, "t-canary", "m-canary")] == [[], [], []]
    for scope in (SCOPE, helper):
        state = await ledger.read_state(scope)
        assert [each.source for each in state.facts] == ([] if with_facts else [FactSource(None)])


async def test_records_an_erasure_that_is_finished_later(ledger: Ledger) -> None:
    async def in_the_way() -> bool:
        return False

    hindered = Ledger(ledger.database, in_the_way)
    tea = make_fact("Likes tea")
    await hindered.apply(SCOPE, [upsert_fact(tea)], "user")
    assert not await hindered.erase_fact(SCOPE, tea.id)
    notes = await ledger.database.read(select_all(select(deletions.c.owner)))
    assert notes == [("me",)] and list_contents(await ledger.read_state(SCOPE)) == []
    await ledger.apply(SCOPE, [upsert_fact(tea)], "user")
    assert await ledger.erase_fact(SCOPE, tea.id)
    assert len(await ledger.database.read(select_all(select(deletions.c.owner)))) == 1


async def test_the_index_holds_current_facts_only(ledger: Ledger) -> None:
    tea = make_fact("Likes tea")
    await ledger.apply(SCOPE, [upsert_fact(tea), upsert_fact(make_fact("Likes rain"))], "user")
    await ledger.apply(SCOPE, [remove_fact(tea.id)], "user")
    assert await ledger.database.read(select_all(text("SELECT count(*) FROM memory_terms"))) == [(1,)]
    await ledger.erase_all(SCOPE)
    assert await ledger.database.read(select_all(text("SELECT count(*) FROM memory_terms"))) == [(0,)]


def select_all(query: object) -> Callable[[Connection], list[tuple[object, ...]]]:
    return lambda connection: [tuple(row) for row in connection.execute(query)]  # type: ignore[call-overload]

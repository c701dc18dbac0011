"""What is erased is gone: from what is known, from what happened, from the index, and from every byte of the files."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select, text

from deerflow.domain.errors import NotFound
from deerflow.domain.memory import MemoryScope, Source, forgetting, knowing, summarising, superseding
from deerflow.memory.ledger import Ledger
from deerflow.persistence.database import Place
from deerflow.persistence.tables import deletions, memory_pending, memory_watermarks
from deerflow.persistence.threads import insert_thread
from tests.canary import files_with, tables_with
from tests.memory.notes import MINE, contents, fact

CANARY = "kingfisher"


def left(place: Place, word: str = CANARY) -> list[str]:
    """Where a word is, in files or in tables."""
    return files_with(word, place.parent) if isinstance(place, Path) else tables_with(word, place)


async def test_no_byte_is_left_of_an_erased_fact_nor_of_what_speaks_of_it(ledger: Ledger, place: Place) -> None:
    old = fact(f"Breeds {CANARY}s", thread="t1")
    new = fact("Breeds herons", "correction", thread="t2", source_error=f"I said {CANARY}s")
    await ledger.apply(MINE, [knowing(fact(f"Other thing {number}")) for number in range(200)], "import")
    await ledger.apply(MINE, [knowing(old)], "model")
    change = await ledger.apply(MINE, [knowing(replace(old, content=f"Breeds many {CANARY}s"))], "user")
    await ledger.undo(MINE, change[0].change_id)
    await ledger.apply(MINE, superseding(old, new, datetime.now(UTC)), "model")
    assert left(place), "the test looks in the right place"

    assert await ledger.erase_fact(MINE, old.id)
    assert left(place) == [] and left(place, old.id) == []
    why = await ledger.why(MINE, new.id)
    assert (why.fact.supersedes, why.fact.source_error, why.superseded) == (None, None, [])
    assert len((await ledger.state(MINE)).facts) == 201
    with pytest.raises(NotFound):
        await ledger.erase_fact(MINE, old.id)
    with pytest.raises(NotFound):
        await ledger.undo(MINE, change[0].change_id)


async def test_erasing_a_thread_brings_back_what_was_known_before_it(ledger: Ledger, place: Place) -> None:
    now, here = datetime.now(UTC), Source("t1", "m1", f"{CANARY} said")
    tea = fact("Likes tea", thread="t0")
    await ledger.apply(MINE, [knowing(tea), summarising("user.topOfMind", "Tea", now)], "model")
    learned = [
        knowing(replace(tea, content=f"Likes tea from {CANARY}", source=here)),
        knowing(fact(f"Knows a {CANARY}", source=here)),
        summarising("user.topOfMind", f"The {CANARY}", now, here),
    ]
    await ledger.apply(MINE, learned, "model")
    # What is written later is written from what was there.
    await ledger.apply(MINE, [knowing(replace(tea, content=f"Likes all tea, {CANARY}'s too"))], "user")
    await ledger.apply(MINE, [summarising("user.topOfMind", f"{CANARY}s and more", now, Source("t2"))], "model")

    assert await ledger.erase_thread(MINE, "t1")
    state = await ledger.state(MINE)
    assert list(state.facts) == [tea] and state.summaries["user.topOfMind"].summary == "Tea"
    assert [hit.fact for hit in await ledger.search(MINE, "tea")] == [tea]
    assert left(place) == []


async def test_erasing_everything_also_takes_what_is_yet_to_be_read_and_it_stays_unread(
    ledger: Ledger, place: Place
) -> None:
    now = datetime.now(UTC)
    waiting = {
        **{"owner": "me", "agent": "", "thread_id": "t1", "last_message_id": "m9", "data": {"text": CANARY}},
        **{"is_correction": False, "is_reinforcement": False, "due_at": now, "attempts": 0},
    }
    await ledger.database.write(lambda connection: insert_thread(connection, "t1", "me", {}))
    await ledger.database.write(lambda connection: connection.execute(insert(memory_pending), waiting).rowcount)
    await ledger.apply(MINE, [knowing(fact(f"Knows a {CANARY}")), knowing(fact("Likes tea"))], "model")
    await ledger.apply(MINE, [forgetting((await ledger.state(MINE)).facts[0].id)], "user")
    await ledger.switch(MINE, is_off=True)
    assert await ledger.erase_all(MINE)
    assert left(place) == [] and contents(await ledger.state(MINE)) == []
    seen = await ledger.database.read(every(select(memory_watermarks.c.thread_id, memory_watermarks.c.message_id)))
    assert seen == [("t1", "m9")]
    assert await ledger.is_off(MINE), "that somebody does not want to be remembered is not forgotten"


@pytest.mark.parametrize("with_facts", [False, True])
async def test_a_deleted_thread_leaves_none_of_its_words(ledger: Ledger, place: Place, with_facts: bool) -> None:
    helper = MemoryScope("me", "helper")
    for scope in (MINE, helper):
        told = fact("Likes tea", source=Source("t-canary", "m-canary", f"{CANARY} tea"))
        await ledger.apply(scope, [knowing(told)], "model")
        await ledger.apply(scope, [knowing(replace(told, confidence=0.9))], "user")
    await ledger.let_go("t-canary", "me", with_facts=with_facts)
    await ledger.erase_all(MemoryScope("me", "nobody"))
    await ledger.scrub()
    assert [left(place, word) for word in (CANARY, "t-canary", "m-canary")] == [[], [], []]
    for scope in (MINE, helper):
        state = await ledger.state(scope)
        assert [each.source for each in state.facts] == ([] if with_facts else [Source(None)])


async def test_what_cannot_be_zeroed_now_is_noted_for_later(ledger: Ledger) -> None:
    async def in_the_way() -> bool:
        return False

    hindered = Ledger(ledger.database, in_the_way)
    tea = fact("Likes tea")
    await hindered.apply(MINE, [knowing(tea)], "user")
    assert not await hindered.erase_fact(MINE, tea.id)
    notes = await ledger.database.read(every(select(deletions.c.owner)))
    assert notes == [("me",)] and contents(await ledger.state(MINE)) == []
    await ledger.apply(MINE, [knowing(tea)], "user")
    assert await ledger.erase_fact(MINE, tea.id)
    assert len(await ledger.database.read(every(select(deletions.c.owner)))) == 1


async def test_the_index_holds_what_is_known_and_nothing_else(ledger: Ledger) -> None:
    tea = fact("Likes tea")
    await ledger.apply(MINE, [knowing(tea), knowing(fact("Likes rain"))], "user")
    await ledger.apply(MINE, [forgetting(tea.id)], "user")
    assert await ledger.database.read(every(text("SELECT count(*) FROM memory_terms"))) == [(1,)]
    await ledger.erase_all(MINE)
    assert await ledger.database.read(every(text("SELECT count(*) FROM memory_terms"))) == [(0,)]


def every(query: object) -> Callable[[Connection], list[tuple[object, ...]]]:
    return lambda connection: [tuple(row) for row in connection.execute(query)]  # type: ignore[call-overload]

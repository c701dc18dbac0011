"""Changes of memory: validation, conflicts, provenance, undo and scopes."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.domain.memory import (
    FactSource,
    MemoryScope,
    MemoryState,
    remove_fact,
    set_summary,
    supersede_fact,
    upsert_fact,
)
from deerflow.memory.ledger import Ledger
from tests.memory.support import SCOPE, list_contents, make_fact

INVALID_FACTS: list[tuple[dict[str, object], str]] = [
    ({"content": "  \n"}, "a fact cannot be empty"),
    ({"content": "x" * 4001}, "at most 4000 characters, not 4001"),
    ({"confidence": 1.5}, "between 0 and 1, not 1.5"),
    ({"confidence": float("nan")}, "between 0 and 1, not nan"),
    ({"category": "gossip"}, "not 'gossip'"),
]


async def test_refuses_invalid_edits_as_a_whole(ledger: Ledger) -> None:
    for change, complaint in INVALID_FACTS:
        odd = replace(make_fact("Likes tea"), **change)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match=complaint):
            await ledger.apply(SCOPE, [upsert_fact(make_fact("Likes coffee")), upsert_fact(odd)], "user")
        with pytest.raises(InvalidRequest, match=complaint):
            await ledger.apply(SCOPE, lambda state, odd=odd: [upsert_fact(odd)], "user")  # type: ignore[misc]
    assert await ledger.read_state(SCOPE) == MemoryState()


async def test_refuses_a_change_with_an_outdated_seq(ledger: Ledger) -> None:
    await ledger.apply(SCOPE, [upsert_fact(make_fact("Likes tea"))], "user", expected_seq=0)
    with pytest.raises(Conflict, match="it is at 1, not at 0"):
        await ledger.apply(SCOPE, [upsert_fact(make_fact("Likes coffee"))], "user", expected_seq=0)
    with pytest.raises(NotFound, match="no fact 'fact_x'"):
        await ledger.apply(SCOPE, [remove_fact("fact_x")], "user")
    assert list_contents(await ledger.read_state(SCOPE)) == ["Likes tea"]


async def test_keeps_concurrent_changes(ledger: Ledger) -> None:
    notes = [make_fact(f"Note {number}") for number in range(8)]
    async with asyncio.timeout(20):
        await asyncio.gather(*(ledger.apply(SCOPE, [upsert_fact(note)], "model") for note in notes))
    state = await ledger.read_state(SCOPE)
    assert state.seq == 8 and set(list_contents(state)) == {note.content for note in notes}


async def test_explains_a_superseded_fact(ledger: Ledger) -> None:
    old = make_fact("Lives in Rome", thread="t1")
    new = make_fact("Lives in Oslo", "correction", thread="t2", source_error="I said Rome")
    await ledger.apply(SCOPE, [upsert_fact(old)], "model")
    await ledger.apply(SCOPE, supersede_fact(old, new, datetime.now(UTC)), "model")

    assert list_contents(await ledger.read_state(SCOPE)) == ["Lives in Oslo"]
    why = await ledger.explain(SCOPE, new.id)
    assert why.fact.source == FactSource("t2", "m1", "they said: Lives in Oslo")
    assert [(each.id, each.valid_to is not None) for each in why.superseded] == [(old.id, True)]
    assert [change.kind for change in (await ledger.explain(SCOPE, old.id)).changes] == ["fact_removed", "fact_added"]
    with pytest.raises(NotFound):
        await ledger.explain(SCOPE, "fact_never")


async def test_undoes_groups_changes_and_undos(ledger: Ledger) -> None:
    tea = make_fact("Likes tea")
    await ledger.apply(SCOPE, [upsert_fact(tea), set_summary("user.topOfMind", "Tea.", datetime.now(UTC))], "user")
    before = await ledger.read_state(SCOPE)
    update = [
        upsert_fact(replace(tea, content="Likes green tea")),
        upsert_fact(make_fact("Is in a hurry")),
        remove_fact(tea.id),
    ]
    changes = await ledger.apply(SCOPE, [*update, set_summary("user.topOfMind", "", datetime.now(UTC))], "model")
    assert [change.kind for change in changes] == ["fact_changed", "fact_added", "fact_removed", "summary_set"]

    with pytest.raises(Conflict, match="was changed again since; undo that first"):
        await ledger.undo(SCOPE, changes[0].change_id)
    undone = await ledger.undo(SCOPE, changes[0].group)
    after = await ledger.read_state(SCOPE)
    assert (after.facts, after.summaries) == (before.facts, before.summaries)
    await ledger.undo(SCOPE, undone[0].group)
    assert list_contents(await ledger.read_state(SCOPE)) == ["Is in a hurry"]
    await ledger.undo(SCOPE, (await ledger.read_history(SCOPE))[0].change_id)
    with pytest.raises(NotFound, match="no change 'x'"):
        await ledger.undo(SCOPE, "x")


async def test_scopes_are_separate(ledger: Ledger) -> None:
    scopes = [MemoryScope(owner, agent) for owner in ("me", "you") for agent in (None, "a", "b")]
    own = {scope: make_fact(f"Secret word {number}", thread="shared") for number, scope in enumerate(scopes)}
    groups = {scope: (await ledger.apply(scope, [upsert_fact(own[scope])], "model"))[0].group for scope in scopes}
    for scope in scopes:
        assert list_contents(await ledger.read_state(scope)) == [own[scope].content]
        assert list_contents(await ledger.read_state(scope, datetime.now(UTC))) == [own[scope].content]
        assert [hit.fact.id for hit in await ledger.search(scope, "secret word", 50)] == [own[scope].id]
        assert [change.target for change in await ledger.read_history(scope)] == [own[scope].id]
        assert list(await ledger.read_top_facts(scope, 50)) == [own[scope]]
        for other in scopes:
            if other == scope:
                continue
            for ask in (ledger.explain, ledger.read_fact, ledger.erase_fact):
                with pytest.raises(NotFound):
                    await ask(scope, own[other].id)
            with pytest.raises(NotFound):
                await ledger.undo(scope, groups[other])
            with pytest.raises(NotFound):
                await ledger.apply(scope, [remove_fact(own[other].id)], "user")
    await ledger.set_off(scopes[0], is_off=True)
    assert [await ledger.is_off(scope) for scope in scopes] == [True, False, False, False, False, False]
    await ledger.erase_all(scopes[0])
    await ledger.erase_thread(scopes[1], "shared")
    await ledger.forget_thread("shared", "me", with_facts=True)
    kept = [list_contents(await ledger.read_state(scope)) for scope in scopes]
    assert kept == [[], [], [], *([own[scope].content] for scope in scopes[3:])]
    assert await ledger.is_off(scopes[0])

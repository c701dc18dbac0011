"""What is remembered can be explained, undone and looked at as it was, and is nobody else's."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.domain.memory import MemoryScope, MemoryState, Source, forgetting, knowing, summarising, superseding
from deerflow.memory.ledger import Ledger
from tests.memory.notes import MINE, contents, fact

UNUSABLE: list[tuple[dict[str, object], str]] = [
    ({"content": "  \n"}, "a fact cannot be empty"),
    ({"content": "x" * 4001}, "at most 4000 characters, not 4001"),
    ({"confidence": 1.5}, "between 0 and 1, not 1.5"),
    ({"confidence": float("nan")}, "between 0 and 1, not nan"),
    ({"category": "gossip"}, "not 'gossip'"),
]


async def test_what_cannot_be_remembered_is_refused_and_nothing_of_it_is_kept(ledger: Ledger) -> None:
    for change, complaint in UNUSABLE:
        odd = replace(fact("Likes tea"), **change)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match=complaint):
            await ledger.apply(MINE, [knowing(fact("Likes coffee")), knowing(odd)], "user")
        with pytest.raises(InvalidRequest, match=complaint):
            await ledger.apply(MINE, lambda state, odd=odd: [knowing(odd)], "user")  # type: ignore[misc]
    assert await ledger.state(MINE) == MemoryState()


async def test_a_change_of_what_was_read_before_somebody_else_changed_it_is_refused(ledger: Ledger) -> None:
    await ledger.apply(MINE, [knowing(fact("Likes tea"))], "user", expected_seq=0)
    with pytest.raises(Conflict, match="it is at 1, not at 0"):
        await ledger.apply(MINE, [knowing(fact("Likes coffee"))], "user", expected_seq=0)
    with pytest.raises(NotFound, match="no fact 'fact_x'"):
        await ledger.apply(MINE, [forgetting("fact_x")], "user")
    assert contents(await ledger.state(MINE)) == ["Likes tea"]


async def test_changes_at_the_same_time_are_all_kept(ledger: Ledger) -> None:
    notes = [fact(f"Note {number}") for number in range(8)]
    async with asyncio.timeout(20):
        await asyncio.gather(*(ledger.apply(MINE, [knowing(note)], "model") for note in notes))
    state = await ledger.state(MINE)
    assert state.seq == 8 and set(contents(state)) == {note.content for note in notes}


async def test_a_contradicted_fact_is_over_and_why_tells_what_took_its_place(ledger: Ledger) -> None:
    old = fact("Lives in Rome", thread="t1")
    new = fact("Lives in Oslo", "correction", thread="t2", source_error="I said Rome")
    await ledger.apply(MINE, [knowing(old)], "model")
    await ledger.apply(MINE, superseding(old, new, datetime.now(UTC)), "model")

    assert contents(await ledger.state(MINE)) == ["Lives in Oslo"]
    why = await ledger.why(MINE, new.id)
    assert why.fact.source == Source("t2", "m1", "they said: Lives in Oslo")
    assert [(each.id, each.valid_to is not None) for each in why.superseded] == [(old.id, True)]
    assert [change.kind for change in (await ledger.why(MINE, old.id)).changes] == ["fact_removed", "fact_added"]
    with pytest.raises(NotFound):
        await ledger.why(MINE, "fact_never")


async def test_an_update_is_undone_as_a_whole_or_change_by_change_and_undone_again(ledger: Ledger) -> None:
    tea = fact("Likes tea")
    await ledger.apply(MINE, [knowing(tea), summarising("user.topOfMind", "Tea.", datetime.now(UTC))], "user")
    before = await ledger.state(MINE)
    update = [knowing(replace(tea, content="Likes green tea")), knowing(fact("Is in a hurry")), forgetting(tea.id)]
    changes = await ledger.apply(MINE, [*update, summarising("user.topOfMind", "", datetime.now(UTC))], "model")
    assert [change.kind for change in changes] == ["fact_changed", "fact_added", "fact_removed", "summary_set"]

    with pytest.raises(Conflict, match="has been changed since: undo that first"):
        await ledger.undo(MINE, changes[0].change_id)
    undone = await ledger.undo(MINE, changes[0].group)
    after = await ledger.state(MINE)
    assert (after.facts, after.summaries) == (before.facts, before.summaries)
    await ledger.undo(MINE, undone[0].group)
    assert contents(await ledger.state(MINE)) == ["Is in a hurry"]
    await ledger.undo(MINE, (await ledger.history(MINE))[0].change_id)
    with pytest.raises(NotFound, match="no change 'x'"):
        await ledger.undo(MINE, "x")


async def test_nobody_sees_what_is_known_about_somebody_else_or_by_another_agent(ledger: Ledger) -> None:
    scopes = [MemoryScope(owner, agent) for owner in ("me", "you") for agent in (None, "a", "b")]
    own = {scope: fact(f"Secret word {number}", thread="shared") for number, scope in enumerate(scopes)}
    groups = {scope: (await ledger.apply(scope, [knowing(own[scope])], "model"))[0].group for scope in scopes}
    for scope in scopes:
        assert contents(await ledger.state(scope)) == [own[scope].content]
        assert contents(await ledger.state(scope, datetime.now(UTC))) == [own[scope].content]
        assert [hit.fact.id for hit in await ledger.search(scope, "secret word", 50)] == [own[scope].id]
        assert [change.target for change in await ledger.history(scope)] == [own[scope].id]
        assert list(await ledger.leading(scope, 50)) == [own[scope]]
        for other in scopes:
            if other == scope:
                continue
            for ask in (ledger.why, ledger.fact, ledger.erase_fact):
                with pytest.raises(NotFound):
                    await ask(scope, own[other].id)
            with pytest.raises(NotFound):
                await ledger.undo(scope, groups[other])
            with pytest.raises(NotFound):
                await ledger.apply(scope, [forgetting(own[other].id)], "user")
    await ledger.switch(scopes[0], is_off=True)
    assert [await ledger.is_off(scope) for scope in scopes] == [True, False, False, False, False, False]
    await ledger.erase_all(scopes[0])
    await ledger.erase_thread(scopes[1], "shared")
    await ledger.let_go("shared", "me", with_facts=True)
    kept = [contents(await ledger.state(scope)) for scope in scopes]
    assert kept == [[], [], [], *([own[scope].content] for scope in scopes[3:])]
    assert await ledger.is_off(scopes[0])

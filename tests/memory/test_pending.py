"""Extraction queue: each message is processed once, and not after an erasure."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial

from deerflow.domain.memory import (
    BilledRun,
    ConversationMessage,
    FeedbackSignals,
    MemoryEdit,
    MemoryState,
    PendingExtraction,
    upsert_fact,
)
from deerflow.domain.usage import SpendingLimit
from deerflow.memory.ledger import Ledger
from deerflow.memory.queries import pending as rows
from deerflow.persistence.queries.threads import insert_thread
from tests.memory.support import LEASE, LOCAL_SCOPE, NOW, WAIT, create_thread, list_contents, make_fact


def build_pending(
    *said: str,
    thread: str = "t",
    at: datetime = NOW,
    signals: FeedbackSignals = FeedbackSignals(),
    payer: BilledRun | None = None,
) -> PendingExtraction:
    messages = [ConversationMessage(f"m-{text}", "human", text) for text in said]
    return PendingExtraction(LOCAL_SCOPE, thread, messages, signals, at + WAIT, payer=payer)


def bill(run_id: str, tokens: int | None = 50_000) -> BilledRun:
    return BilledRun(run_id, SpendingLimit(tokens, Decimal("0.25")))


async def add_pending(ledger: Ledger, new: PendingExtraction) -> None:
    await ledger.database.write(partial(rows.add_pending, extraction=new, wait=WAIT))


async def claim_due(ledger: Ledger, name: str, at: datetime = NOW + WAIT) -> PendingExtraction | None:
    return await ledger.database.write(partial(rows.claim_due, now=at, claim=name, lease=LEASE))


async def finish_extraction(ledger: Ledger, done: PendingExtraction, *edits: MemoryEdit) -> bool:
    def make(state: MemoryState) -> list[MemoryEdit]:
        return list(edits)

    made = await ledger.database.write(partial(rows.finish_extraction, extraction=done, edits=make, now=NOW))
    return made is not None


async def test_adds_messages_to_the_pending_extraction_of_a_thread(ledger: Ledger) -> None:
    await create_thread(ledger)
    await add_pending(ledger, build_pending("one", signals=FeedbackSignals(correction=True)))
    await add_pending(ledger, build_pending("two", "one", at=NOW + WAIT / 2))
    assert await claim_due(ledger, "a", NOW + WAIT) is None
    assert await ledger.database.read(rows.find_next_due) == NOW + 1.5 * WAIT
    read = await claim_due(ledger, "a", NOW + 2 * WAIT)
    assert read is not None and [message.text for message in read.messages] == ["one", "two"]
    assert read.signals == FeedbackSignals(correction=True) and read.attempts == 1


async def test_limits_the_delay_of_a_busy_thread(ledger: Ledger) -> None:
    await create_thread(ledger)
    for step in range(20):
        await add_pending(ledger, build_pending(f"message {step}", at=NOW + step * WAIT / 2))
    assert await ledger.database.read(rows.find_next_due) == NOW + rows.MAX_WAIT_FACTOR * WAIT
    await create_thread(ledger, "long")
    await add_pending(
        ledger, build_pending(*(f"{number}" for number in range(rows.MAX_WAITING_MESSAGES + 1)), thread="long")
    )
    assert await ledger.database.read(rows.find_next_due) == NOW


async def test_a_claim_excludes_others_until_it_expires(ledger: Ledger) -> None:
    await create_thread(ledger)
    await add_pending(ledger, build_pending("one"))
    dead = await claim_due(ledger, "dead")
    assert dead is not None and await claim_due(ledger, "other") is None
    assert await ledger.database.read(rows.find_next_due) == NOW + WAIT + LEASE
    assert await ledger.database.write(partial(rows.renew_claim, extraction=dead, until=NOW + 2 * LEASE))
    follower = await claim_due(ledger, "other", NOW + 2 * LEASE)
    assert follower is not None and follower.attempts == 2
    assert not await finish_extraction(ledger, dead, upsert_fact(make_fact("from the dead")))
    assert await finish_extraction(ledger, follower, upsert_fact(make_fact("once")))
    assert list_contents(await ledger.read_state(LOCAL_SCOPE)) == ["once"]
    assert await ledger.database.read(rows.find_next_due) is None


async def test_keeps_messages_that_arrive_during_an_extraction(ledger: Ledger) -> None:
    await create_thread(ledger)
    await add_pending(ledger, build_pending("one"))
    first = await claim_due(ledger, "a")
    assert first is not None
    await add_pending(ledger, build_pending("two", at=NOW + WAIT))
    assert await finish_extraction(ledger, first)
    await add_pending(ledger, build_pending("one", "three", at=NOW + WAIT))  # a client that sends everything again
    second = await claim_due(ledger, "b", NOW + 2 * WAIT)
    assert second is not None and [message.text for message in second.messages] == ["two", "three"]


async def test_splits_long_conversations_into_batches(ledger: Ledger) -> None:
    await create_thread(ledger)
    said = [f"{number}" * 15_000 for number in range(4)]
    await add_pending(ledger, build_pending(*said))
    parts = []
    while part := await claim_due(ledger, "a"):
        parts.append([message.text[0] for message in part.messages])
        assert await finish_extraction(ledger, part)
    assert parts == [["0", "1"], ["2", "3"]]


async def test_drops_the_result_when_memory_was_erased_or_disabled(ledger: Ledger) -> None:
    await create_thread(ledger)
    for forget in (partial(ledger.erase_all, LOCAL_SCOPE), partial(ledger.set_off, LOCAL_SCOPE, is_off=True)):
        await add_pending(ledger, build_pending(f"one {forget}"))
        thinking = await claim_due(ledger, "a")
        assert thinking is not None
        await forget()
        assert not await finish_extraction(ledger, thinking, upsert_fact(make_fact("too late")))
        assert list_contents(await ledger.read_state(LOCAL_SCOPE)) == []
    await add_pending(ledger, build_pending("off"))
    assert await claim_due(ledger, "b", NOW + 3 * LEASE) is None


async def test_ignores_missing_and_foreign_threads(ledger: Ledger) -> None:
    await ledger.database.write(partial(insert_thread, thread_id="foreign", owner="you", metadata={}))
    await add_pending(ledger, build_pending("one", thread="gone"))
    await add_pending(ledger, build_pending("one", thread="foreign"))
    assert await ledger.database.read(rows.find_next_due) is None


async def test_charges_the_last_run_and_stores_its_remaining_budget(ledger: Ledger) -> None:
    await create_thread(ledger)
    await add_pending(ledger, build_pending("one", payer=bill("first")))
    await add_pending(ledger, build_pending("two", payer=bill("second")))
    thinking = await claim_due(ledger, "a")
    assert thinking is not None and thinking.payer == bill("second")
    less = replace(thinking, payer=bill("second", 30_000))
    assert await ledger.database.write(partial(rows.update_billing, extraction=less))
    # Its process dies, and another one goes on with what is left.
    follower = await claim_due(ledger, "b", NOW + 3 * LEASE)
    assert follower is not None and follower.payer == bill("second", 30_000)
    assert not await ledger.database.write(partial(rows.update_billing, extraction=less))
    again = partial(rows.release_claim, extraction=replace(follower, payer=bill("second", 10_000)), attempts=1)
    await ledger.database.write(partial(again, due_at=NOW))
    last = await claim_due(ledger, "c", NOW + 3 * LEASE)
    assert last is not None and last.payer == bill("second", 10_000)


async def test_suspends_an_extraction_until_the_next_run(ledger: Ledger) -> None:
    await create_thread(ledger)
    await add_pending(ledger, build_pending("one", payer=bill("first")))
    thinking = await claim_due(ledger, "a")
    assert thinking is not None
    await ledger.database.write(partial(rows.suspend_extraction, extraction=thinking))
    much_later = NOW + 1000 * WAIT
    assert await ledger.database.read(rows.find_next_due) is None
    assert await claim_due(ledger, "b", much_later) is None
    (waiting,) = await ledger.database.read(partial(rows.list_pending, scope=LOCAL_SCOPE, limit=5))
    assert waiting.is_unpaid and not waiting.is_being_read
    await add_pending(ledger, build_pending("two", at=much_later, payer=bill("second")))
    assert await ledger.database.read(rows.find_next_due) == much_later + WAIT
    paid = await claim_due(ledger, "b", much_later + WAIT)
    assert paid is not None and paid.payer == bill("second") and paid.attempts == 1
    assert [message.text for message in paid.messages] == ["one", "two"]


async def test_a_run_that_ends_meanwhile_pays_for_the_rest(ledger: Ledger) -> None:
    await create_thread(ledger)
    for leave in (rows.suspend_extraction, partial(rows.release_claim, due_at=NOW, attempts=0)):
        await add_pending(ledger, build_pending("one", payer=bill("first")))
        thinking = await claim_due(ledger, "a")
        assert thinking is not None
        await add_pending(ledger, build_pending("two", payer=bill("second")))
        poor = replace(thinking, payer=bill("first", 0))
        assert not await ledger.database.write(partial(rows.update_billing, extraction=poor))
        await ledger.database.write(partial(leave, extraction=poor))
        paid = await claim_due(ledger, "b")
        assert paid is not None and paid.payer == bill("second")
        await ledger.database.write(partial(rows.release_claim, extraction=paid, due_at=NOW, attempts=0))


async def test_the_remaining_budget_pays_for_later_batches(ledger: Ledger) -> None:
    await create_thread(ledger)
    await add_pending(ledger, build_pending("0" * 30_000, "1" * 30_000, payer=bill("run")))
    first = await claim_due(ledger, "a")
    assert first is not None and await finish_extraction(ledger, replace(first, payer=bill("run", 20_000)))
    second = await claim_due(ledger, "b")
    assert second is not None and second.payer == bill("run", 20_000)

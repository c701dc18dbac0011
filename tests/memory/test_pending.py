"""What is yet to be learned, in the database: nothing twice, nothing lost, nothing after it was erased."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

from deerflow.domain.budget import SpendingLimit
from deerflow.domain.learning import Heard, Lesson, Payer, Signs
from deerflow.domain.memory import Edit, MemoryScope, MemoryState, knowing
from deerflow.domain.principal import LOCAL_USER
from deerflow.memory.ledger import Ledger
from deerflow.persistence import memory_pending as rows
from deerflow.persistence.threads import insert_thread
from tests.memory.notes import contents, fact

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WAIT = timedelta(seconds=30)
LEASE = timedelta(seconds=60)
MINE = MemoryScope(LOCAL_USER.user_id)


def lesson(
    *said: str, thread: str = "t", at: datetime = NOW, signs: Signs = Signs(), payer: Payer | None = None
) -> Lesson:
    messages = [Heard(f"m-{text}", "human", text) for text in said]
    return Lesson(MINE, thread, messages, signs, at + WAIT, payer=payer)


def paying(run_id: str, tokens: int | None = 50_000) -> Payer:
    return Payer(run_id, SpendingLimit(tokens, Decimal("0.25")))


async def add(ledger: Ledger, new: Lesson) -> None:
    await ledger.database.write(partial(rows.add_lesson, lesson=new, wait=WAIT))


async def claim(ledger: Ledger, name: str, at: datetime = NOW + WAIT) -> Lesson | None:
    return await ledger.database.write(partial(rows.claim_lesson, now=at, claim=name, lease=LEASE))


async def finish(ledger: Ledger, done: Lesson, *edits: Edit) -> bool:
    def make(state: MemoryState) -> list[Edit]:
        return list(edits)

    made = await ledger.database.write(partial(rows.finish_lesson, lesson=done, edits=make, now=NOW))
    return made is not None


async def begin(ledger: Ledger, thread: str = "t") -> None:
    made = partial(insert_thread, thread_id=thread, owner=MINE.owner, metadata={})
    await ledger.database.write(made)


async def test_a_thread_waits_in_one_place_and_what_is_added_is_read_with_what_waits(ledger: Ledger) -> None:
    await begin(ledger)
    await add(ledger, lesson("one", signs=Signs(correction=True)))
    await add(ledger, lesson("two", "one", at=NOW + WAIT / 2))
    assert await claim(ledger, "a", NOW + WAIT) is None
    assert await ledger.database.read(rows.next_lesson_at) == NOW + 1.5 * WAIT
    read = await claim(ledger, "a", NOW + 2 * WAIT)
    assert read is not None and [message.text for message in read.messages] == ["one", "two"]
    assert read.signs == Signs(correction=True) and read.attempts == 1


async def test_a_thread_that_is_never_quiet_is_learned_from_all_the_same(ledger: Ledger) -> None:
    await begin(ledger)
    for step in range(20):
        await add(ledger, lesson(f"message {step}", at=NOW + step * WAIT / 2))
    assert await ledger.database.read(rows.next_lesson_at) == NOW + rows.LONGEST_WAIT * WAIT
    await begin(ledger, "long")
    await add(ledger, lesson(*(f"{number}" for number in range(rows.MOST_MESSAGES + 1)), thread="long"))
    assert await ledger.database.read(rows.next_lesson_at) == NOW


async def test_two_processes_do_not_learn_the_same_twice_and_a_dead_one_is_followed(ledger: Ledger) -> None:
    await begin(ledger)
    await add(ledger, lesson("one"))
    dead = await claim(ledger, "dead")
    assert dead is not None and await claim(ledger, "other") is None
    assert await ledger.database.read(rows.next_lesson_at) == NOW + WAIT + LEASE
    assert await ledger.database.write(partial(rows.renew_lesson, lesson=dead, until=NOW + 2 * LEASE))
    follower = await claim(ledger, "other", NOW + 2 * LEASE)
    assert follower is not None and follower.attempts == 2
    assert not await finish(ledger, dead, knowing(fact("from the dead")))
    assert await finish(ledger, follower, knowing(fact("once")))
    assert contents(await ledger.state(MINE)) == ["once"]
    assert await ledger.database.read(rows.next_lesson_at) is None


async def test_what_is_said_while_a_model_thinks_is_learned_next_and_nothing_again(ledger: Ledger) -> None:
    await begin(ledger)
    await add(ledger, lesson("one"))
    first = await claim(ledger, "a")
    assert first is not None
    await add(ledger, lesson("two", at=NOW + WAIT))
    assert await finish(ledger, first)
    await add(ledger, lesson("one", "three", at=NOW + WAIT))  # a client that sends everything again
    second = await claim(ledger, "b", NOW + 2 * WAIT)
    assert second is not None and [message.text for message in second.messages] == ["two", "three"]


async def test_much_is_read_in_several_parts(ledger: Ledger) -> None:
    await begin(ledger)
    said = [f"{number}" * 15_000 for number in range(4)]
    await add(ledger, lesson(*said))
    parts = []
    while part := await claim(ledger, "a"):
        parts.append([message.text[0] for message in part.messages])
        assert await finish(ledger, part)
    assert parts == [["0", "1"], ["2", "3"]]


async def test_what_is_erased_or_switched_off_while_a_model_thinks_is_not_learned(ledger: Ledger) -> None:
    await begin(ledger)
    for forget in (partial(ledger.erase_all, MINE), partial(ledger.switch, MINE, is_off=True)):
        await add(ledger, lesson(f"one {forget}"))
        thinking = await claim(ledger, "a")
        assert thinking is not None
        await forget()
        assert not await finish(ledger, thinking, knowing(fact("too late")))
        assert contents(await ledger.state(MINE)) == []
    await add(ledger, lesson("off"))
    assert await claim(ledger, "b", NOW + 3 * LEASE) is None


async def test_a_thread_that_is_not_there_or_somebody_elses_is_not_learned_from(ledger: Ledger) -> None:
    await ledger.database.write(partial(insert_thread, thread_id="foreign", owner="you", metadata={}))
    await add(ledger, lesson("one", thread="gone"))
    await add(ledger, lesson("one", thread="foreign"))
    assert await ledger.database.read(rows.next_lesson_at) is None


async def test_the_run_that_came_last_pays_and_what_it_has_left_is_kept(ledger: Ledger) -> None:
    await begin(ledger)
    await add(ledger, lesson("one", payer=paying("first")))
    await add(ledger, lesson("two", payer=paying("second")))
    thinking = await claim(ledger, "a")
    assert thinking is not None and thinking.payer == paying("second")
    less = replace(thinking, payer=paying("second", 30_000))
    assert await ledger.database.write(partial(rows.note_payment, lesson=less))
    # Its process dies, and another one goes on with what is left.
    follower = await claim(ledger, "b", NOW + 3 * LEASE)
    assert follower is not None and follower.payer == paying("second", 30_000)
    assert not await ledger.database.write(partial(rows.note_payment, lesson=less))
    again = partial(rows.give_back_lesson, lesson=replace(follower, payer=paying("second", 10_000)), attempts=1)
    await ledger.database.write(partial(again, due_at=NOW))
    last = await claim(ledger, "c", NOW + 3 * LEASE)
    assert last is not None and last.payer == paying("second", 10_000)


async def test_what_nobody_pays_for_waits_for_the_next_run_of_its_thread(ledger: Ledger) -> None:
    await begin(ledger)
    await add(ledger, lesson("one", payer=paying("first")))
    thinking = await claim(ledger, "a")
    assert thinking is not None
    await ledger.database.write(partial(rows.leave_unpaid, lesson=thinking))
    much_later = NOW + 1000 * WAIT
    assert await ledger.database.read(rows.next_lesson_at) is None
    assert await claim(ledger, "b", much_later) is None
    (waiting,) = await ledger.database.read(partial(rows.read_waiting, scope=MINE, limit=5))
    assert waiting.is_unpaid and not waiting.is_being_read
    await add(ledger, lesson("two", at=much_later, payer=paying("second")))
    assert await ledger.database.read(rows.next_lesson_at) == much_later + WAIT
    paid = await claim(ledger, "b", much_later + WAIT)
    assert paid is not None and paid.payer == paying("second") and paid.attempts == 1
    assert [message.text for message in paid.messages] == ["one", "two"]


async def test_a_run_that_ends_while_a_model_thinks_pays_for_what_is_left_to_be_read(ledger: Ledger) -> None:
    await begin(ledger)
    for leave in (rows.leave_unpaid, partial(rows.give_back_lesson, due_at=NOW, attempts=0)):
        await add(ledger, lesson("one", payer=paying("first")))
        thinking = await claim(ledger, "a")
        assert thinking is not None
        await add(ledger, lesson("two", payer=paying("second")))
        poor = replace(thinking, payer=paying("first", 0))
        assert not await ledger.database.write(partial(rows.note_payment, lesson=poor))
        await ledger.database.write(partial(leave, lesson=poor))
        paid = await claim(ledger, "b")
        assert paid is not None and paid.payer == paying("second")
        await ledger.database.write(partial(rows.give_back_lesson, lesson=paid, due_at=NOW, attempts=0))


async def test_what_is_left_pays_for_the_other_parts_of_a_long_conversation(ledger: Ledger) -> None:
    await begin(ledger)
    await add(ledger, lesson("0" * 30_000, "1" * 30_000, payer=paying("run")))
    first = await claim(ledger, "a")
    assert first is not None and await finish(ledger, replace(first, payer=paying("run", 20_000)))
    second = await claim(ledger, "b")
    assert second is not None and second.payer == paying("run", 20_000)

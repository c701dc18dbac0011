"""Who may work now: never more than may, each user in turn, and nobody is forgotten."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from deerflow.subagents.turns import FairTurns, Places


class Bench:
    """Tasks that work until they are told to end."""

    def __init__(self, in_all: int, per_user: int) -> None:
        self.turns = FairTurns(lambda: Places(in_all, per_user))
        self.order: list[str] = []
        self.working: list[str] = []
        self.queued: dict[str, int] = {}
        self.ends: dict[str, asyncio.Event] = {}

    def come(self, name: str) -> "asyncio.Task[None]":
        self.ends[name] = asyncio.Event()
        return asyncio.create_task(self._work(name))

    async def _work(self, name: str) -> None:
        async with self.turns.turn(name[0], lambda ahead: self.queued.update({name: ahead})):
            self.order.append(name)
            self.working.append(name)
            try:
                await self.ends[name].wait()
            finally:
                self.working.remove(name)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def end_all(bench: Bench, tasks: list["asyncio.Task[None]"]) -> int:
    """End one after the other; how many worked at once at most."""
    most = 0
    while not all(task.done() for task in tasks):
        await settle()
        most = max(most, len(bench.working))
        if bench.working:
            bench.ends[bench.working[0]].set()
    return most


async def test_users_take_turns_however_many_tasks_one_of_them_has() -> None:
    bench = Bench(in_all=1, per_user=1)
    tasks = [bench.come(name) for name in ("a1", "a2", "a3", "a4", "b1", "b2")]
    await settle()
    async with asyncio.timeout(5):
        await end_all(bench, tasks)
    assert bench.order == ["a1", "a2", "b1", "a3", "b2", "a4"]
    assert bench.queued["a2"] == 0 and bench.queued["b1"] == 3


async def test_one_user_cannot_take_every_place() -> None:
    bench = Bench(in_all=3, per_user=2)
    tasks = [bench.come(name) for name in ("a1", "a2", "a3", "b1")]
    await settle()
    assert bench.working == ["a1", "a2", "b1"]
    async with asyncio.timeout(5):
        await end_all(bench, tasks)


async def test_whoever_gives_up_waiting_takes_no_place_and_leaves_none_empty() -> None:
    bench = Bench(in_all=1, per_user=1)
    tasks = [bench.come(name) for name in ("a1", "a2", "b1", "b2")]
    await settle()
    tasks[2].cancel()
    tasks[1].cancel()
    await settle()
    # Let in and cancelled in one moment: the place goes to the next.
    bench.ends["a1"].set()
    tasks[0].cancel()
    async with asyncio.timeout(5):
        await end_all(bench, tasks)
    assert bench.order == ["a1", "b2"]


@given(
    users=st.lists(st.sampled_from("abc"), max_size=12),
    in_all=st.integers(1, 4),
    per_user=st.integers(1, 4),
    cancelled=st.sets(st.integers(0, 11), max_size=4),
)
def test_everybody_works_once_and_never_more_than_may(
    users: list[str], in_all: int, per_user: int, cancelled: set[int]
) -> None:
    async def scene() -> None:
        bench = Bench(in_all, per_user)
        names = [f"{user}{number}" for number, user in enumerate(users)]
        tasks = [bench.come(name) for name in names]
        await settle()
        gone = {names[index] for index in cancelled if index < len(names) and names[index] not in bench.order}
        for name in gone:
            tasks[names.index(name)].cancel()
        async with asyncio.timeout(5):
            most = await end_all(bench, tasks)
        assert most <= in_all
        assert sorted(bench.order) == sorted(set(names) - gone)

    asyncio.run(scene())

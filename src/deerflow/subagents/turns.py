"""Who may work now, when more want to than may at once: each user in turn, and each user's tasks in order."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Places:
    """How many may work at once."""

    in_all: int
    per_user: int


class FairTurns:
    """Lets in as many as there are places for; who waits is let in by turns of users, not of tasks."""

    def __init__(self, places: Callable[[], Places]) -> None:
        """`places` is asked whenever somebody comes or goes, so that its limits may change."""
        self._places = places
        self._working: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, user: str, on_wait: Callable[[int], None]) -> AsyncIterator[None]:
        """Work for `user`. When that has to wait, `on_wait` hears how many are before it."""
        ahead = sum(map(len, self._waiting.values()))
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(place)
        self._let_in()
        if not place.done():
            on_wait(ahead)
        try:
            await place
            yield
        finally:
            self._leave(user, place)

    def _leave(self, user: str, place: "asyncio.Future[None]") -> None:
        # Whoever is cancelled may have been let in at the same moment, so only the place itself knows.
        if place.done() and not place.cancelled():
            self._working[user] -= 1
            self._working += Counter()  # forgets who has nobody at work
        elif user in self._waiting:
            self._waiting[user].remove(place)
            if not self._waiting[user]:
                del self._waiting[user]
        self._let_in()

    def _let_in(self) -> None:
        places = self._places()
        while self._working.total() < places.in_all:
            user = next((each for each in self._waiting if self._working[each] < places.per_user), None)
            if user is None:
                return
            queue = self._waiting.pop(user)
            self._working[user] += 1
            queue.popleft().set_result(None)
            if queue:  # behind the others: their turn comes first
                self._waiting[user] = queue

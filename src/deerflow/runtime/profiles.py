"""What people say about themselves, which every agent of theirs is told."""

import time
from collections.abc import Callable
from functools import partial

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.principal import Principal
from deerflow.persistence.database import Database
from deerflow.persistence.profiles import read_profile, write_profile

MOST_CHARS = 8000
FRESH_S = 10.0
"""How long a run may be told what another process has changed meanwhile."""
MOST_KEPT = 1000


class Profiles:
    """The profile of each user; what was read a moment ago is not read again for every run."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._kept: dict[str, tuple[str, float]] = {}

    async def get(self, who: Principal) -> str:
        """What somebody says about themselves; empty when they have said nothing."""
        return await self._database.read(partial(read_profile, owner=who.user_id))

    async def put(self, who: Principal, content: str) -> str:
        """Keep what somebody says about themselves.

        Raises:
            InvalidRequest: it is too long.
        """
        text = content.strip().replace("\0", "\ufffd")
        if len(text) > MOST_CHARS:
            raise InvalidRequest(f"content has {len(text)} characters; a profile has at most {MOST_CHARS}")
        await self._database.write(partial(write_profile, owner=who.user_id, content=text))
        self._kept.pop(who.user_id, None)
        return text

    async def for_run(self, owner: str) -> str:
        """What the agents of a user are told."""
        content, read_at = self._kept.get(owner, ("", -FRESH_S))
        now = self._clock()
        if now - read_at < FRESH_S:
            return content
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        content = await self._database.read(partial(read_profile, owner=owner))
        self._kept[owner] = content, now
        return content

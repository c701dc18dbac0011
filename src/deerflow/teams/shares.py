"""Agents and skills that people share with each other, as runs and lists of agents and skills see them."""

from collections.abc import Callable, Sequence
from functools import partial

from deerflow.domain.identity import Need, SharedKind, SharedThing, require_share, split_address
from deerflow.persistence.engine.database import Database
from deerflow.teams import queries as rows
from deerflow.teams.model import SharedResource

MAX_KNOWN = 10_000
"""Maximum number of people whose shared things are remembered."""


class SharedThings:
    """Agents and skills that others share with people.

    What reads agents and skills cannot wait for the database. It uses what `refresh` has found, which every run and
    every request for agents or skills calls first.
    """

    def __init__(self, database: Database, has_people: Callable[[], bool]) -> None:
        self._database = database
        self._has_people = has_people
        self._known: dict[str, Sequence[SharedThing]] = {}

    def get_known(self, user_id: str) -> Sequence[SharedThing]:
        """Return what others share with a person, as the last `refresh` has found it."""
        return self._known.get(user_id, ())

    async def refresh(self, user_id: str) -> Sequence[SharedThing]:
        """Read what others share with a person."""
        if not self._has_people():
            return ()
        found = await self._database.look_up(partial(rows.list_shared_things, user_id=user_id))
        if found:
            while len(self._known) >= MAX_KNOWN:
                self._known.pop(next(iter(self._known)))
            self._known[user_id] = found
        else:
            self._known.pop(user_id, None)
        return found

    async def resolve(self, user_id: str, kind: SharedKind, address: str, need: Need) -> tuple[str, str]:
        """Return the owner and the name of an agent or skill that a person names; raises what `require_share` does."""
        owner, name = split_address(address, user_id)
        if owner != user_id:
            require_share(await self.refresh(user_id), kind, address, need)
        return owner, name

    async def accept_skill(self, user_id: str, address: str, *, accepted: bool) -> None:
        """Switch a shared skill on or off for a person; raises what `require_share` does."""
        thing = require_share(await self.refresh(user_id), "skill", address, "read")
        await self._database.write(partial(rows.accept_skill, user_id=user_id, thing=thing, accepted=accepted))
        await self.refresh(user_id)

    async def end(self, owner: str, kind: SharedKind, name: str) -> None:
        """End the grants of an agent or skill that was deleted, or that is new and has the name of a deleted one."""
        if self._has_people():
            await self._database.write(partial(rows.end_grants, resource=SharedResource(owner, kind, name)))

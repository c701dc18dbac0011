"""People of chat apps: codes that connect a chat account to a user, and the rights they have."""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from deerflow.accounts.authenticator import Authenticator
from deerflow.accounts.model import hash_secret
from deerflow.accounts.queries import find_account
from deerflow.channels import queries as rows
from deerflow.channels.adapter import ChatSender
from deerflow.domain.errors import NotFound
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.persistence.engine.database import Database

CODE_LIFE = timedelta(minutes=10)
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Characters of codes; those that look alike are left out."""
CODE_CHARS = 10


@dataclass(frozen=True, slots=True)
class ConnectCode:
    """Code that connects one chat account, as it is shown once."""

    code: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class ChannelPeople:
    """Users of chat accounts: those that are connected or allowed."""

    database: Database
    authenticator: Authenticator

    async def connect(self, received: rows.ReceivedUpdate, sender: ChatSender, code: str) -> Principal:
        """Connect a person to the user of a code, and return the user.

        Raises:
            NotFound: The code is not valid.
            AlreadyReceived: The update was received before.
        """
        person = rows.ChannelPerson(
            received.channel, received.account, sender.external_id, "", sender.name, datetime.now(UTC)
        )
        change = partial(rows.redeem_code, code_hash=hash_code(code), person=person, received=received)
        owner = await self.database.write(change)
        who = await self.find_user(owner)
        if who is None:
            raise NotFound("the account of the code is disabled")
        return who

    async def find(
        self, channel: str, account: str, sender: ChatSender, allowed: Collection[str | int] = ()
    ) -> Principal | None:
        """Return the user with whose rights a person acts; None for unknown people.

        People in `allowed` are the local user, on servers without accounts.
        """
        query = partial(rows.find_person, channel=channel, account=account, external_id=sender.external_id)
        person = await self.database.look_up(query)
        if person is not None:
            return await self.find_user(person.owner)
        if sender.external_id not in {str(each) for each in allowed} or await self.authenticator.needs_login():
            return None
        return LOCAL_USER

    async def find_user(self, owner: str) -> Principal | None:
        """Return a user who may use the server now."""
        if not await self.authenticator.needs_login():
            return LOCAL_USER if owner == LOCAL_USER.user_id else None
        try:
            account = await self.database.look_up(partial(find_account, owner=owner))
        except NotFound:
            return None
        return Principal(account.user_id, is_admin=account.is_admin) if account.is_active else None


async def create_code(database: Database, who: Principal) -> ConnectCode:
    """Return a code with which a chat account is connected to a user."""
    code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_CHARS))
    expires_at = datetime.now(UTC) + CODE_LIFE
    change = partial(rows.insert_code, owner=who.user_id, code_hash=hash_code(code), expires_at=expires_at)
    await database.write(change)
    return ConnectCode(code, expires_at)


def hash_code(code: str) -> str:
    """Return the hash under which a code is stored."""
    return hash_secret(f"channel\0{code.strip().upper()}")

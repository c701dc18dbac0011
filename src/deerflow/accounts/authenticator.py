"""Sessions and API tokens of requests: who they belong to, and the end of open requests when they are revoked."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol

from deerflow.accounts import queries as rows
from deerflow.accounts.model import API_TOKEN, SECRET, Credential, CredentialKind, hash_secret
from deerflow.config.sections.base import Settings
from deerflow.config.sections.server import UsersConfig
from deerflow.domain.errors import StorageUnavailable
from deerflow.persistence.engine.database import Database

logger = logging.getLogger(__name__)

MAX_AGE_S = 0.8
"""Age after which a credential is read again: other processes may have revoked it."""
MAX_CACHED = 10_000
USE_INTERVAL = timedelta(minutes=1)
"""Time between two records of the use of a credential."""
CHUNK = 500
"""Credentials that one query looks for."""


class OpenRequest(Protocol):
    """Request that has not ended, with its credential."""

    credential: Credential
    secret_hash: str

    async def has_access(self) -> bool:
        """Return whether the thread of the request is still shared with its person."""
        ...

    def revoke(self) -> None:
        """End the request: its credential is no longer valid, or gives other rights."""


@dataclass(frozen=True, slots=True)
class CachedCredential:
    """Credential as it was read a moment ago."""

    credential: Credential
    read_at: float


@dataclass
class Authenticator:
    """Finds the owners of sessions and API tokens, and knows the open requests of each."""

    database: Database
    settings: Settings[UsersConfig]
    is_login_required: bool = False
    """True if every request needs a credential. Once it is true it stays so."""
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = partial(datetime.now, UTC)
    _cache: dict[str, CachedCredential] = field(default_factory=dict)
    _version: int = 0
    _checked_at: float = float("-inf")
    _open: set[OpenRequest] = field(default_factory=set)
    _timer: asyncio.TimerHandle | None = None
    _checking: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """True if no login is required; read from the database in the last second."""
        return not self.is_login_required and self.clock() - self._checked_at <= MAX_AGE_S

    async def needs_login(self) -> bool:
        """Return whether requests need a credential: when there is an account. Looks at most once a second."""
        if not self.is_login_required and not self.is_open:
            self.is_login_required = await self.database.look_up(rows.has_accounts)
            self._checked_at = self.clock()
        return self.is_login_required

    async def find(self, kind: CredentialKind, secret: str) -> Credential | None:
        """Return the valid credential with this secret, or None."""
        if not (SECRET if kind == "session" else API_TOKEN).fullmatch(secret):
            return None
        hashed = hash_secret(secret)
        cached = self._cache.get(hashed)
        if cached is not None and self.clock() - cached.read_at <= MAX_AGE_S:
            found: Credential | None = cached.credential
        else:
            found = await self._read(hashed)
        return found if found is not None and found.kind == kind else None

    async def _read(self, hashed: str) -> Credential | None:
        version, read_at, now = self._version, self.clock(), self.now()
        query = partial(rows.find_credentials, hashes=[hashed], now=now, idle=self._idle)
        credential, used_at = (await self.database.look_up(query)).get(hashed, (None, now))
        if credential is None:
            self._cache.pop(hashed, None)
            return None
        if now - used_at >= USE_INTERVAL:
            await self._record_use(credential, now)
        if version == self._version:  # else it may have been revoked while it was read
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            self._cache[hashed] = CachedCredential(credential, read_at)
        return credential

    async def _record_use(self, credential: Credential, now: datetime) -> None:
        try:
            await self.database.write(partial(rows.record_use, credential=credential, now=now))
        except StorageUnavailable as problem:  # a full disk does not keep people from reading
            logger.warning("the use of a credential was not recorded: %s", problem)

    @property
    def _idle(self) -> timedelta:
        return timedelta(hours=self.settings.current.session_idle_hours)

    def register(self, request: OpenRequest) -> None:
        """Note that a request is open. While there are any, their credentials are read again every second."""
        self._open.add(request)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MAX_AGE_S, self._start_check)

    @property
    def open_requests(self) -> int:
        """Number of open requests."""
        return len(self._open)

    def unregister(self, request: OpenRequest) -> None:
        """Note that a request has ended."""
        self._open.discard(request)

    async def apply_changes(self) -> None:
        """Read all credentials again: some were revoked, or their accounts changed."""
        self._version += 1
        self._cache.clear()
        self.is_login_required = self.is_login_required or await self.database.read(rows.has_accounts)
        await self._check()

    def _start_check(self) -> None:
        self._timer = None
        if self._open:
            self._checking = asyncio.create_task(self._check_again())

    async def _check_again(self) -> None:
        try:
            await self._check()
        except StorageUnavailable as problem:
            logger.warning("open requests were not checked: %s", problem)
        finally:
            if self._open and self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(MAX_AGE_S, self._start_check)

    async def _check(self) -> None:
        """End the open requests whose credentials are not valid or give other rights, or whose grants have ended."""
        asked = tuple(self._open)
        hashes = list({request.secret_hash for request in asked})
        valid: dict[str, Credential] = {}
        for start in range(0, len(hashes), CHUNK):
            valid |= await self._read_valid(hashes[start : start + CHUNK])
        for request in asked:
            is_valid = request.credential.has_same_rights(valid.get(request.secret_hash))
            if not is_valid or not await request.has_access():
                request.revoke()

    async def _read_valid(self, hashes: Sequence[str]) -> dict[str, Credential]:
        query = partial(rows.find_credentials, hashes=hashes, now=self.now(), idle=self._idle)
        found = await self.database.read(query)
        return {hashed: credential for hashed, (credential, _) in found.items()}

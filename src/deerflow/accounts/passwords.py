"""Password hashes with Argon2id. Few are computed at a time: each takes 19 MiB and a core for a while."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from deerflow.accounts.model import new_secret, normalize_password
from deerflow.domain.errors import TooManyAttempts

if TYPE_CHECKING:
    from argon2 import PasswordHasher

T = TypeVar("T")
MEMORY_KIB, TIME_COST, PARALLELISM = 19 * 1024, 2, 1
"""Minimum of the OWASP cheat sheet on password storage."""
SLOTS, MAX_WAITING = 2, 20
"""Hashes that are computed at the same time, and requests that may wait for them."""
RETRY_S = 2


@dataclass(frozen=True, slots=True)
class PasswordCheck:
    """Result of a check; `new_hash` replaces a hash that was made with other parameters."""

    is_correct: bool
    new_hash: str | None = None


class Passwords:
    """Hashes and checks passwords in threads."""

    def __init__(self, slots: int = SLOTS, max_waiting: int = MAX_WAITING) -> None:
        self._free = asyncio.Semaphore(slots)
        self._max_waiting = max_waiting
        self._waiting = 0
        self._hasher: PasswordHasher | None = None
        self._decoy = ""

    async def hash(self, password: str) -> str:
        """Return the hash of a password.

        Raises:
            TooManyAttempts: Too many requests are waiting.
        """
        return await self._run(lambda: self._load().hash(normalize_password(password)))

    async def verify(self, stored: str | None, password: str) -> PasswordCheck:
        """Compare a password with a stored hash. Without one, do the same work and fail.

        Raises:
            TooManyAttempts: Too many requests are waiting.
        """
        return await self._run(lambda: self._verify(stored, normalize_password(password)))

    @property
    def is_busy(self) -> bool:
        """True if all slots are in use."""
        return self._free.locked()

    async def _run(self, work: Callable[[], T]) -> T:
        if self.is_busy and self._waiting >= self._max_waiting:
            raise TooManyAttempts("too many logins at the same time; try again in a moment", RETRY_S)
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        task = asyncio.create_task(asyncio.to_thread(work))
        task.add_done_callback(lambda _: self._free.release())
        return await asyncio.shield(task)  # a thread cannot be stopped: it keeps its slot until it has ended

    def _load(self) -> "PasswordHasher":
        from argon2 import PasswordHasher  # with the first password, not with the server

        if self._hasher is None:
            hasher = PasswordHasher(TIME_COST, MEMORY_KIB, PARALLELISM)
            self._decoy = hasher.hash(new_secret())
            self._hasher = hasher
        return self._hasher

    def _verify(self, stored: str | None, password: str) -> PasswordCheck:
        from argon2.exceptions import InvalidHashError, VerificationError

        hasher = self._load()
        try:
            hasher.verify(stored or self._decoy, password)
        except (VerificationError, InvalidHashError):
            return PasswordCheck(is_correct=False)
        if stored is None:
            return PasswordCheck(is_correct=False)
        return PasswordCheck(True, hasher.hash(password) if hasher.check_needs_rehash(stored) else None)

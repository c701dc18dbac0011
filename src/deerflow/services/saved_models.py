"""Saved models of all users in memory, as part of the model registry."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deerflow.config.loader.files import FileStamp, replace_file
from deerflow.config.sections.models import ModelConfig
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import new_id
from deerflow.models.connection import find_provider, make_model_config
from deerflow.persistence.encryption import DecryptionError, TokenCipher
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries import model_connections as rows

logger = logging.getLogger(__name__)

MAX_AGE_S = 10.0
"""Age after which models are read again where no file tells of changes: servers on other machines, with PostgreSQL."""


@dataclass(slots=True)
class SavedModels:
    """Saved models of all users in memory, for the model registry; read again when another process has changed them."""

    database: Database
    cipher: TokenCipher
    stamp_file: Path
    """File that is replaced after every change, for the other processes on this machine."""
    is_shared: bool
    """True if processes on other machines may use the database."""
    environment: Mapping[str, str]
    remember_secrets: Callable[[Sequence[str]], None] = field(repr=False)
    """Receives the keys, which are then masked in logs and errors."""
    clock: Callable[[], float] = time.monotonic
    _models: Mapping[str, tuple[ModelConfig, ...]] = field(default_factory=dict)
    _stamp: FileStamp | None = None
    _read_at: float = 0.0

    def get(self, owner: str) -> tuple[ModelConfig, ...]:
        """Return the models of a user as they were last read."""
        return self._models.get(owner, ())

    async def refresh(self) -> None:
        """Read the models again if another process has changed them. Looks at one file, and rarely at the database."""
        stamp = FileStamp.read(self.stamp_file)
        is_old = self.is_shared and self.clock() - self._read_at > MAX_AGE_S
        if stamp != self._stamp or is_old:
            await self._read(stamp)

    async def publish(self) -> None:
        """Read the models again after a change, and tell the other processes on this machine."""
        await asyncio.to_thread(self._touch)
        await self._read(FileStamp.read(self.stamp_file))

    def _touch(self) -> None:
        self.stamp_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self.stamp_file, new_id().encode())

    async def _read(self, stamp: FileStamp) -> None:
        found = await self.database.read(rows.list_connections)
        models, keys = await asyncio.to_thread(self._decrypt, found) if found else ({}, [])
        self._models, self._stamp, self._read_at = models, stamp, self.clock()
        self.remember_secrets(keys)

    def _decrypt(self, found: Sequence[rows.ConnectionRow]) -> tuple[dict[str, tuple[ModelConfig, ...]], list[str]]:
        models: dict[str, tuple[ModelConfig, ...]] = {}
        keys = []
        for row in found:
            key = decrypt_key(self.cipher, row)
            if key is not None:
                keys.append(key)
            models[row.owner] = models.get(row.owner, ()) + tuple(self._build(row, key))
        return models, keys

    def _build(self, row: rows.ConnectionRow, key: str | None) -> Sequence[ModelConfig]:
        built = []
        for saved in row.models:
            try:
                provider = find_provider(row.provider, self.environment)
                entry = saved.settings.get("entry", {})
                built.append(make_model_config(provider, row.base_url, key, saved.name, saved.model, entry))
            except (InvalidRequest, ValueError) as problem:  # saved by a newer version
                logger.error("saved model %r is left out: %s", saved.name, type(problem).__name__)
        return built


def decrypt_key(cipher: TokenCipher, row: rows.ConnectionRow) -> str | None:
    """Return the key of a connection; None if it has none, or one that cannot be decrypted. Blocks."""
    if row.sealed is None:
        return None
    try:
        return cipher.decrypt(row.sealed, associated_data(row.owner, row.base_url)).decode()
    except DecryptionError as problem:
        logger.error("the key of model connection %s cannot be decrypted: %s", row.connection_id, problem)
        return None


def associated_data(owner: str, base_url: str) -> str:
    """Return the associated data of an encrypted key: it is useless for another user or address."""
    return f"model connection\0{owner}\0{base_url}"

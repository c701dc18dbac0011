"""Saved models of all users in memory, as part of the model registry."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from deerflow.config.loader.files import FileStamp, replace_file
from deerflow.config.sections.memory import LOCAL_PROVIDERS, EmbeddingConfig
from deerflow.config.sections.models import ModelConfig
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import LOCAL_USER, new_id
from deerflow.models.connection import find_provider, make_model_config
from deerflow.persistence.encryption import TokenCipher
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
    embedding: EmbeddingConfig | None = None
    """Embedding model that an administrator has connected, with its key."""
    _models: Mapping[str, tuple[ModelConfig, ...]] = field(default_factory=dict)
    _shared: tuple[ModelConfig, ...] = ()
    _stamp: FileStamp | None = None
    _read_at: float = 0.0

    def get(self, owner: str) -> tuple[ModelConfig, ...]:
        """Return the models of a user as they were last read, then those that administrators share."""
        own = self._models.get(owner, ())
        names = {model.name for model in own}
        return own + tuple(model for model in self._shared if model.name not in names)

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
        read = await asyncio.to_thread(self._decrypt, found)
        self._models, self._shared, self.embedding = read.models, read.shared, read.embedding
        self._stamp, self._read_at = stamp, self.clock()
        self.remember_secrets(read.keys)

    def _decrypt(self, found: Sequence[rows.ConnectionRow]) -> "ReadModels":
        models: dict[str, tuple[ModelConfig, ...]] = {}
        shared: tuple[ModelConfig, ...] = ()
        keys, embedding = [], None
        for row in found:
            key = rows.decrypt_key(self.cipher, row)
            if key is not None:
                keys.append(key)
            if row.owner == rows.EMBEDDING_OWNER:
                embedding = make_embedding_config(row, key)
                continue
            built = tuple(self._build(row, key))
            models[row.owner] = models.get(row.owner, ()) + built
            shared += built if row.is_shared else ()
        return ReadModels(models, shared, embedding, keys)

    def _build(self, row: rows.ConnectionRow, key: str | None) -> Sequence[ModelConfig]:
        built = []
        for saved in row.models:
            try:
                provider = find_provider(row.provider, self.environment)
                entry = saved.settings.get("entry", {})
                make = partial(make_model_config, is_public_only=is_public_only(row, saved))
                built.append(make(provider, row.base_url, key, saved.name, saved.model, entry))
            except (InvalidRequest, ValueError) as problem:  # saved by a newer version
                logger.error("saved model %r is left out: %s", saved.name, type(problem).__name__)
        return built


@dataclass(frozen=True, slots=True)
class ReadModels:
    """Models by owner, those that are shared, the embedding model, and all keys."""

    models: Mapping[str, tuple[ModelConfig, ...]]
    shared: tuple[ModelConfig, ...]
    embedding: EmbeddingConfig | None
    keys: Sequence[str] = field(repr=False)


def is_public_only(row: rows.ConnectionRow, saved: rows.SavedModelRow) -> bool:
    """Return whether a model may be at public addresses only: one that was not saved by an administrator."""
    return not saved.settings.get(rows.SAVED_BY_ADMIN, row.owner == LOCAL_USER.user_id)


def make_embedding_config(row: rows.ConnectionRow, key: str | None) -> EmbeddingConfig | None:
    """Return the settings of the saved embedding model; None if its key cannot be read."""
    if row.provider in LOCAL_PROVIDERS:
        return EmbeddingConfig.model_validate({"provider": row.provider})
    if not row.models or (row.sealed is not None and key is None):
        return None
    return EmbeddingConfig(base_url=row.base_url, model=row.models[-1].model, api_key=key)

"""Chat apps that an administrator has connected on the page. Their settings are encrypted, and never returned."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson
from pydantic import ValidationError

from deerflow.config.sections.channels import ChannelsConfig, ChatAppConfig
from deerflow.config.source import ConfigSource
from deerflow.domain.errors import InvalidRequest
from deerflow.persistence.encryption import DecryptionError, TokenCipher
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries import channels as rows
from deerflow.persistence.queries.channels import SavedChannelRow

logger = logging.getLogger(__name__)

MIN_SECRET_CHARS = 6


@dataclass(slots=True)
class SavedChannels:
    """Saved settings of chat apps. Those of `config.yaml` with the same name win."""

    database: Database
    source: ConfigSource
    cipher: TokenCipher
    _read: Mapping[str, tuple[SavedChannelRow, ChatAppConfig | None]] = field(default_factory=dict)

    async def find_enabled(self, config: ChannelsConfig) -> Mapping[str, ChatAppConfig]:
        """Return the settings of all chat apps to connect to, by name."""
        saved = await self.read()
        others = {name: app for name, app in saved.items() if app is not None and getattr(config, name) is None}
        return {**config.find_enabled(), **others}

    async def read(self) -> Mapping[str, ChatAppConfig | None]:
        """Return the saved settings by name; None where they cannot be decrypted."""
        found = {row.name: row for row in await self.database.look_up(rows.list_saved_channels)}
        if {name: row for name, (row, _) in self._read.items()} != found:
            self._read = await asyncio.to_thread(lambda: {name: (row, self._open(row)) for name, row in found.items()})
            apps = [app for _, app in self._read.values() if app is not None]
            self.source.remember_secrets([secret for app in apps for secret in list_secrets(app)], "channels")
        return {name: app for name, (_, app) in self._read.items()}

    async def seal(self, name: str, settings: Mapping[str, str]) -> bytes:
        """Return settings encrypted for a chat app."""
        return await asyncio.to_thread(self.cipher.encrypt, orjson.dumps(dict(settings)), associated_data(name))

    def _open(self, row: SavedChannelRow) -> ChatAppConfig | None:
        try:
            settings = orjson.loads(self.cipher.decrypt(row.sealed, associated_data(row.name)))
            return build_app(row.name, settings)
        except DecryptionError as problem:
            logger.error("the settings of channel %s cannot be decrypted: %s", row.name, problem)
        except InvalidRequest:  # saved by another version
            logger.error("the saved settings of channel %s are not valid here", row.name)
        return None


def build_app(name: str, settings: Mapping[str, str]) -> ChatAppConfig:
    """Return the settings of a chat app as a section of the configuration.

    Raises:
        InvalidRequest: They are not valid; the text has no values, which are secrets.
    """
    if name not in ChannelsConfig.model_fields:
        raise InvalidRequest(f"unknown chat app {name!r}")
    try:
        app = getattr(ChannelsConfig.model_validate({name: dict(settings)}), name)
    except ValidationError as problem:
        wrong = ", ".join(str(error["loc"][-1]) for error in problem.errors(include_input=False))
        raise InvalidRequest(f"missing or invalid: {wrong}") from None
    if not isinstance(app, ChatAppConfig):
        raise InvalidRequest(f"unknown chat app {name!r}")
    return app


def select_apps(apps: Mapping[str, ChatAppConfig]) -> ChannelsConfig:
    """Return a configuration that has these chat apps only."""
    return ChannelsConfig().model_copy(update=dict(apps))


def list_secrets(app: ChatAppConfig) -> list[str]:
    """Return the texts that were entered for a chat app: any of them may be a secret."""
    names = type(app).model_fields.keys() - ChatAppConfig.model_fields.keys()
    required = [name for name in names if type(app).model_fields[name].is_required()]
    return [value for name in required if len(value := str(getattr(app, name))) >= MIN_SECRET_CHARS]


def associated_data(name: str) -> str:
    """Return the associated data of encrypted settings: they are useless for another chat app."""
    return f"channel\0{name}"

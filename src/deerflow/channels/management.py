"""Management of chat apps, for API, page and terminal. It works on the database: the holder of a channel follows."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, get_args

from pydantic.fields import FieldInfo

from deerflow.channels import queries as channel_rows
from deerflow.channels.adapter import BotAccount, ChannelError
from deerflow.channels.apps import create_adapters
from deerflow.channels.lease import LOCKS, is_alive, is_database_shared
from deerflow.channels.people import ConnectCode, create_code
from deerflow.channels.queries import ChannelPerson, OutgoingMessage
from deerflow.channels.saved import SavedChannels, build_app, select_apps
from deerflow.config.sections.channels import ChannelsConfig, ChatAppConfig
from deerflow.config.source import ConfigSource
from deerflow.domain.errors import ConfigError, Conflict, InvalidRequest, NotFound
from deerflow.domain.identity import Principal
from deerflow.persistence.encryption import TokenCipher
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries import channels as rows
from deerflow.persistence.queries.channels import ChannelLeaseRow

NONE_CONFIGURED = "no chat app is configured: add one to `channels:` of config.yaml, or connect one on the page"
VARIABLE = re.compile(r", as \$[A-Z_]+")
"""Advice for `config.yaml` in the description of a setting."""
TEST_TEXT = "✅ DeerFlow"
ChannelSource = Literal["config", "page"]


@dataclass(frozen=True, slots=True)
class ChatAppField:
    """Setting of a chat app that is entered to connect it."""

    name: str
    description: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class ChatApp:
    """Chat app that can be connected."""

    name: str
    title: str
    fields: Sequence[ChatAppField]
    is_configured: bool
    """True if `config.yaml` has it, which then wins."""


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """Channel as people see it."""

    name: str
    title: str
    source: ChannelSource
    is_overridden: bool
    """True if `config.yaml` has the same chat app, which is used instead."""
    is_readable: bool
    """False if the saved settings cannot be decrypted: they must be entered again."""
    is_running: bool
    """True if a server holds the channel."""
    bot: str = ""
    connected_since: datetime | None = None
    last_error: str | None = None
    last_error_at: datetime | None = None
    received: int = 0
    sent: int = 0


@dataclass(frozen=True, slots=True)
class ChannelManager:
    """Chat apps of a server, and the chat accounts of people."""

    database: Database
    source: ConfigSource
    cipher: TokenCipher
    _saved: SavedChannels = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_saved", SavedChannels(self.database, self.source, self.cipher))

    def list_apps(self) -> list[ChatApp]:
        """Return the chat apps that can be connected, with the settings to be entered."""
        config = self._config
        return [
            ChatApp(name, title_of(name), list_fields(app), getattr(config, name) is not None)
            for name, app in find_apps().items()
        ]

    async def list(self) -> list[ChannelInfo]:
        """Return the channels of `config.yaml`, then those that were connected on the page."""
        config, saved = self._config, await self._saved.read()
        leases = {row.name: row for row in await self.database.look_up(rows.list_leases)}
        found = [self._describe(name, "config", leases.get(name)) for name in config.find_enabled()]
        for name, app in saved.items():
            wins = getattr(config, name, None) is not None
            lease = None if wins else leases.get(name)
            found.append(self._describe(name, "page", lease, is_overridden=wins, is_readable=app is not None))
        return found

    async def find_enabled(self) -> Mapping[str, ChatAppConfig]:
        """Return the settings of all chat apps to connect to, by name."""
        return await self._saved.find_enabled(self._config)

    async def check(self, name: str, settings: Mapping[str, str]) -> BotAccount:
        """Log in with settings and return the account of the bot. Nothing is saved.

        Raises:
            InvalidRequest: The settings are not valid, or the chat app refuses them; the text says why.
        """
        app = build_app(name, settings)
        secrets = [value for value in settings.values() if value]
        try:
            (adapter,) = create_adapters(select_apps({name: app}))
        except ConfigError as problem:
            raise InvalidRequest(str(problem)) from None
        try:
            return await adapter.log_in()
        except ChannelError as problem:
            raise InvalidRequest(mask(str(problem), secrets)) from None
        finally:
            await adapter.aclose()

    async def save(self, name: str, settings: Mapping[str, str]) -> BotAccount:
        """Connect a chat app with settings that work, in place of those that are saved.

        Raises:
            Conflict: `config.yaml` has the chat app.
            InvalidRequest: The settings do not work.
        """
        if getattr(self._config, name, None) is not None:
            raise Conflict(f"config.yaml has {name}, which is used; change it there")
        bot = await self.check(name, settings)
        sealed = await self._saved.seal(name, settings)
        await self.database.write(partial(rows.save_channel, name=name, sealed=sealed))
        return bot

    async def remove(self, name: str) -> None:
        """Disconnect a chat app that was connected on the page, and delete its settings, or raise `NotFound`."""
        await self.database.write(partial(rows.delete_saved_channel, name=name))

    async def restart(self, name: str) -> None:
        """Let the server that holds a channel connect again, or raise `NotFound`."""
        await self._require(name)
        await self.database.write(partial(rows.request_restart, name=name))

    async def send_test(self, who: Principal, name: str) -> None:
        """Put a short message to the user into the outbox of a channel.

        Raises:
            NotFound: There is no such channel, or the user has not written to its bot.
        """
        await self._require(name)
        find = partial(channel_rows.find_own_chat, channel=name, owner=who.user_id)
        message = OutgoingMessage(await self.database.read(find), who.user_id, "text", body=TEST_TEXT)
        insert = partial(channel_rows.insert_outgoing, owner=who.user_id, messages=[message])
        await self.database.write(insert)

    async def create_code(self, who: Principal, name: str | None = None) -> ConnectCode:
        """Return a code with which a chat account is connected to a user.

        Raises:
            NotFound: There is no channel of this name.
            InvalidRequest: There is no channel at all.
        """
        if name is not None:
            await self._require(name)
        elif not await self.find_enabled():
            raise InvalidRequest(NONE_CONFIGURED)
        return await create_code(self.database, who)

    async def list_accounts(self, who: Principal) -> Sequence[ChannelPerson]:
        """Return the chat accounts of a user."""
        return await self.database.look_up(partial(channel_rows.list_people, owner=who.user_id))

    async def disconnect(self, who: Principal, name: str, external_id: str) -> None:
        """Disconnect a chat account of a user, or raise `NotFound`."""
        delete = partial(channel_rows.delete_person, owner=who.user_id, channel=name, external_id=external_id)
        await self.database.write(delete)

    @property
    def _config(self) -> ChannelsConfig:
        return self.source.current.config.channels

    async def _require(self, name: str) -> None:
        if name not in await self.find_enabled():
            raise NotFound(f"no chat app {name!r} is connected")

    def _describe(
        self,
        name: str,
        source: ChannelSource,
        lease: ChannelLeaseRow | None,
        *,
        is_overridden: bool = False,
        is_readable: bool = True,
    ) -> ChannelInfo:
        state: Mapping[str, Any] = {} if lease is None else lease.state
        age_s = 0.0 if lease is None else (datetime.now(UTC) - lease.updated_at).total_seconds()
        loaded = self.source.current
        is_shared = is_database_shared(loaded)
        is_running = lease is not None and is_alive(lease, loaded.home / LOCKS, age_s, is_shared=is_shared)
        return ChannelInfo(
            name,
            title_of(name),
            source,
            is_overridden,
            is_readable,
            is_running,
            state.get("bot", ""),
            read_time(state.get("connected_since")) if is_running else None,
            state.get("last_error"),
            read_time(state.get("last_error_at")),
            state.get("received", 0),
            state.get("sent", 0),
        )


def find_apps() -> Mapping[str, type[ChatAppConfig]]:
    """Return the settings classes of all chat apps, by name."""
    kinds = ((name, kind) for name, info in ChannelsConfig.model_fields.items() for kind in get_args(info.annotation))
    return {name: kind for name, kind in kinds if isinstance(kind, type) and issubclass(kind, ChatAppConfig)}


def title_of(name: str) -> str:
    """Return the name of a chat app as people know it."""
    info = ChannelsConfig.model_fields.get(name)
    return name if info is None else (info.description or name).partition(".")[0]


def list_fields(app: type[ChatAppConfig]) -> list[ChatAppField]:
    """Return the settings that belong to one chat app only and are texts."""
    own = {name: info for name, info in app.model_fields.items() if name not in ChatAppConfig.model_fields}
    return [
        ChatAppField(name, VARIABLE.sub("", info.description or ""), info.is_required())
        for name, info in own.items()
        if is_text(info)
    ]


def is_text(info: FieldInfo) -> bool:
    """Return whether a setting is a text."""
    return info.annotation is str


def mask(text: str, secrets: Sequence[str]) -> str:
    """Return a text without secrets."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def read_time(text: str | None) -> datetime | None:
    """Return a stored time."""
    return None if text is None else datetime.fromisoformat(text)

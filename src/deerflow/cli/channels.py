"""`deerflow channels`: state and test of the chat apps, and codes that connect chat accounts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated

import typer

from deerflow.accounts.model import clean_email
from deerflow.accounts.queries import find_account_by_email, has_accounts
from deerflow.channels.adapter import ChannelError
from deerflow.channels.apps import create_adapters
from deerflow.channels.management import NONE_CONFIGURED, ChannelInfo, ChannelManager
from deerflow.channels.people import ConnectCode
from deerflow.channels.saved import select_apps
from deerflow.cli.runs import ConfigOption
from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.harness.core import open_saved_models
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database

app = typer.Typer(help="State and test of the chat apps, and codes that connect chat accounts.", no_args_is_help=True)

EmailOption = Annotated[
    str | None, typer.Option("--email", help="Account of the person; required on a server with accounts.")
]


@app.callback()
def options() -> None:
    """State and test of the chat apps, and codes that connect chat accounts."""


@app.command()
def code(email: EmailOption = None, config: ConfigOption = None) -> None:
    """Print a code that connects one chat account; it works once, for ten minutes."""
    created = asyncio.run(make_code(open_source(config), email))
    minutes = round((created.expires_at - datetime.now(UTC)).total_seconds() / 60)
    typer.echo(f"Send this to the bot within {minutes} minutes:\n/connect {created.code}")


@app.command()
def status(config: ConfigOption = None) -> None:
    """Print the state of each chat app, as the running server has it. Exits with 1 unless all are connected."""
    found = asyncio.run(read_status(open_source(config)))
    if not found:
        typer.echo(NONE_CONFIGURED[0].upper() + NONE_CONFIGURED[1:] + ".")
    for channel in found:
        typer.echo(describe(channel))
    if not all(channel.connected_since or channel.is_overridden for channel in found):
        raise typer.Exit(1)


@app.command()
def test(config: ConfigOption = None) -> None:
    """Log in at each chat app and print the name of the bot."""
    if not asyncio.run(test_adapters(open_source(config))):
        raise typer.Exit(1)


@asynccontextmanager
async def open_manager(source: ConfigSource) -> AsyncIterator[ChannelManager]:
    """Open the database and yield the management of chat apps."""
    loaded = source.current
    loaded.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with open_database(loaded.config.database.get_location(loaded.home), loaded.home) as database:
        yield ChannelManager(database, source, open_saved_models(source, database).cipher)


async def make_code(source: ConfigSource, email: str | None) -> ConnectCode:
    """Return a code for the local user, or for an account."""
    async with open_manager(source) as manager:
        return await manager.create_code(await find_user(manager.database, email))


async def read_status(source: ConfigSource) -> list[ChannelInfo]:
    """Return the state of all chat apps, as the servers have stored it."""
    async with open_manager(source) as manager:
        return await manager.list()


async def find_user(database: Database, email: str | None) -> Principal:
    """Return the user with an address; the local user on a server without accounts.

    Raises:
        InvalidRequest: The server has accounts, and none is given.
    """
    if email is not None:
        address = clean_email(email)
        account = await database.read(lambda connection: find_account_by_email(connection, address))
        return Principal(account.user_id)
    if await database.read(has_accounts):
        raise InvalidRequest("this server has accounts: say whose code it is with --email")
    return LOCAL_USER


async def test_adapters(source: ConfigSource) -> bool:
    """Log in at each chat app. Return whether all of them work."""
    async with open_manager(source) as manager:
        apps = await manager.find_enabled()
    if not apps:
        typer.echo(NONE_CONFIGURED[0].upper() + NONE_CONFIGURED[1:] + ".")
    works = True
    for adapter in create_adapters(select_apps(apps)):
        try:
            bot = await adapter.log_in()
            typer.echo(f"{adapter.name}: works as @{bot.name}")
        except ChannelError as problem:
            works = False
            typer.echo(f"{adapter.name}: {problem}")
        finally:
            await adapter.aclose()
    return works


def describe(channel: ChannelInfo) -> str:
    """Return the state of a chat app as a line."""
    if channel.is_overridden:
        return f"{channel.name}: connected on the page, but config.yaml has it too and is used"
    if not channel.is_readable:
        return f"{channel.name}: the saved settings cannot be decrypted; enter them again on the page"
    if not channel.is_running:
        return f"{channel.name}: no server runs"
    counts = f"{channel.received} in, {channel.sent} out"
    if channel.connected_since is not None:
        since = channel.connected_since.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        return f"{channel.name}: connected as @{channel.bot} since {since}; {counts}"
    return f"{channel.name}: not connected: {channel.last_error or 'connecting'}; {counts}"

"""`deerflow channels`: codes that connect chat accounts, and a test of the configured chat apps."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer

from deerflow.accounts.model import clean_email
from deerflow.accounts.queries import find_account_by_email, has_accounts
from deerflow.channels.adapter import ChannelError
from deerflow.channels.apps import create_adapters
from deerflow.channels.people import ConnectCode, create_code
from deerflow.cli.runs import ConfigOption
from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database

app = typer.Typer(help="Connect chat accounts, and test the configured chat apps.", no_args_is_help=True)

EmailOption = Annotated[
    str | None, typer.Option("--email", help="Account of the person; required on a server with accounts.")
]


@app.callback()
def options() -> None:
    """Connect chat accounts, and test the configured chat apps."""


@app.command()
def code(email: EmailOption = None, config: ConfigOption = None) -> None:
    """Print a code that connects one chat account; it works once, for ten minutes."""
    created = asyncio.run(make_code(open_source(config), email))
    minutes = round((created.expires_at - datetime.now(UTC)).total_seconds() / 60)
    typer.echo(f"Send this to the bot within {minutes} minutes:\n/connect {created.code}")


@app.command()
def test(config: ConfigOption = None) -> None:
    """Log in at each configured chat app and print the name of the bot."""
    if not asyncio.run(test_adapters(open_source(config))):
        raise typer.Exit(1)


async def make_code(source: ConfigSource, email: str | None) -> ConnectCode:
    """Return a code for the local user, or for an account."""
    loaded = source.current
    loaded.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with open_database(loaded.config.database.get_location(loaded.home), loaded.home) as database:
        return await create_code(database, await find_user(database, email))


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
    """Log in at each configured chat app. Return whether all of them work."""
    adapters = list(create_adapters(source.current.config.channels))
    if not adapters:
        typer.echo("No chat app is configured in `channels:` of config.yaml.")
    works = True
    for adapter in adapters:
        try:
            bot = await adapter.log_in()
            typer.echo(f"{adapter.name}: works as @{bot.name}")
        except ChannelError as problem:
            works = False
            typer.echo(f"{adapter.name}: {problem}")
        finally:
            await adapter.aclose()
    return works

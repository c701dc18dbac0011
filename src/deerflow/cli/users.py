"""`deerflow users`: accounts of the server, in its database."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from deerflow.accounts.accounts import Accounts, CreatedLink
from deerflow.accounts.authenticator import Authenticator
from deerflow.accounts.logins import Passwords
from deerflow.accounts.model import AccountRole, clean_email, clean_password
from deerflow.cli.runs import ConfigOption
from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import InvalidRequest
from deerflow.persistence.engine import open_database

app = typer.Typer(help="Add, list, disable and delete accounts.", no_args_is_help=True)

EmailArgument = Annotated[str, typer.Argument(metavar="EMAIL", help="E-mail address of the account.")]
AdminOption = Annotated[bool, typer.Option("--admin", help="Make the account an administrator.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@app.callback()
def options() -> None:
    """Add, list, disable and delete accounts."""


@app.command()
def add(email: EmailArgument, admin: AdminOption = False, config: ConfigOption = None) -> None:
    """Add an account; the first is an administrator and owns what the local user had.

    The password is read from a prompt without echo, or from standard input; it is never an argument.
    """
    asyncio.run(add_account(email, "admin" if admin else "user", config))


@app.command("list")
def list_all(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, config: ConfigOption = None
) -> None:
    """List the accounts, oldest first."""
    asyncio.run(print_accounts(config, as_json=as_json))


@app.command()
def invite(
    email: Annotated[str | None, typer.Option("--email", help="Address of the person; default: any.")] = None,
    admin: AdminOption = False,
    config: ConfigOption = None,
) -> None:
    """Print a link with which one person can make an account."""
    asyncio.run(print_invitation(email, "admin" if admin else "user", config))


@app.command()
def reset(email: EmailArgument, config: ConfigOption = None) -> None:
    """Print a link with which a person sets a new password."""
    asyncio.run(print_reset(email, config))


@app.command()
def disable(
    email: EmailArgument,
    enable: Annotated[bool, typer.Option("--enable", help="Enable the account again.")] = False,
    config: ConfigOption = None,
) -> None:
    """Disable an account: its sessions end, and its tokens are not valid."""
    asyncio.run(set_active(email, config, is_active=enable))


@app.command()
def delete(email: EmailArgument, yes: YesOption = False, config: ConfigOption = None) -> None:
    """Delete an account with its sessions and tokens. Its threads and files stay in the database."""
    if not yes:
        typer.confirm(f"Delete the account {email}? Its threads and files stay, and no user can see them.", abort=True)
    asyncio.run(delete_account(email, config))


@asynccontextmanager
async def open_accounts(config: Path | None) -> AsyncIterator[tuple[ConfigSource, Accounts]]:
    """Open the database and yield the accounts. A running server notices changes within a second."""
    source = open_source(config)
    loaded = source.current
    loaded.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with open_database(loaded.config.database.get_location(loaded.home), loaded.home) as database:
        authenticator = Authenticator(database, source.settings(lambda loaded: loaded.config.users))
        yield source, Accounts(database, Passwords(), authenticator)


async def add_account(email: str, role: AccountRole, config: Path | None) -> None:
    """Add an account with a password that is asked for.

    Raises:
        Conflict: The address has an account.
        InvalidRequest: The address or the password is not valid.
    """
    async with open_accounts(config) as (_, accounts):
        account = await accounts.add(clean_email(email), await asyncio.to_thread(read_password), role)
    typer.echo(f"Added {account.email} ({account.role}).")


def read_password() -> str:
    """Return a new password from a prompt or from standard input, or raise `InvalidRequest`."""
    if not sys.stdin.isatty():
        return clean_password(sys.stdin.readline().rstrip("\n"))
    first = clean_password(typer.prompt("Password", hide_input=True, err=True))
    if clean_password(typer.prompt("Again", hide_input=True, err=True)) != first:
        raise InvalidRequest("the passwords are not the same")
    return first


async def print_accounts(config: Path | None, *, as_json: bool) -> None:
    """Print all accounts."""
    async with open_accounts(config) as (_, accounts):
        found = await accounts.list()
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], default=str, ensure_ascii=False))
        return
    width = max((len(each.email) for each in found), default=0)
    for each in found:
        last = f"last login {each.last_login_at:%Y-%m-%d %H:%M}" if each.last_login_at else "no login yet"
        typer.echo(f"{each.email:<{width}}  {each.role:<5}  {last}{'' if each.is_active else '  (disabled)'}")
    if not found:
        typer.echo("No accounts; no login is required on this machine.", err=True)


async def print_invitation(email: str | None, role: AccountRole, config: Path | None) -> None:
    """Print the link of a new invitation."""
    async with open_accounts(config) as (source, accounts):
        print_link(source, await accounts.invite(email, role))


async def print_reset(email: str, config: Path | None) -> None:
    """Print a link for a new password, or raise `NotFound`."""
    async with open_accounts(config) as (source, accounts):
        account = await accounts.find_by_email(email)
        print_link(source, await accounts.create_reset(account.user_id))


def print_link(source: ConfigSource, created: CreatedLink) -> None:
    """Print a link and how long it is valid."""
    config = source.current.config
    base = config.gateway.public_url
    typer.echo(f"{base or ''}{created.path}")
    hint = "" if base else "; open it at the address of the server"
    typer.echo(f"Valid once, until {created.link.expires_at:%Y-%m-%d %H:%M} UTC{hint}.", err=True)


async def set_active(email: str, config: Path | None, *, is_active: bool) -> None:
    """Disable or enable an account, or raise `NotFound`."""
    async with open_accounts(config) as (_, accounts):
        account = await accounts.find_by_email(email)
        await accounts.change(account.user_id, is_active=is_active)
    typer.echo(f"{'Enabled' if is_active else 'Disabled'} {account.email}.")


async def delete_account(email: str, config: Path | None) -> None:
    """Delete an account, or raise `NotFound`."""
    async with open_accounts(config) as (_, accounts):
        account = await accounts.find_by_email(email)
        await accounts.delete(account.user_id)
    typer.echo(f"Deleted {account.email}.")

"""`deerflow users` and `deerflow audit`: accounts of the server and its audit log, in its database."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated

import orjson
import typer

from deerflow.accounts.accounts import Accounts, CreatedLink
from deerflow.accounts.authenticator import Authenticator
from deerflow.accounts.logins import Passwords
from deerflow.accounts.model import AccountRole, clean_email, clean_password
from deerflow.accounts.quotas import LIMITS, Quotas
from deerflow.cli.runs import ConfigOption
from deerflow.config.sections.server import QuotasConfig
from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import InvalidRequest
from deerflow.harness import open_harness
from deerflow.persistence.engine import open_database
from deerflow.persistence.queries.audit import AuditFilter
from deerflow.sandbox.files.mounts import user_folder
from deerflow.sandbox.local.usage import measure_disk
from deerflow.services.audit import AuditLog, parse_head

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
def quota(
    email: EmailArgument,
    limits: Annotated[
        list[str] | None,
        typer.Argument(metavar="LIMIT=VALUE", help=f"A number, none or default, for: {', '.join(LIMITS)}."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Show the limits of a person, or set some of them."""
    asyncio.run(set_quota(email, limits or [], config))


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
    """Delete a person with everything they have: threads, files, memory, skills, agents, logins, keys and tokens."""
    if not yes:
        typer.confirm(f"Delete {email} with all threads, files and memory? This cannot be undone.", abort=True)
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


async def set_quota(email: str, limits: Sequence[str], config: Path | None) -> None:
    """Set limits of a person, and print those in effect.

    Raises:
        NotFound: There is no such account.
        InvalidRequest: A limit is not known, or not a number in its range.
    """
    async with open_accounts(config) as (source, accounts):
        account = await accounts.find_by_email(email)
        users = source.settings(lambda loaded: loaded.config.users)
        home = source.current.home
        quotas = Quotas(accounts.database, users, accounts.authenticator, partial(measure_files, home))
        changed = dict(await quotas.read_changes(account.user_id))
        for each in limits:
            name, _, value = each.partition("=")
            changed.pop(name, None)
            if value != "default" or name not in LIMITS:
                changed[name] = parse_limit(name, value)
        quota = await quotas.change(account.user_id, changed)
    for name, value in asdict(quota).items():
        is_set = " (set for this person)" if name in changed else ""
        if name in LIMITS:
            typer.echo(f"{name:<20} {'none' if value is None else value}{is_set}")


async def measure_files(home: Path, owner: str) -> int:
    """Return the bytes that the files of a person take."""
    return await asyncio.to_thread(measure_disk, user_folder(home, owner))


def parse_limit(name: str, value: str) -> str | float | None:
    """Return the value of a limit as it is stored; None for no limit.

    Raises:
        InvalidRequest: The limit is not known, or not a number in its range.
    """
    if name not in LIMITS:
        raise InvalidRequest(f"unknown limit {name!r}; there are {', '.join(LIMITS)}")
    if value == "none":
        return None
    try:
        checked = QuotasConfig.model_validate({name: Decimal(value) if name == "cost_per_day" else orjson.loads(value)})
    except (ValueError, ArithmeticError) as problem:
        raise InvalidRequest(f"{name} is a number in its range, none or default, not {value!r}") from problem
    number: float | Decimal = getattr(checked, name)
    return str(number) if isinstance(number, Decimal) else number


async def set_active(email: str, config: Path | None, *, is_active: bool) -> None:
    """Disable or enable an account, or raise `NotFound`."""
    async with open_accounts(config) as (_, accounts):
        account = await accounts.find_by_email(email)
        await accounts.change(account.user_id, is_active=is_active)
    typer.echo(f"{'Enabled' if is_active else 'Disabled'} {account.email}.")


async def delete_account(email: str, config: Path | None) -> None:
    """Delete a person with everything they have, or raise `NotFound`."""
    async with open_harness(open_source(config)) as harness:
        account = await harness.resources.accounts.find_by_email(email)
        is_done = await harness.user_deletions.delete(account.user_id)
    rest = "" if is_done else " The rest of the data is deleted by the server, or at its next start."
    typer.echo(f"Deleted {account.email}.{rest}")


audit = typer.Typer(help="Verify and export the audit log.", no_args_is_help=True)

HeadOption = Annotated[
    str | None, typer.Option("--head", metavar="SEQ:HASH", help="Head that was kept; finds removed entries at the end.")
]
FromOption = Annotated[datetime | None, typer.Option("--from", help="Time of the first entry, in UTC.")]
ToOption = Annotated[datetime | None, typer.Option("--to", help="Time before which the last entry is, in UTC.")]


@audit.callback()
def audit_options() -> None:
    """Verify and export the audit log."""


@audit.command()
def head(config: ConfigOption = None) -> None:
    """Print number and hash of the last entry; keep it outside of the server."""
    asyncio.run(print_head(config))


@audit.command()
def verify(head: HeadOption = None, config: ConfigOption = None) -> None:
    """Verify the hash chain; exit with 1 if the log was changed."""
    if not asyncio.run(print_verification(head, config)):
        raise typer.Exit(1)


@audit.command()
def export(since: FromOption = None, until: ToOption = None, config: ConfigOption = None) -> None:
    """Print the entries as JSON lines, oldest first."""
    asyncio.run(print_entries(AuditFilter(since=to_utc(since), until=to_utc(until)), config))


def to_utc(moment: datetime | None) -> datetime | None:
    """Return a time that was entered, which is in UTC."""
    return None if moment is None else moment.replace(tzinfo=UTC)


async def print_head(config: Path | None) -> None:
    """Print the head of the audit log."""
    async with open_accounts(config) as (_, accounts):
        typer.echo(str(await AuditLog(accounts.database).read_head()))


async def print_verification(head: str | None, config: Path | None) -> bool:
    """Print the result of a verification, and return whether the log is unchanged."""
    anchor = parse_head(head) if head else None
    async with open_accounts(config) as (_, accounts):
        report = await AuditLog(accounts.database).verify(anchor)
    for problem in report.problems:
        typer.echo(f"Entry {problem.seq}: {problem.reason}.")
    state = "valid" if report.is_valid else "NOT valid"
    typer.echo(f"The audit log is {state}: {report.entries} entries, head {report.head}")
    return report.is_valid


async def print_entries(wanted: AuditFilter, config: Path | None) -> None:
    """Print entries as JSON lines."""
    async with open_accounts(config) as (_, accounts):
        async for lines in AuditLog(accounts.database).export(wanted):
            typer.echo(lines, nl=False)

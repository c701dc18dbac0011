"""Services of accounts on one database, as a process has them."""

from dataclasses import dataclass

from deerflow.accounts.accounts import Accounts
from deerflow.accounts.authenticator import Authenticator
from deerflow.accounts.logins import Logins, NewSession, Passwords
from deerflow.accounts.model import ClientInfo, UserAccount
from deerflow.config.sections.base import Settings
from deerflow.config.sections.server import UsersConfig
from deerflow.persistence.engine.database import Database

PASSWORD = "correct horse battery"
HERE = ClientInfo("192.0.2.1", "test")


@dataclass(frozen=True)
class Parts:
    """Services that share a database."""

    accounts: Accounts
    logins: Logins
    authenticator: Authenticator

    @classmethod
    def create(cls, database: Database, settings: Settings[UsersConfig]) -> "Parts":
        authenticator, passwords = Authenticator(database, settings), Passwords()
        return cls(
            Accounts(database, passwords, authenticator), Logins(database, passwords, authenticator), authenticator
        )

    async def add(self, email: str = "ann@example.com") -> UserAccount:
        return await self.accounts.add(email, PASSWORD, "user")

    async def log_in(self, email: str = "ann@example.com") -> NewSession:
        return await self.logins.log_in(email, PASSWORD, HERE)

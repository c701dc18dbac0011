"""`database:` — where threads, runs and their events are kept."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field, field_validator

from deerflow.config.files import starting_in
from deerflow.config.section import Section, objection

SQLITE_PREFIX = "sqlite:///"
POSTGRES_PREFIXES = ("postgresql://", "postgres://")


class DatabaseConfig(Section):
    """One SQLite file, or a PostgreSQL database that several processes may share."""

    needs_restart: ClassVar[bool] = True

    url: str | None = Field(
        default=None, description="`sqlite:///…` or `postgresql://…`; a file in the state directory when absent."
    )
    lease_seconds: float = Field(
        default=30.0,
        ge=1,
        description="PostgreSQL: after so many seconds of silence others go on with the runs of a process.",
    )

    @field_validator("url")
    @classmethod
    def _is_one_we_know(cls, url: str | None) -> str | None:
        if url is None or url.startswith(POSTGRES_PREFIXES):
            return url
        if not url.startswith(SQLITE_PREFIX):
            raise objection("must be 'sqlite:///path/to/file.db' or 'postgresql://user:password@host/name'")
        name = url.removeprefix(SQLITE_PREFIX)
        if name in {"", ":memory:"}:
            raise objection("threads must outlive the server, so name a file: 'sqlite:///path/to/file.db'")
        if "?" in name or "\0" in name:
            raise objection("only the path of a file may follow 'sqlite:///'")
        return url

    def place(self, home: Path) -> Path | str:
        """The file, or the URL of a server."""
        is_server = self.url is not None and self.url.startswith(POSTGRES_PREFIXES)
        return self.url if self.url is not None and is_server else self.sqlite_file(home)

    def sqlite_file(self, home: Path) -> Path:
        """The database file; a relative path starts in the state directory `home`."""
        if self.url is None:
            return home / "data" / "deerflow.db"
        return starting_in(home, Path(self.url.removeprefix(SQLITE_PREFIX)))

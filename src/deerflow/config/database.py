"""`database:` — where threads, runs and their events are kept."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field, field_validator

from deerflow.config.files import starting_in
from deerflow.config.section import Section, objection

SQLITE_PREFIX = "sqlite:///"


class DatabaseConfig(Section):
    """One SQLite file."""

    needs_restart: ClassVar[bool] = True

    url: str | None = Field(default=None, description="`sqlite:///…`; a file in the state directory when absent.")

    @field_validator("url")
    @classmethod
    def _is_a_sqlite_file(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if not url.startswith(SQLITE_PREFIX):
            raise objection("only SQLite is supported for now: 'sqlite:///path/to/file.db'")
        name = url.removeprefix(SQLITE_PREFIX)
        if name in {"", ":memory:"}:
            raise objection("threads must outlive the server, so name a file: 'sqlite:///path/to/file.db'")
        if "?" in name or "\0" in name:
            raise objection("only the path of a file may follow 'sqlite:///'")
        return url

    def sqlite_file(self, home: Path) -> Path:
        """The database file; a relative path starts in the state directory `home`."""
        if self.url is None:
            return home / "data" / "deerflow.db"
        return starting_in(home, Path(self.url.removeprefix(SQLITE_PREFIX)))

"""Sections for storage: database, stream bridge and uploads."""

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from deerflow.config.loader.files import resolve_from
from deerflow.config.sections.base import Section, make_error, make_validation_error

SQLITE_PREFIX = "sqlite:///"
POSTGRES_PREFIXES = ("postgresql://", "postgres://")


class DatabaseConfig(Section):
    """A SQLite file, or a PostgreSQL database that several processes can share."""

    needs_restart: ClassVar[bool] = True

    url: str | None = Field(
        default=None, description="`sqlite:///…` or `postgresql://…`; null: a file in the state directory."
    )
    lease_seconds: float = Field(
        default=30.0,
        ge=1,
        description="PostgreSQL: seconds without a heartbeat before other processes take over the runs of a process.",
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is None or url.startswith(POSTGRES_PREFIXES):
            return url
        if not url.startswith(SQLITE_PREFIX):
            raise make_error("must be 'sqlite:///path/to/file.db' or 'postgresql://user:password@host/name'")
        name = url.removeprefix(SQLITE_PREFIX)
        if name in {"", ":memory:"}:
            raise make_error("an in-memory database is not supported; name a file: 'sqlite:///path/to/file.db'")
        if "?" in name or "\0" in name:
            raise make_error("only a file path is allowed after 'sqlite:///'")
        return url

    def get_location(self, home: Path) -> Path | str:
        """Return the SQLite file or the PostgreSQL URL."""
        is_server = self.url is not None and self.url.startswith(POSTGRES_PREFIXES)
        return self.url if self.url is not None and is_server else self.get_sqlite_file(home)

    def get_sqlite_file(self, home: Path) -> Path:
        """Return the database file; a relative path starts in the state directory `home`."""
        if self.url is None:
            return home / "data" / "deerflow.db"
        return resolve_from(home, Path(self.url.removeprefix(SQLITE_PREFIX)))


REDIS_PREFIXES = ("redis://", "rediss://", "unix://")


class StreamBridgeConfig(Section):
    """Notification of stream readers, within one process or through Redis."""

    needs_restart: ClassVar[bool] = True

    type: Literal["memory", "redis"] = Field(
        default="memory", description="`redis` when several processes share a database."
    )
    redis_url: str | None = Field(default=None, description="Redis URL: `redis://…`, `rediss://…` or `unix://…`.")

    @field_validator("redis_url")
    @classmethod
    def _check_redis_url(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(REDIS_PREFIXES):
            raise make_error("must start with 'redis://', 'rediss://' or 'unix://'")
        return url

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        if self.type == "redis" and self.redis_url is None:
            raise make_validation_error(
                type(self).__name__,
                {("redis_url",): "is required for type: redis, for instance 'redis://127.0.0.1:6379/0'"},
            )
        return self


MIB = 1024 * 1024


class ConversionConfig(Section):
    """Conversion of documents to Markdown inside the sandbox; the original is kept."""

    enabled: bool = Field(default=True, description="Convert documents to Markdown.")
    seconds: float = Field(default=60.0, gt=0, description="Conversion timeout in seconds.")
    memory_mb: int = Field(default=1024, ge=128, description="Maximum memory of a conversion.")
    answer_seconds: float = Field(
        default=5.0, ge=0, description="Maximum seconds that an upload response waits for conversions."
    )
    run_seconds: float = Field(
        default=30.0, ge=0, description="Maximum seconds that a run waits for conversions of its files."
    )


class UploadsConfig(Section):
    """Upload limits and conversion."""

    max_files: int = Field(default=10, ge=1, le=1000, description="Maximum files per request.")
    max_file_size: int = Field(default=50 * MIB, ge=1, description="Maximum bytes per file.")
    max_total_size: int = Field(default=100 * MIB, ge=1, description="Maximum bytes per request.")
    stall_seconds: float = Field(default=30.0, gt=0, description="Seconds without data before an upload is aborted.")
    timeout_seconds: float = Field(default=1800.0, gt=0, description="Maximum seconds per upload.")
    conversion: ConversionConfig = Field(default=ConversionConfig(), description="Conversion of documents.")

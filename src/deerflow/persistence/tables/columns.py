"""Column types, keys and the `MetaData` that all tables share."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256

from sqlalchemy import BigInteger, Dialect, Integer, MetaData, Text, TypeDecorator

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UtcTime(TypeDecorator[datetime]):
    """Time as microseconds since 1970: sortable, exact, and the same in every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else to_stored(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        return None if value is None else EPOCH + timedelta(microseconds=value)


class PlainText(TypeDecorator[str]):
    """Text in which the null character, which PostgreSQL cannot store, is replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value.replace("\0", "\ufffd") if value else value


ROW_NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""Autoincrementing key: SQLite generates it for its own INTEGER type only."""


def to_key(name: str, limit: int = 255) -> str:
    """Return `name` as a column of `limit` characters can store it; a digest keeps long names distinct."""
    clean = name.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else clean[: limit - 64] + sha256(clean.encode()).hexdigest()


def to_stored(moment: datetime) -> int:
    """Convert a time to microseconds since 1970, as the tables store it."""
    return (moment - EPOCH) // timedelta(microseconds=1)

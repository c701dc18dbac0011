"""The leases of processes in the database: whoever lets one expire is taken for dead."""

from collections.abc import Mapping
from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    type_coerce,
    update,
)

from deerflow.persistence.tables import processes, to_stored

SECOND = 1_000_000
FORGOTTEN_S = 3600


def renew_lease(connection: Connection, process: str, seconds: float) -> None:
    """Have a process count as alive for so long from now; those that died long ago are forgotten."""
    until = {
        "lease_expires_at": type_coerce(clock(connection) + int(seconds * SECOND), processes.c.lease_expires_at.type)
    }
    if connection.execute(update(processes).where(processes.c.process == process).values(until)).rowcount == 0:
        connection.execute(insert(processes).values(process=process, **until))
        long_ago = clock(connection) - FORGOTTEN_S * SECOND
        connection.execute(delete(processes).where(type_coerce(processes.c.lease_expires_at, BigInteger) < long_ago))


def drop_lease(connection: Connection, process: str) -> None:
    """Have a process count as gone."""
    connection.execute(delete(processes).where(processes.c.process == process))


def leases(connection: Connection) -> Mapping[str, float]:
    """For how many seconds each process still counts as alive."""
    left = type_coerce(processes.c.lease_expires_at, BigInteger) - clock(connection)
    return {process: micros / SECOND for process, micros in connection.execute(select(processes.c.process, left))}


def clock(connection: Connection) -> ColumnElement[int]:
    """The time by the database's own clock, for those of several machines differ."""
    if connection.dialect.name == "sqlite":
        return literal(to_stored(datetime.now(UTC)), BigInteger)
    return cast(func.extract("epoch", func.clock_timestamp()) * SECOND, BigInteger)

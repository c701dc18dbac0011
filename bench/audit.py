"""CPU time of a verification of the audit log: 100,000 entries, against hashing the same bytes in a loop."""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

import orjson
from _table import Row, record
from sqlalchemy import Connection, insert

from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries import audit as rows
from deerflow.persistence.queries.audit import AuditEvent, AuditHead
from deerflow.persistence.tables import accounts, audit_head
from deerflow.services.audit import AuditLog

ENTRIES, ROUNDS, BATCH = 100_000, 5, 5_000
MOST_S, MOST_RATIO = 3.0, 8.0


def main() -> int:
    """Measure in turns, and compare the medians."""
    verifying, wall, hashing = asyncio.run(measure())
    ratio = statistics.median(verifying) / statistics.median(hashing)
    seconds = statistics.median(wall)
    print(
        f"{ENTRIES:,} entries verified in {seconds:.2f} s (bar ≤ {MOST_S:g} s), "
        f"{ratio:.2f} × hashing (bar ≤ {MOST_RATIO:g} ×)"
    )
    record(
        [
            Row("CPU of a verification against hashing the same bytes", "ratio", ratio, "×", bar=MOST_RATIO),
            Row(f"verification of {ENTRIES:,} entries", "figure", seconds, "s", bar=MOST_S),
        ]
    )
    return int(seconds > MOST_S or ratio > MOST_RATIO)


async def measure() -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
    """Return seconds of CPU and of the clock of verifications, and seconds of CPU of the floor."""
    verifying, wall, hashing = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        async with open_database(Path(folder) / "deerflow.db") as database:
            texts = await fill(database)
            log = AuditLog(database)
            for _ in range(ROUNDS):
                began, clock = time.process_time(), time.perf_counter()
                report = await log.verify()
                verifying.append(time.process_time() - began)
                wall.append(time.perf_counter() - clock)
                assert report.is_valid and report.entries == ENTRIES, report.problems
                began = time.process_time()
                for text in texts:
                    sha256(text).hexdigest()
                hashing.append(time.process_time() - began)
    return verifying, wall, hashing


async def fill(database: Database) -> Sequence[bytes]:
    """Write the entries, and return the bytes that a verification hashes."""
    await database.write(add_account)
    head = AuditHead(0, rows.GENESIS)
    for first in range(0, ENTRIES, BATCH):
        head = await database.write(partial(add_entries, first=first, head=head))
    texts: list[bytes] = []
    previous, after = rows.GENESIS, 0
    while page := await database.read(partial(rows.read_raw_entries, after=after, upto=ENTRIES)):
        for row in page:
            texts += [orjson.dumps([previous, *row[:6], row[8]]), f"{row[7]}{row[6]}".encode()]
            previous, after = row[9], row[0]
    return texts


def add_account(connection: Connection) -> None:
    """Add an account, without which nothing is recorded."""
    now = datetime.now(UTC)
    row = {"user_id": "local", "email": "a@b", "email_key": "a@b", "password_hash": "-", "role": "admin"}
    connection.execute(insert(accounts), {**row, "is_active": True, "created_at": now})


def add_entries(connection: Connection, first: int, head: AuditHead) -> AuditHead:
    """Add a batch of entries after `head`."""
    for number in range(first, first + BATCH):
        details = {"tool": "web_search", "thread": f"thread-{number % 100}", "run": f"run-{number}"}
        head = rows.append_entry(connection, AuditEvent("run.tool_call", "local", "local", details=details), head)
    connection.execute(audit_head.delete())
    connection.execute(insert(audit_head), {"head_id": rows.HEAD_ID, "seq": head.seq, "hash": head.hash})
    return head


if __name__ == "__main__":
    sys.exit(main())

"""Has nothing of what was deleted be left in the files of a SQLite database.

SQLite zeroes rows and pages that it frees (`secure_delete`), but when it moves rows from page to page it leaves their
old bytes in the unused middle of the page they came from. Nobody reads these bytes; here they are zeroed too, without
the rewriting of the whole file that `VACUUM` would be.

A program of its own, which knows nothing of the rest: a process that closes a file which SQLite has open elsewhere in
it takes all of SQLite's locks on that file away, and those of a server must stay.
"""

import os
import sqlite3
import struct
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

TURN_PAGES = 2048
"""So many pages are looked at while others who want to write wait: some milliseconds."""
PATIENCE_S = 0.25
"""So long may somebody else be in the way, or be kept waiting for somebody who is."""
ATTEMPTS = 20
HEADER = struct.Struct(">16xH")
PAGE = struct.Struct(">BHHH")
FREEBLOCK = struct.Struct(">HH")
LEAVES, TREES = (10, 13), (2, 5, 10, 13)
IN_THE_WAY = 3
MOST_PAGES = 0x0200_0000
"""From so many pages on, the first byte no longer tells a page of a tree from one that holds a long value."""


def main() -> int:
    """Scrub the databases named as arguments; `IN_THE_WAY` when somebody uses one of them too much."""
    done = [scrub_file(Path(name)) for name in sys.argv[1:]]  # one that is in use keeps none of the others
    return 0 if all(done) else IN_THE_WAY


def scrub_file(file: Path) -> bool:
    """Zero what is unused in the database in `file`; False when somebody was in the way."""
    with (
        file.open("r+b", buffering=0) as opened,  # for longer than the connection: see above
        closing(sqlite3.connect(file, timeout=PATIENCE_S, isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA synchronous=NORMAL")
        pages, page = connection.execute("PRAGMA page_count").fetchone()[0], 1
        while page < pages:
            if not hold_still(connection, file):
                return False
            try:
                zero_unused(opened.fileno(), range(page, min(pages, page + TURN_PAGES)))
                # A change, however small, has everybody else forget the pages they know.
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                connection.execute(f"PRAGMA user_version={version}")
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            page += TURN_PAGES
        return is_empty_log(connection, file)


def hold_still(connection: sqlite3.Connection, file: Path) -> bool:
    """Have everything be in `file` itself, and nobody change it until the transaction this begins has ended."""
    for _ in range(ATTEMPTS):
        if not is_empty_log(connection, file):
            continue
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            continue
        if log_size(file) == 0:  # nobody was faster
            return True
        connection.execute("ROLLBACK")
    return False


def is_empty_log(connection: sqlite3.Connection, file: Path) -> bool:
    """Move what is in the write-ahead log to where it belongs, and empty the log; whether that was possible."""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")  # most of the work, for which nobody has to wait
    busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    return busy == 0 and log_size(file) == 0


def log_size(file: Path) -> int:
    """How long the write-ahead log is."""
    log = file.with_name(f"{file.name}-wal")
    return log.stat().st_size if log.exists() else 0


def zero_unused(descriptor: int, pages: range) -> None:
    """Zero what is unused in these pages, counted from 0; the first page holds nothing but names of tables."""
    header = os.pread(descriptor, 100, 0)
    size = HEADER.unpack_from(header)[0]
    size = 65536 if size == 1 else size
    if has_page_map(header) or os.fstat(descriptor).st_size // size >= MOST_PAGES:
        raise OSError("the database is of a kind in which unused bytes cannot be told from used ones")
    content = os.pread(descriptor, size * len(pages), size * pages.start)
    for start, end in unused_in(content, size):
        os.pwrite(descriptor, bytes(end - start), size * pages.start + start)
    os.fsync(descriptor)


def has_page_map(header: bytes) -> bool:
    """Whether some pages say where others are, which looks like a page of a tree: a setting we do not use."""
    return header[52:56] != bytes(4)


def unused_in(content: bytes, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a row of pages that hold no row of a table, and yet something."""
    for at in range(0, len(content) - size + 1, size):
        page = content[at : at + size]
        for start, end in unused_parts(page):
            if page.count(0, start, end) != end - start:
                yield at + start, at + end


def unused_parts(page: bytes) -> Iterator[tuple[int, int]]:
    """The parts of a page of a tree that hold no row: before the first one, and where some have gone."""
    kind, free, rows, content = PAGE.unpack_from(page)
    if kind not in TREES:
        return
    content = content or 65536
    start = (8 if kind in LEAVES else 12) + 2 * rows
    if start <= content <= len(page):
        yield start, content
    while free and content <= free <= len(page) - 4:
        following, length = FREEBLOCK.unpack_from(page, free)
        if length < 4 or free + length > len(page) or (following and following <= free):
            return
        yield free + 4, free + length
        free = following


if __name__ == "__main__":
    sys.exit(main())

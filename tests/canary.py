"""Search for a word in files, tables and logs of a server."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql


def files_with(word: str, *folders: Path) -> list[str]:
    """Return the files below `folders` with the word in their content or path."""
    mark = word.encode()
    return sorted(
        str(path)
        for folder in folders
        for path in folder.rglob("*")
        if word in str(path.relative_to(folder)) or (path.is_file() and not path.is_symlink() and contains(path, mark))
    )


def contains(path: Path, mark: bytes) -> bool:
    content = path.read_bytes()
    return mark in content or mark.hex().encode() in content


def tables_with(word: str, url: str) -> list[str]:
    """Return the tables of a PostgreSQL database with the word in a row, as text or as bytes."""
    found = []
    with psycopg.connect(url) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (name,) in names:
            query = sql.SQL("SELECT count(*) FROM {0} AS row WHERE row::text LIKE ANY(%s)").format(sql.Identifier(name))
            marks = [f"%{word}%", f"%{word.encode().hex()}%"]
            if connection.execute(query, [marks]).fetchone() != (0,):
                found.append(name)
    return sorted(found)


@contextmanager
def capture_all_logs() -> Iterator[io.StringIO]:
    """Yield a buffer with all log lines of DeerFlow, and the warnings of libraries."""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    ours = logging.getLogger("deerflow")
    level = ours.level
    ours.setLevel(logging.DEBUG)
    logging.root.addHandler(handler)
    try:
        yield heard
    finally:
        logging.root.removeHandler(handler)
        ours.setLevel(level)

"""Real servers for tests, PostgreSQL and Redis: each in a folder of its own, reached through a socket in it."""

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg

from deerflow.persistence.checkpoints.sqlite import open_checkpointer
from deerflow.persistence.engine import open_database
from tests.support import needs, user_cache

FAST_OPTIONS = ("fsync=off", "full_page_writes=off", "autovacuum=off", "max_connections=200", "listen_addresses=")
QUIET_OPTIONS = ("log_min_messages=log", "log_checkpoints=off")
ADMIN = "deerflow"


@dataclass(frozen=True)
class PostgresServer:
    """Server with a template for new databases."""

    socket: Path

    def url(self, database: str) -> str:
        return f"postgresql://{ADMIN}@/{database}?host={self.socket}"

    @contextmanager
    def new_database(self) -> Iterator[str]:
        """The URL of a database whose tables are there and empty."""
        name = f"test_{uuid4().hex}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE prepared")
            yield self.url(name)
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    """Run a server on a copy of the cached cluster."""
    binaries = find_postgres_binaries()
    with shared_folder() as folder:
        data = folder / "data"
        shutil.copytree(create_cluster(binaries), data)
        data.chmod(0o700)
        give_to_server_user(data)
        settings = [word for setting in (*FAST_OPTIONS, *QUIET_OPTIONS) for word in ("-c", setting)]
        command = [str(binaries / "postgres"), "-D", str(data), "-k", str(folder), *settings]
        with run_server(command, "ready to accept connections"):
            server = PostgresServer(folder)
            with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
                connection.execute("CREATE DATABASE prepared")
            with ThreadPoolExecutor(1) as thread:  # the test that asks first may have a loop of its own
                thread.submit(asyncio.run, create_tables(server.url("prepared"))).result()
            yield server


async def create_tables(url: str) -> None:
    async with open_database(url), open_checkpointer(url):
        pass


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """Run a server without persistence and yield its URL."""
    socket = folder / "redis.sock"
    options = {"--port": "0", "--unixsocket": str(socket), "--save": "", "--appendonly": "no", "--dir": str(folder)}
    command = [needs("redis-server"), *(word for option in options.items() for word in option)]
    with run_server(command, "eady to accept connections"):
        yield f"unix://{socket}"


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Yield a folder of the server user, with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="deerflow-") as name:
        give_to_server_user(Path(name))
        yield Path(name)


@contextmanager
def run_server(command: Sequence[str], ready: str) -> Iterator[subprocess.Popen[str]]:
    """Run a server; it is yielded when its output contains `ready`."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, user=get_server_user(), cwd="/"
    ) as process:
        try:
            said = read_until(process, ready)
            assert process.poll() is None and ready in said, said
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=20)


def read_until(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    said = ""
    for line in process.stdout:  # ends when the process does
        said += line
        if word in line:
            break
    return said


def find_postgres_binaries() -> Path:
    """Return the folder of the server's programs: Debian has one per version, outside of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else Path(needs("postgres")).parent


def create_cluster(binaries: Path) -> Path:
    """Return the cluster created by `initdb`, cached between test sessions."""
    version = subprocess.run([binaries / "postgres", "--version"], check=True, capture_output=True, text=True).stdout
    kept = user_cache() / "deerflow-tests" / version.strip().replace(" ", "-").replace("/", "-")
    if kept.exists():
        return kept
    with shared_folder() as folder:
        new = folder / "data"
        command = [binaries / "initdb", "-D", new, "-U", ADMIN, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, user=get_server_user(), cwd="/")
        ours = Path(tempfile.mkdtemp(dir=make_folder(kept.parent))) / "data"
        shutil.copytree(new, ours)
        try:
            ours.rename(kept)
        except OSError:  # another session was faster
            shutil.rmtree(ours)
        ours.parent.rmdir()
    return kept


def make_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def get_server_user() -> str | None:
    """Return the user that servers run as, since some refuse root; None is the current user."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def give_to_server_user(folder: Path) -> None:
    """Make the server user the owner of `folder`."""
    if user := get_server_user():
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, user)

"""Fixtures for all tests."""

import asyncio
import gc
import os
import signal
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import certifi
import pytest
from hypothesis import Phase, settings
from langchain_core.language_models import BaseChatModel
from sqlalchemy import Engine

from deerflow.config.sections.sandbox import ToolboxConfig
from deerflow.config.source import ConfigSource, open_source
from deerflow.harness import Harness, open_harness
from deerflow.persistence.engine import schema, sqlite
from deerflow.persistence.engine.sqlite import create_sqlite_engine
from deerflow.sandbox.local.toolbox import ToolboxBuilder
from deerflow.skills import index
from deerflow.skills.folders import Category, DiscoveredSkills, builtin_root, find_skills
from tests.servers import PostgresServer, postgres, redis, shared_folder
from tests.support import OpenHarness, user_cache
from tests.watchdog import WATCHDOG

pytest_plugins = ["tests.browser"]
# Before any test imports them: then pytest explains what fails in them.
pytest.register_assert_rewrite(
    "tests.conformance.sandbox_suite", "tests.conformance.command_suite", "tests.gateway.support"
)

# The same examples every time, without deadlines: failures must be repeatable.
# Explaining a failure traces every line, which holds event loops.
PHASES = [phase for phase in Phase if phase is not Phase.explain]
settings.register_profile("repeatable", derandomize=True, deadline=None, phases=PHASES)
settings.register_profile("fast", settings.get_profile("repeatable"), max_examples=20)
settings.register_profile("nightly", deadline=None, max_examples=20_000, phases=PHASES)
settings.load_profile("repeatable")

EXTERNAL = {"engine", "postgres_server", "redis_url", "toolbox_environment"}
"""Fixtures that start a server or a container, or use packages that are fetched for them."""
SLOW_S = 300
"""Timeout of slow tests on a busy machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for tests that are not part of every run."""
    parser.addoption("--nightly", action="store_true", help="also run tests that download what is newest today")


def pytest_configure() -> None:
    """Let processes of tests receive the signals that are ignored under nohup or in the background of a script.

    An ignored signal is inherited; one with a handler is reset in a new process, and pytest itself survives it.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by the fixtures they use; leave out nightly ones."""
    if not config.getoption("nightly"):
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if fixtures & EXTERNAL or "postgres" in parameters:
            item.add_marker("external")
        if "chromium" in fixtures:
            item.add_marker("browser")
            # The one browser belongs to the one loop of the session.
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(max(SLOW_S, item.config.getoption("timeout") or 0)))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))  # noqa: TID251
    items[:] = put_slow_modules_first(items, workers)


def pytest_collection_finish() -> None:
    """Start the watchdog; exclude imported objects from garbage collection, which would traverse them each time."""
    WATCHDOG.start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(
        10_000, 10, 10
    )  # tests make and drop whole servers: with 700, an eighth of the time was collections


def put_slow_modules_first(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Start each worker with its share of the slow modules, so that no long test is left for the end.

    `--dist worksteal` first gives every worker a slice of the list, all of the same length.
    """
    slow: dict[Path, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow"):
            slow.setdefault(item.path, []).append(item)
    rest = [item for item in items if not item.get_closest_marker("slow")]
    modules, ordered = list(slow.values()), []
    for worker in range(workers):
        share = [item for module in modules[worker::workers] for item in module]
        room = max(0, (len(items) - len(ordered)) // (workers - worker) - len(share))
        ordered += [*share, *rest[:room]]
        rest = rest[room:]
    return ordered + rest


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    """Fail if the event loop is held: a server answers nobody meanwhile."""
    WATCHDOG.take_problems()
    yield
    if problems := WATCHDOG.take_problems():
        pytest.fail("\n".join(problems))


@pytest.fixture(scope="session", autouse=True)
def fast_certificates() -> Iterator[None]:
    """Trust no public authority: to load them takes each HTTP client 20 ms, and tests reach no public server."""
    load = ssl.SSLContext.load_verify_locations
    public = {certifi.where(), os.environ.get("SSL_CERT_FILE", "")}  # noqa: TID251

    def load_others(context: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        if cafile not in public:
            load(context, cafile, capath, cadata)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_verify_locations", load_others)
        yield


@pytest.fixture(scope="session")
def database_template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Yield a SQLite database without rows."""
    engine = create_sqlite_engine(tmp_path_factory.mktemp("template") / "deerflow.db", 1)
    schema.migrate(engine)
    yield engine
    engine.dispose()


@pytest.fixture(autouse=True)
def fast_migration(database_template: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill new SQLite databases from the template: to create their tables takes longer than most tests."""

    def copy_or_migrate(engine: Engine) -> None:
        if not Path(engine.url.database or "").exists():
            with database_template.connect() as source, engine.connect() as target:
                source.connection.driver_connection.backup(target.connection.driver_connection)
        schema.migrate(engine)

    monkeypatch.setattr(sqlite, "migrate", copy_or_migrate)


@pytest.fixture(scope="session")
def builtin_skills() -> tuple[Sequence[Path], DiscoveredSkills]:
    """Return the folders and the contents of the built-in skills."""
    folders: list[Path] = []
    return folders, find_skills(builtin_root(), "public", folders.append)


@pytest.fixture(autouse=True)
def fast_skills(builtin_skills: tuple[Sequence[Path], DiscoveredSkills], monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the built-in skills once: every harness would parse the same files."""
    folders, found = builtin_skills

    def copy_or_find(root: Path, category: Category, on_folder: Callable[[Path], object] = str) -> DiscoveredSkills:
        if root != builtin_root():
            return find_skills(root, category, on_folder)
        for folder in folders:
            on_folder(folder)
        return DiscoveredSkills(list(found.skills), list(found.rejected))

    monkeypatch.setattr(index, "find_skills", copy_or_find)


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """Yield a folder that is not below `/dev`, of which every sandbox has its own; other tests write to memory."""
    with TemporaryDirectory(prefix="deerflow-test-", dir="/var/tmp") as folder:
        yield Path(folder).resolve()


@pytest.fixture
def source(tmp_path: Path) -> ConfigSource:
    """Return the default configuration without variables and files of this machine, and without memory extraction."""
    return open_source(directory=tmp_path, environment={}, overrides={"memory": {"debounce_seconds": 3600}})


@pytest.fixture
def harness_saying(source: ConfigSource) -> OpenHarness:
    """Return a function that opens a harness with the given model; all of them use the same state."""

    def opener(model: BaseChatModel) -> AbstractAsyncContextManager[Harness]:
        return open_harness(source, model)

    return opener


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Yield a real PostgreSQL, started by the first test that needs it."""
    with postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """Yield the URL of a new database."""
    with postgres_server.new_database() as url:
        yield url


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """Yield the URL of a real Redis, started by the first test that needs it."""
    with shared_folder() as folder, redis(folder) as url:
        yield url


@pytest.fixture(scope="session")
def toolbox_environment() -> Mapping[str, str]:
    """Return the environment of a server with the toolbox, which is built once per machine."""
    environment = dict(os.environ)  # noqa: TID251
    asyncio.run(ToolboxBuilder(ToolboxConfig(), user_cache() / "deerflow", environment).build())
    return {"XDG_CACHE_HOME": str(user_cache())}

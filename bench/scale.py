"""How much one process carries: streams, waiting readers, threads, messages, and a deletion beside streams.

Streams are asked for in growing numbers, with a token every 5 ms each, of this server and of one that only relays the
answers of the model. Model, server and reader share the machine, so the numbers are those of its cores.
"""

import asyncio
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

from _corpus import OWNER, RARE_WORD, SMALL_OWNER, add_threads, create_tables, name_word, open_corpus
from _measure import ROOT, Ratio, cpu_seconds, free_port, report, wait_until_healthy
from _table import Row
from load import STAMP, clock_model, our_server, percentile, request, running, wait_idle

from deerflow.persistence.engine import open_database
from deerflow.persistence.queries.search import search_text

STREAMS = (10, 25, 50, 100, 200)
TOKENS, SKIPPED, PAUSE_MS = 600, 300, 5
"""Tokens of a stream, and how many of them are not counted: all streams begin at once, and must have begun."""
MOST_STREAM_P95_MS = 100.0
ATTEMPTS = 2
"""The best counts: the first warms up, and other work on the machine disturbs some."""
LEAST_SHARE = 0.5
"""Least number of streams, as a share of those that the relay carries."""
IDLE, MOST_IDLE_MB = 1000, 30.0
THREADS, MOST_LIST_MS = 10_000, 50.0
MOST_SEARCH_MS = 200.0
ROUNDS = 15
QUERIES = {
    "rare word": f"{RARE_WORD} ",
    "most common word": f"{name_word(0)} ",
    "two common words": f"{name_word(0)} {name_word(1)} ",
    "common and rare word": f"{name_word(0)} {RARE_WORD} ",
    "one letter of a word": "g",
    "three letters of a word": "gar",
    "common word, perhaps unfinished": name_word(5),
    "Chinese character": "一",
    "Chinese word": "一丁",
    "Chinese phrase": "丁一丂七",
    "Chinese word, most common word, perhaps unfinished": f"一丁 {name_word(0)}",
}
DELETION_STREAMS, DELETION_TOKENS, DELETION_PAUSE_MS = 10, 160, 50
DELETED_EVENTS, KEPT_EVENTS, EVENTS_PER_RUN = 100_000, 100_000, 100
DELETION_ROUNDS = 3
MOST_DELETION_RATIO = 1.5


def main() -> int:
    """Measure all; 1 when a bar is missed."""
    rows = [*measure_streams(), measure_idle_readers(), *measure_lists(), *asyncio.run(measure_search(open_corpus()))]
    for row in rows:
        bar = "" if row.bar is None else f"   bar {'≤' if row.better == 'lower' else '≥'} {row.bar:g}"
        print(f"{row.name}: {row.value:.1f} {row.unit}{bar}{'  MISSED' if is_missed(row) else ''}", flush=True)
    return int(any(map(is_missed, rows))) | report([measure_deletion()], rows)


def is_missed(row: Row) -> bool:
    """Whether a row is beyond its bar."""
    if row.bar is None:
        return False
    return row.value > row.bar if row.better == "lower" else row.value < row.bar


def measure_streams() -> list[Row]:
    """How many streams this server and the relay carry, and the CPU of this server at the last number it carries."""
    figures: dict[str, tuple[int, float, float]] = {"ours": (0, 0.0, 0.0), "relay": (0, 0.0, 0.0)}
    with ExitStack() as stack:
        base_url = stack.enter_context(clock_model(TOKENS, PAUSE_MS))
        servers = {
            "ours": stack.enter_context(our_server(base_url)),
            "relay": stack.enter_context(relay_server(base_url)),
        }
        is_carried = dict.fromkeys(servers, True)
        for count in STREAMS:
            for name, (server, port) in servers.items():
                if not is_carried[name]:
                    continue
                p95, cpu = min(measure_load(name, server.pid, port, count) for _ in range(ATTEMPTS))
                print(f"{count} streams, {name}: p95 {p95:.1f} ms late, CPU {cpu:.0f} %", flush=True)
                is_carried[name] = p95 <= MOST_STREAM_P95_MS
                if is_carried[name]:
                    figures[name] = count, p95, cpu
    (ours, p95, cpu), (relayed, *_) = figures["ours"], figures["relay"]
    pace = f"a token every {PAUSE_MS} ms, p95 ≤ {MOST_STREAM_P95_MS:g} ms"
    return [
        Row(f"streams, {pace}", "figure", ours, better="higher", bar=relayed * LEAST_SHARE),
        Row(f"streams of a bare relay, {pace}", "figure", relayed, better="higher"),
        Row("CPU of the server at that number of streams", "figure", cpu, "%"),
        Row("p95 at that number of streams", "figure", p95, "ms"),
    ]


def measure_load(name: str, pid: int, port: int, count: int) -> tuple[float, float]:
    """How late tokens of so many streams are at the 95th percentile, and the CPU of the server in percent of a core."""
    before, began = cpu_seconds(pid), time.perf_counter()
    delays = asyncio.run(stream_all(name, port, count))
    cpu = (cpu_seconds(pid) - before) / (time.perf_counter() - began) * 100
    return percentile(delays, 95), cpu


async def stream_all(name: str, port: int, count: int) -> list[float]:
    """How late every token was, in milliseconds; all must come."""
    delays = await asyncio.gather(*(stream_one(name, port) for _ in range(count)))
    if lost := [TOKENS - len(each) for each in delays if len(each) != TOKENS]:
        sys.exit(f"{name}: {sum(lost)} tokens of {len(lost)} streams did not come")
    return [delay for each in delays for delay in each[SKIPPED:]]


async def stream_one(name: str, port: int) -> list[float]:
    """How late each token of a stream was."""
    path = "/stream" if name == "relay" else f"/api/langgraph/threads/{uuid4()}/runs/stream"
    question = {"messages": [{"type": "human", "content": "What time is it?"}]}
    body = json.dumps({"input": question, "stream_mode": ["messages-tuple"]}).encode()
    _, reader, writer = await request(port, "POST", path, body)
    delays = await read_delays(reader)
    writer.close()
    return delays


async def read_delays(reader: asyncio.StreamReader) -> list[float]:
    """How late each token was, up to the end of a stream."""
    delays: list[float] = []
    rest = b""
    while chunk := await reader.read(65536):
        now = time.time_ns()
        whole, _, rest = (rest + chunk).rpartition(b"\n")
        delays += [(now - int(stamp)) / 1e6 for stamp in STAMP.findall(whole)]
        if b"event: end" in whole:
            break
    return delays


@contextmanager
def relay_server(base_url: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The floor."""
    port = free_port()
    command = [sys.executable, str(ROOT / "bench/floor/relay.py"), base_url, str(port)]
    with running(command) as process:
        wait_until_healthy(port, process)
        yield process, port


def measure_idle_readers() -> Row:
    """Memory of readers that wait for a silent run."""
    with clock_model(1, 3_600_000) as base_url, our_server(base_url) as (server, port):
        megabytes = asyncio.run(wait_idle(server.pid, port, IDLE))
    return Row(f"{IDLE} idle readers", "figure", megabytes, "MB", bar=MOST_IDLE_MB)


def measure_lists() -> list[Row]:
    """The first page of many threads, as the web page and LangGraph's SDK ask for it."""
    bodies: dict[str, dict[str, object]] = {
        "the page": {"limit": 100, "offset": 0, "metadata": {}},
        "pinned threads of the page": {"limit": 100, "offset": 0, "metadata": {"pinned": True}},
        "the SDK": {"limit": 10, "offset": 0},
    }
    with tempfile.TemporaryDirectory() as scratch, clock_model(1, 1000) as base_url:
        with prepared_database(Path(scratch)) as connection:
            add_threads(connection, THREADS, owner="local")
        with our_server(base_url, Path(scratch)) as (_, port):
            return [
                Row(f"{THREADS} threads, list for {name}", "figure", time_posts(port, body), "ms", bar=MOST_LIST_MS)
                for name, body in bodies.items()
            ]


def time_posts(port: int, body: dict[str, object]) -> float:
    """The median time of a search for threads, in milliseconds."""
    times = []
    for _ in range(ROUNDS + 2):
        url = f"http://127.0.0.1:{port}/api/langgraph/threads/search"
        asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        began = time.perf_counter()
        with urllib.request.urlopen(asked) as answer:
            found = json.loads(answer.read())
        times.append((time.perf_counter() - began) * 1000)
        assert len(found) == (0 if body.get("metadata") else body["limit"]), len(found)
    return statistics.median(times[2:])


async def measure_search(file: Path) -> list[Row]:
    """Queries of all kinds over a million messages, of an owner with most of them and of one with few."""
    rows = []
    async with open_database(file) as database:
        for name, query in QUERIES.items():
            for owner in (OWNER, SMALL_OWNER):
                times = []
                for _ in range(5):
                    began = time.perf_counter()
                    await database.read(partial(search_text, owner=owner, query=query, limit=20))
                    times.append((time.perf_counter() - began) * 1000)
                share = "99 %" if owner == OWNER else "1 %"
                row = f"1,000,000 messages, owner of {share}, {name}"
                rows.append(Row(row, "figure", statistics.median(times), "ms", bar=MOST_SEARCH_MS))
    return rows


def measure_deletion() -> Ratio:
    """How late tokens are while a large thread is deleted, against the same without a deletion."""
    with_deletion, without = [], []
    with clock_model(DELETION_TOKENS, DELETION_PAUSE_MS) as base_url:
        for _ in range(DELETION_ROUNDS):
            with tempfile.TemporaryDirectory() as scratch:
                with prepared_database(Path(scratch)) as connection:
                    add_large_thread(connection, "deleted", DELETED_EVENTS)
                    add_large_thread(connection, "kept", KEPT_EVENTS)
                with our_server(base_url, Path(scratch)) as (_, port):
                    without.append(percentile(asyncio.run(stream_beside(port, None)), 95))
                    with_deletion.append(percentile(asyncio.run(stream_beside(port, "deleted")), 95))
    name = f"p95 of a token's delay while a thread with {DELETED_EVENTS:,} events is deleted"
    return Ratio(name, with_deletion, without, MOST_DELETION_RATIO, "ms", is_compared=False)


async def stream_beside(port: int, deleted: str | None) -> list[float]:
    """How late the tokens of some streams are, while a thread is deleted."""
    streams = [asyncio.create_task(stream_one("ours", port)) for _ in range(DELETION_STREAMS)]
    await asyncio.sleep(1)
    if deleted is not None:
        began = time.perf_counter()
        *_, writer = await request(port, "DELETE", f"/api/threads/{deleted}-0", statuses=("202", "204"))
        writer.close()
        print(f"the deletion was answered after {time.perf_counter() - began:.1f} s", flush=True)
    return [delay for each in await asyncio.gather(*streams) for delay in each]


def add_large_thread(connection: sqlite3.Connection, thread_id: str, events: int) -> None:
    """Insert a thread with many runs and events."""
    add_threads(connection, 1, thread_id, "local", runs=events // EVENTS_PER_RUN)
    rows = (
        (f"run-{thread_id}-0-{number // EVENTS_PER_RUN}", number % EVENTS_PER_RUN + 1, b"x" * 1000)
        for number in range(events)
    )
    statement = "INSERT INTO run_events (run_id, seq, event, data, created_at) VALUES (?, ?, 'messages', ?, 0)"
    connection.executemany(statement, rows)


@contextmanager
def prepared_database(directory: Path) -> Iterator[sqlite3.Connection]:
    """The database of a server in that directory, before its first start."""
    folder = directory / ".deer-flow" / "data"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "deerflow.db", isolation_level=None)) as connection:
        create_tables(connection)
        connection.execute("BEGIN")
        yield connection
        connection.execute("COMMIT")


if __name__ == "__main__":
    sys.exit(main())

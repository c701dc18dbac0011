"""What the benchmarks share: processes, their CPU time, and a table of ratios."""

import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from _table import Row, record

ROOT = Path(__file__).parents[1]
START_LIMIT_S = 60


def free_port() -> int:
    """A port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def spawn(command: Sequence[str], environment: Mapping[str, str], **options: object) -> subprocess.Popen[str]:
    """A process whose output is text."""
    return subprocess.Popen(command, env=dict(environment), text=True, **options)  # type: ignore[call-overload,no-any-return]


def wait_until_healthy(port: int, process: subprocess.Popen[str]) -> None:
    """Return when `/health` answers."""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"the server ended with exit code {process.returncode}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.02)
    sys.exit(f"the server did not answer within {START_LIMIT_S} s")


def cpu_seconds(pid: int) -> float:
    """The CPU time of all threads of a process so far, in nanosecond steps."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def tree_cpu_seconds(pid: int) -> float:
    """The CPU time of a process so far, of its descendants and of those that have ended."""
    seconds = cpu_seconds(pid) + ended_children_seconds(pid)
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                seconds += tree_cpu_seconds(int(child))
    return seconds


def ended_children_seconds(pid: int) -> float:
    """The CPU time of the ended children of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """The memory a process has in use."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure against its floor, and the most it may be."""

    name: str
    ours: Sequence[float]
    floor: Sequence[float]
    bar: float | None
    unit: str
    is_compared: bool = True
    """False if it depends on the machine, such as a time against a fixed limit, or is a small difference of others."""

    @property
    def row(self) -> Row:
        """The row of the table."""
        return Row(self.name, "ratio" if self.is_compared else "figure", self.value, "×", bar=self.bar)

    @property
    def value(self) -> float:
        """Round by round, since what disturbs the machine disturbs both sides of a round alike."""
        return statistics.median(ours / floor for ours, floor in zip(self.ours, self.floor, strict=True))


def report(ratios: Sequence[Ratio], others: Sequence[Row] = ()) -> int:
    """Print the ratios, and record them with other rows; 1 when a bar is missed."""
    record([*(ratio.row for ratio in ratios), *others])
    print(f"{'':50} {'ours':>10} {'floor':>10} {'ratio':>7} {'bar':>7}")
    for ratio in ratios:
        ours, floor = (f"{statistics.median(each):7.1f} {ratio.unit:2}" for each in (ratio.ours, ratio.floor))
        bar = "" if ratio.bar is None else f"≤ {ratio.bar:.2f}"
        verdict = "" if ratio.bar is None or ratio.value <= ratio.bar else "  MISSED"
        print(f"{ratio.name:50} {ours} {floor} {ratio.value:6.2f} {bar:>7}{verdict}")
    return int(any(ratio.bar is not None and ratio.value > ratio.bar for ratio in ratios))


def line_through(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """How much of `ys` the best line explains, and its slope."""
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)
    left = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in zip(xs, ys, strict=True))
    return 1 - left / sum((y - mean_y) ** 2 for y in ys), slope

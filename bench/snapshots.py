"""What it costs to remember a thread's files before a run, against `cp -a` of the same folders.

First the whole folder, as when a thread with files has its first run; then again when a run has changed ten files, as
every later run has to; then what it takes to say what changed, and to bring back what was there. What changed is also
shown against a bare walk over the same folders that does nothing: it is found in one such walk, not in two.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _measure import Ratio, report

from deerflow.sandbox.files.traversal import walk_tree
from deerflow.sandbox.snapshots.snapshots import Snapshots

ROUNDS = 3
EDITS = 10
CONTENT = b"a line of a file that is neither long nor short\n" * 80
FLOOR = "cp -a"
WALK = "one walk"
CHANGED = "what changed"
WALKED = "what changed, in CPU time"
WALKS = 3.0
"""So many bare walks' work it may be to say what changed: one, reading what was there, and comparing."""
BARS = {"first snapshot": 2.0, "snapshot after 10 edits": 0.5, CHANGED: 0.5, "restore": 0.5}


def main() -> int:
    """Measure small and large threads."""
    return report([ratio for count in (1_000, 20_000) for ratio in measure(count)])


def measure(count: int) -> list[Ratio]:
    """What each step takes for `count` files."""
    rounds = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as scratch:
            rounds.append(one_round(Path(scratch), count))
    floor = [took[FLOOR] for took in rounds]
    ratios = [
        Ratio(f"{count} files: {name}", [took[name] for took in rounds], floor, BARS[name], "ms") for name in BARS
    ]
    changed, walk = ([took[name] for took in rounds] for name in (WALKED, WALK))
    return [*ratios, Ratio(f"{count} files: {WALKED}, in walks", changed, walk, WALKS, "ms")]


def one_round(scratch: Path, count: int) -> dict[str, float]:
    """What each step took."""
    files = scratch / "user-data"
    fill(files, count)
    time.sleep(0.2)  # a file that has just been written is never trusted to be unchanged
    snapshots = Snapshots(scratch / "snapshots", files)
    took = {
        FLOOR: timed(lambda: subprocess.run(["cp", "-a", files, scratch / "copy"], check=True)),
        "first snapshot": timed(lambda: snapshots.take("r1")),
    }
    shutil.rmtree(scratch / "copy")
    edit(files)
    time.sleep(0.2)
    took["snapshot after 10 edits"] = timed(lambda: snapshots.take("r2"))
    edit(files)
    took[CHANGED] = timed(lambda: snapshots.changes("r2"))
    took[WALK] = worked(lambda: sum(1 for _ in walk_tree(files, ("workspace", "uploads", "outputs"))))
    took[WALKED] = worked(lambda: snapshots.changes("r2"))
    took["restore"] = timed(lambda: snapshots.restore("r2"))
    return took


def fill(files: Path, count: int) -> None:
    """A workspace of `count` files, a hundred in each folder."""
    for number in range(count):
        folder = files / "workspace" / f"folder{number // 100}"
        if number % 100 == 0:
            folder.mkdir(parents=True)
        (folder / f"file{number}").write_bytes(CONTENT)


def edit(files: Path) -> None:
    """Change a few files."""
    for number in range(EDITS):
        with (files / "workspace" / "folder0" / f"file{number}").open("ab") as file:
            file.write(b"more\n")


def timed(step: Callable[[], object]) -> float:
    """How many milliseconds a step took."""
    began = time.perf_counter()
    step()
    return 1000 * (time.perf_counter() - began)


def worked(step: Callable[[], object]) -> float:
    """How many milliseconds of the processor a step took."""
    began = time.process_time()
    step()
    return 1000 * (time.process_time() - began)


if __name__ == "__main__":
    sys.exit(main())

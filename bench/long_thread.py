"""What a turn costs at the end of a very long conversation, against one near its beginning, and what is stored of it.

Two thousand turns on one thread through the whole harness in this process, with a scripted model. The floor is the same
thread at turns 25 to 75.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from _measure import Ratio, report

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import ScriptedModel

QUIET = {"memory": {"debounce_seconds": 3600}}
"""Nothing is learned meanwhile: that is no turn of the conversation."""
TURNS = 2000
SAMPLE = 50
MOST_MEGABYTES = 50
QUESTION = "What about part {}? " + "Please look at the figures once more. " * 5
ANSWER = "Part {} looks good. " + "The figures agree with what was said before, and nothing is missing. " * 6


def main() -> int:
    """Measure once: the thread must be as long as it says."""
    with tempfile.TemporaryDirectory() as scratch:
        milliseconds, megabytes = asyncio.run(talk(Path(scratch)))
    early, late = milliseconds[25 : 25 + SAMPLE], milliseconds[-SAMPLE:]
    return report(
        [
            Ratio(
                f"median turn of the last {SAMPLE} of {TURNS}",
                [statistics.median(late)],
                [statistics.median(early)],
                1.5,
                "ms",
            ),
            Ratio("stored in the end, against the most allowed", [megabytes], [MOST_MEGABYTES], 1.0, "MB"),
        ]
    )


async def talk(directory: Path) -> tuple[list[float], float]:
    """How long each turn took, and how much is stored in the end."""
    model = ScriptedModel.saying(*[lambda messages: answer(messages[-1].text)] * 2 * TURNS)
    source = open_source(directory=directory, environment={}, overrides=QUIET)
    milliseconds = []
    async with open_harness(source, model) as harness:
        for number in range(TURNS):
            started = time.perf_counter()
            await take_turn(harness, QUESTION.format(number))
            milliseconds.append((time.perf_counter() - started) * 1000)
            model.requests.clear()
    return milliseconds, sum(file.stat().st_size for file in stored_files(directory)) / 2**20


def answer(question: str) -> str:
    """What the model says; notes on an earlier part when it is asked for them."""
    return ANSWER.format(question.split()[3]) if question.startswith("What about") else "They went through many parts."


async def take_turn(harness: Harness, text: str) -> None:
    """One question and its answer."""
    run = await harness.runs.create_or_reject(RunRequest("long", [{"type": "human", "content": text}]), LOCAL_USER)
    ended = await harness.runs.join("long", run.run_id, LOCAL_USER)
    if ended.status is not RunStatus.SUCCESS:
        sys.exit(f"a turn failed: {ended.error}")


def stored_files(directory: Path) -> list[Path]:
    """All database files, with what is still in their write-ahead logs."""
    return [file for file in directory.rglob("*") if file.is_file() and ".db" in file.name]


if __name__ == "__main__":
    sys.exit(main())

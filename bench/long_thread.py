"""What a turn costs at the end of a very long conversation, against one near its beginning, and what is stored of it.

Two thousand turns on one thread through the whole harness in this process, with a scripted model. The floor are turns
25 to 75 of a young thread, by turns with the last 50 of the long one. CPU time of the process is compared, because
what else the machine does is no part of a turn.
"""

import asyncio
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
FIRST = 25
"""Turn of the young thread at which the comparison begins."""
MOST_MEGABYTES = 40
MOST_KILOBYTES_PER_RUN = 30
SHORT_RUNS = 50
QUESTION = "What about part {}? " + "Please look at the figures once more. " * 5
ANSWER = "Part {} looks good. " + "The figures agree with what was said before, and nothing is missing. " * 6


def main() -> int:
    """Measure once: the thread must be as long as it says."""
    with tempfile.TemporaryDirectory() as scratch:
        late, early, megabytes = asyncio.run(talk(Path(scratch)))
    with tempfile.TemporaryDirectory() as scratch:
        kilobytes = asyncio.run(talk_shortly(Path(scratch)))
    return report(
        [
            Ratio(f"CPU of a turn, last {SAMPLE} of {TURNS} against turns {FIRST} to 75", late, early, 1.5, "ms"),
            Ratio("stored in the end, against the most allowed", [megabytes], [MOST_MEGABYTES], 1.0, "MB"),
            Ratio(
                "stored of a run in a thread of its own, against the most allowed",
                [kilobytes],
                [MOST_KILOBYTES_PER_RUN],
                1.0,
                "kB",
            ),
        ]
    )


async def talk(directory: Path) -> tuple[list[float], list[float], float]:
    """CPU milliseconds of late turns and of early ones, and how many megabytes are stored in the end."""
    model = ScriptedModel.saying(*[lambda messages: answer(messages[-1].text)] * 2 * (TURNS + FIRST + SAMPLE))
    source = open_source(directory=directory, environment={}, overrides=QUIET)
    late, early = [], []
    async with open_harness(source, model) as harness:
        for number in range(TURNS - SAMPLE):
            await take_turn(harness, "long", number)
            model.requests.clear()
        for number in range(FIRST):
            await take_turn(harness, "young", number)
        for number in range(SAMPLE):
            late.append(await take_turn(harness, "long", TURNS - SAMPLE + number))
            early.append(await take_turn(harness, "young", FIRST + number))
            model.requests.clear()
    return late, early, stored_bytes(directory) / 2**20  # with the young thread, four in a hundred


async def talk_shortly(directory: Path) -> float:
    """How many kilobytes one question and its answer take, each in a thread of its own."""
    model = ScriptedModel.saying(*[lambda messages: answer(messages[-1].text)] * 4 * SHORT_RUNS)
    source = open_source(directory=directory, environment={}, overrides=QUIET)
    async with open_harness(source, model) as harness:
        for number in range(SHORT_RUNS):
            await take_turn(harness, f"first-{number}", number)
    before = stored_bytes(directory)
    async with open_harness(source, model) as harness:
        for number in range(SHORT_RUNS):
            await take_turn(harness, f"second-{number}", number)
    return (stored_bytes(directory) - before) / SHORT_RUNS / 1000


def answer(question: str) -> str:
    """What the model says; notes on an earlier part when it is asked for them."""
    return ANSWER.format(question.split()[3]) if question.startswith("What about") else "They went through many parts."


async def take_turn(harness: Harness, thread: str, number: int) -> float:
    """One question and its answer; its CPU time in milliseconds."""
    began = time.process_time()
    request = RunRequest(thread, [{"type": "human", "content": QUESTION.format(number)}])
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    ended = await harness.runs.join(thread, run.run_id, LOCAL_USER)
    if ended.status is not RunStatus.SUCCESS:
        sys.exit(f"a turn failed: {ended.error}")
    return (time.process_time() - began) * 1000


def stored_bytes(directory: Path) -> int:
    """The size of all database files, with what is still in their write-ahead logs."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file() and ".db" in file.name)


if __name__ == "__main__":
    sys.exit(main())

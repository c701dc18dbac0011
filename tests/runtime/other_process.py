"""A process of its own on the same database, which does as it is told line by line."""

import asyncio
import sys
from pathlib import Path

from deerflow.config.source import open_source
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import RunRequest
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, Stall


async def main(directory: str) -> None:
    """Answer every line with one line."""
    model = ScriptedModel.saying(Stall(Answer("Half of the")), "Said elsewhere.")
    async with open_harness(open_source(directory=Path(directory), environment={}), model) as harness:
        say("ready")
        while line := await asyncio.to_thread(sys.stdin.readline):
            say(await obey(harness, *line.split()))


async def obey(harness: Harness, order: str, *words: str) -> str:
    """`begin THREAD` a run, `submit THREAD KEY COUNT` times at once, say whether runs are `held`."""
    if order == "held":
        return str(len(harness.runs.under_way()))
    thread, key, count = (*words, None, "1")[:3] if order == "begin" else words
    request = RunRequest(thread or "", [{"type": "human", "content": "one"}], idempotency_key=key)
    runs = await asyncio.gather(*(harness.runs.create_or_reject(request, LOCAL_USER) for _ in range(int(count or 1))))
    return " ".join({run.run_id for run in runs})


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

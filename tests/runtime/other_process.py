"""A process of its own on the same database, which does as it is told line by line."""

import asyncio
import sys
from importlib import import_module
from pathlib import Path

from deerflow.config.source import open_source
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import CancelAction, MultitaskStrategy, RunRequest
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, Stall


def half_an_answer(_home: Path) -> ScriptedModel:
    """Falls silent, and answers when it is asked again."""
    return ScriptedModel.saying(Stall(Answer("Half of the")), "Said elsewhere.")


async def main(directory: str, script: str = "tests.runtime.other_process:half_an_answer") -> None:
    """Answer every line with one line; `script` makes the model."""
    module, _, function = script.partition(":")
    model = getattr(import_module(module), function)(Path(directory))
    async with open_harness(open_source(directory=Path(directory), environment={}), model) as harness:
        say("ready")
        while line := await asyncio.to_thread(sys.stdin.readline):
            order, *words = line.split()
            if order == "release":
                model.release()
            say("released" if order == "release" else await obey(harness, order, *words))


async def obey(harness: Harness, order: str, *words: str) -> str:
    """`begin THREAD` a run, `submit THREAD KEY COUNT` times at once, say whether runs are `held`.

    `cancel THREAD RUN HOW` a run, or have `STRATEGY THREAD` do so. `release` lets a stalled answer end.
    """
    if order == "held":
        return str(len(harness.runs.under_way()))
    if order == "cancel":
        thread, run_id, how = words
        await harness.runs.cancel(thread, run_id, LOCAL_USER, CancelAction(how))
        return "stopped"
    if order in list(MultitaskStrategy):
        message = [{"type": "human", "content": "two"}]
        request = RunRequest(words[0], message, multitask_strategy=MultitaskStrategy(order))
        return (await harness.runs.create_or_reject(request, LOCAL_USER)).run_id
    thread, key, count = (*words, None, "1")[:3] if order == "begin" else words
    request = RunRequest(thread or "", [{"type": "human", "content": "one"}], idempotency_key=key)
    runs = await asyncio.gather(*(harness.runs.create_or_reject(request, LOCAL_USER) for _ in range(int(count or 1))))
    return " ".join({run.run_id for run in runs})


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

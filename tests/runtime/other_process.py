"""A process of its own on the same database, which carries out one order after another."""

import asyncio
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import CancelAction, MultitaskStrategy, RunRequest
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, Stall


def half_an_answer(_home: Path) -> ScriptedModel:
    """Falls silent, and answers when it is asked again."""
    return ScriptedModel.saying(Stall(Answer("Half of the")), "Said elsewhere.")


def serve(connection: Connection, home: Path, script: str) -> None:
    """Answer every order that comes over the connection until it is closed; `script` makes the model."""
    asyncio.run(answer_orders(connection, home, script))


async def answer_orders(connection: Connection, home: Path, script: str) -> None:
    """Open a harness in `home` and carry out orders in it."""
    module, _, function = script.partition(":")
    model = getattr(import_module(module), function)(home)
    async with open_harness(open_source(directory=home, environment={}), model) as harness:
        connection.send("ready")
        while words := await asyncio.to_thread(receive, connection):
            order, *rest = words
            if order == "release":
                model.release()
            connection.send("released" if order == "release" else await obey(harness, order, *rest))


def receive(connection: Connection) -> tuple[str, ...]:
    """Return the words of the next order; none when the other side has gone."""
    try:
        words: tuple[str, ...] = connection.recv()
    except EOFError:
        return ()
    return words


async def obey(harness: Harness, order: str, *words: str) -> str:
    """`begin THREAD` a run, `submit THREAD KEY COUNT` times at once, say whether runs are `held`.

    `cancel THREAD RUN HOW` a run, or have `STRATEGY THREAD` do so. `release` lets a stalled answer end.
    """
    if order == "held":
        return str(len(harness.runs.active_runs()))
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

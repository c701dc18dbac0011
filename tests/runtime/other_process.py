"""Program of another process on the same database, which executes commands."""

import asyncio
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import CancelAction, MultitaskStrategy, RunRequest
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, Stall


def create_stalling_model(_home: Path) -> ScriptedModel:
    """Return a model that stalls in its first answer."""
    return ScriptedModel.saying(Stall(Answer("Half of the")), "Said elsewhere.")


def serve(connection: Connection, home: Path, script: str) -> None:
    """Execute commands until the connection is closed; the function `script` creates the model."""
    asyncio.run(handle_commands(connection, home, script))


async def handle_commands(connection: Connection, home: Path, script: str) -> None:
    """Open a harness in `home` and execute commands in it."""
    module, _, function = script.partition(":")
    model = getattr(import_module(module), function)(home)
    async with open_harness(open_source(directory=home, environment={}), model) as harness:
        connection.send("ready")
        while words := await asyncio.to_thread(receive_command, connection):
            command, *rest = words
            if command == "release":
                model.release()
            connection.send("released" if command == "release" else await handle_command(harness, command, *rest))


def receive_command(connection: Connection) -> tuple[str, ...]:
    """Return the next command; it is empty when the connection is closed."""
    try:
        words: tuple[str, ...] = connection.recv()
    except EOFError:
        return ()
    return words


async def handle_command(harness: Harness, command: str, *words: str) -> str:
    """Execute `begin THREAD`, `submit THREAD KEY COUNT` (concurrent requests) or `held` (the number of active runs).

    `cancel THREAD RUN ACTION` cancels a run, `STRATEGY THREAD` starts another one; `release` ends a stalled answer.
    """
    if command == "held":
        return str(len(harness.runs.active_runs()))
    if command == "cancel":
        thread, run_id, how = words
        await harness.runs.cancel(thread, run_id, LOCAL_USER, CancelAction(how))
        return "stopped"
    if command in list(MultitaskStrategy):
        message = [{"type": "human", "content": "two"}]
        request = RunRequest(words[0], message, multitask_strategy=MultitaskStrategy(command))
        return (await harness.runs.create_or_reject(request, LOCAL_USER)).run_id
    thread, key, count = (*words, None, "1")[:3] if command == "begin" else words
    request = RunRequest(thread or "", [{"type": "human", "content": "one"}], idempotency_key=key)
    runs = await asyncio.gather(*(harness.runs.create_or_reject(request, LOCAL_USER) for _ in range(int(count or 1))))
    return " ".join({run.run_id for run in runs})

"""A greedy model endpoint, and runs with a budget."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from deerflow.budget.account import ReservationEntry
from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRecord, RunRequest
from deerflow.domain.usage import SpendingLimit
from deerflow.harness import Harness
from deerflow.testing import Answer, CutAfter, ScriptedServer, ServerFault, ServerRequest, Usage, calling, in_parallel
from deerflow.testing.scripted_server import ServerReply

FINAL_PROMPT_TEXT = "last thing you say"
MISREPORTS: dict[str, Callable[[Usage], Usage]] = {
    "the truth": lambda truth: truth,
    "nothing": lambda truth: Usage(0, 0),
    "next to nothing": lambda truth: Usage(1, 1),
    "less than nothing": lambda truth: Usage(-5, -5),
    "too much": lambda truth: Usage(10**15, 10**15),
}


@dataclass
class GreedyEndpoint:
    """Answers at maximum length, reports usage changed by `misreport`, and counts the real usage."""

    lead: Callable[[int], Answer]
    """Returns the answer to the lead agent by call number."""
    misreport: Callable[[Usage], Usage] = lambda truth: truth
    faults: dict[int, ServerReply] = field(default_factory=dict)
    taken: Counter[str] = field(default_factory=Counter)
    final_answers: int = 0

    def answer(self, request: ServerRequest) -> ServerReply:
        prompt = len(orjson.dumps([request.messages, request.body.get("tools", [])])) // 4
        output = request.body.get("max_tokens") or request.body.get("max_completion_tokens") or 100_000
        system = str(request.messages[0]["content"])
        fault = self.faults.get(request.number)
        self.taken["calls"] += 1
        self.taken["tokens"] += prompt + (output if not isinstance(fault, ServerFault) else 0)
        if fault is not None:
            return CutAfter(3, self._answer(prompt, output)) if isinstance(fault, CutAfter) else fault
        if "<subagent_system>" in system:
            self.taken["lead"] += 1
            scripted = self.lead(self.taken["lead"])
            answer = self._answer(prompt, output)
            return Answer(answer.text, calls=scripted.calls, usage=answer.usage)
        self.final_answers += FINAL_PROMPT_TEXT in system
        return self._answer(prompt, output)

    def _answer(self, prompt: int, output: int) -> Answer:
        return Answer(("word " * output,), usage=self.misreport(Usage(prompt, output)))


def open_budget_config(
    tmp_path: Path, server: ScriptedServer, budget: dict[str, object], more: Any = None, **entry: Any
) -> ConfigSource:
    model = server.model_config(**{"max_tokens": 600, **entry}).model_dump(exclude_none=True)
    sections = {
        "models": [model],
        "budget": budget,
        "llm_call": {"retry_base_delay_ms": 1, "retry_cap_delay_ms": 2},
        "loop_detection": {"enabled": False},
        "sandbox": {"toolbox": {"enabled": False}},
        **(more or {}),
    }
    return open_source(directory=tmp_path, environment={}, overrides=sections)


def list_files(number: int) -> Answer:
    return calling("ls", description="look", path=f"/mnt/user-data/workspace/{number}")


def delegate(number: int) -> Answer:
    task = {"description": "a part", "prompt": "Do it.", "subagent_type": "general-purpose"}
    return in_parallel(*(calling("task", **task) for _ in range(4)))


@dataclass
class MemoryReservationLog:
    """Reservation log that keeps the last entry."""

    last: ReservationEntry | None = None

    async def reserve(self, entry: ReservationEntry) -> None:
        self.last = entry

    def settle(self, entry: ReservationEntry) -> None:
        self.last = entry


async def finish_run(
    harness: Harness, limit: SpendingLimit | None = None, thread: str = "t"
) -> tuple[RunRecord, str, list[dict[str, Any]]]:
    """Return the finished run, its answer, and the budget events of its log."""
    spec = AgentSpec(subagent_enabled=True, max_concurrent_subagents=4)
    request = RunRequest(thread, [{"type": "human", "content": "Go."}], spec, recursion_limit=500, budget=limit)
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(30):
        done = await harness.runs.join(thread, run.run_id, LOCAL_USER)
    page = await harness.timeline.page(run, 0, 10_000, ["budget"])
    state = orjson.loads((await harness.threads.state(thread, LOCAL_USER)).values)
    return done, state["messages"][-1]["content"], [orjson.loads(event.event.data) for event in page]

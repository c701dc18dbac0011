"""A model endpoint that takes all it can get and lies about it, for tests of budgets."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from deerflow.config.source import ConfigSource, open_source
from deerflow.testing import Answer, CutAfter, ScriptedServer, ServerFault, ServerRequest, Usage, calling, in_parallel
from deerflow.testing.scripted_server import Reply

LAST_WORDS = "last thing you say"


@dataclass
class GreedyEndpoint:
    """Says as much as it may, and of what that took whatever `lie` makes of it; knows the truth itself."""

    lead: Callable[[int], Answer]
    """What the lead agent asks for, by the number of its call."""
    lie: Callable[[Usage], Usage] = lambda truth: truth
    faults: dict[int, Reply] = field(default_factory=dict)
    taken: Counter[str] = field(default_factory=Counter)
    said_last: int = 0

    def answer(self, request: ServerRequest) -> Reply:
        prompt = len(orjson.dumps([request.messages, request.body.get("tools", [])])) // 4
        output = request.body.get("max_tokens") or request.body.get("max_completion_tokens") or 100_000
        system = str(request.messages[0]["content"])
        fault = self.faults.get(request.number)
        self.taken["calls"] += 1
        self.taken["tokens"] += prompt + (output if not isinstance(fault, ServerFault) else 0)
        if fault is not None:
            return CutAfter(3, self._says(prompt, output)) if isinstance(fault, CutAfter) else fault
        if "<subagent_system>" in system:
            self.taken["lead"] += 1
            asked = self.lead(self.taken["lead"])
            spoken = self._says(prompt, output)
            return Answer(spoken.text, calls=asked.calls, usage=spoken.usage)
        self.said_last += LAST_WORDS in system
        return self._says(prompt, output)

    def _says(self, prompt: int, output: int) -> Answer:
        return Answer(("word " * output,), usage=self.lie(Usage(prompt, output)))


LIES: dict[str, Callable[[Usage], Usage]] = {
    "the truth": lambda truth: truth,
    "nothing": lambda truth: Usage(0, 0),
    "next to nothing": lambda truth: Usage(1, 1),
    "less than nothing": lambda truth: Usage(-5, -5),
    "too much": lambda truth: Usage(10**15, 10**15),
}


def settings(
    tmp_path: Path, server: ScriptedServer, budget: dict[str, object], more: Any = None, **entry: Any
) -> ConfigSource:
    model = server.model_config(max_tokens=600, **entry).model_dump(exclude_none=True)
    sections = {
        "models": [model],
        "budget": budget,
        "llm_call": {"retry_base_delay_ms": 1, "retry_cap_delay_ms": 2},
        "loop_detection": {"enabled": False},
        "sandbox": {"toolbox": {"enabled": False}},
        **(more or {}),
    }
    return open_source(directory=tmp_path, environment={}, overrides=sections)


def look(number: int) -> Answer:
    return calling("ls", description="look", path=f"/mnt/user-data/workspace/{number}")


def share(number: int) -> Answer:
    task = {"description": "a part", "prompt": "Do it.", "subagent_type": "general-purpose"}
    return in_parallel(*(calling("task", **task) for _ in range(4)))

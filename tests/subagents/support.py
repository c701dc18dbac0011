"""Runs with subagents: one scripted model plays the lead agent and all subagents."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from langchain_core.messages import BaseMessage, ToolMessage

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRecord, RunRequest
from deerflow.harness import Harness
from deerflow.testing import Answer, ScriptedModel, calling
from tests.support import said

ROLE = "You do one piece of work for another agent"
SubagentScript = Callable[[Sequence[BaseMessage]], Any]


def create_agents_model(lead: Sequence[Any], subagent: SubagentScript, calls: int = 20) -> ScriptedModel:
    """Return a model that plays the lead agent from a script, and every subagent by a function."""
    lines = iter(lead)

    def answer(messages: Sequence[BaseMessage]) -> Any:
        is_lead = "<subagent_system>" in messages[0].text
        return next(lines) if is_lead else subagent(messages)

    return ScriptedModel.saying(*[answer] * calls)


def call_task(prompt: str, subagent_type: str = "general-purpose", **more: object) -> Answer:
    return calling("task", description="a part", prompt=prompt, subagent_type=subagent_type, **more)


def count_tool_results(messages: Sequence[BaseMessage]) -> int:
    """Return the number of tool results so far."""
    return sum(isinstance(message, ToolMessage) for message in messages)


def get_prompt(messages: Sequence[BaseMessage]) -> str:
    """Return the prompt of the subagent."""
    return said(messages)[0]


def build_request(text: str, **spec: Any) -> RunRequest:
    return RunRequest("t", [{"type": "human", "content": text}], AgentSpec(subagent_enabled=True, **spec))


def open_config(tmp_path: Path, **sections: object) -> Any:
    off = {"sandbox": {"toolbox": {"enabled": False}}}
    return open_source(directory=tmp_path, environment={}, overrides={**off, **sections})


async def start_run(harness: Harness, request: RunRequest) -> RunRecord:
    return await harness.runs.create_or_reject(request, LOCAL_USER)


async def finish_run(harness: Harness, run: RunRecord) -> tuple[RunRecord, list[dict[str, Any]]]:
    """Return the ended run and its task events."""
    async with asyncio.timeout(30):
        groups = [group async for group in harness.runs.listen(run)]
        done = await harness.runs.join(run.thread_id, run.run_id, LOCAL_USER)
    events = [orjson.loads(event.data) for group in groups for event in group if event.event == "custom"]
    return done, [event for event in events if event["type"].startswith("task_")]


async def read_messages(harness: Harness) -> list[dict[str, Any]]:
    state = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    found: list[dict[str, Any]] = state["messages"]
    return found


async def wait_for_log(harness: Harness, run: RunRecord, words: bytes) -> None:
    """Wait until an event of the run contains these bytes."""
    async for group in harness.runs.listen(run):
        if any(words in event.data for event in group):
            return


def call_task_batch(prompt: str = "Do {item}.", **more: object) -> Answer:
    about = {"description": "many parts", "prompt": prompt, "subagent_type": "general-purpose"}
    return calling("task_batch", **about, **more)


async def read_results(harness: Harness) -> list[dict[str, Any]]:
    state = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    thread = await harness.threads.get("t", LOCAL_USER)
    content = await harness.files_of(thread).read(state["artifacts"][0])
    return [orjson.loads(line) for line in content.splitlines()]


@dataclass
class ConcurrencyProbe:
    """Active prompts, the order in which they started, and the maximum concurrency."""

    working: set[str] = field(default_factory=set)
    started: list[str] = field(default_factory=list)
    max_active: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def enter(self, order: str) -> None:
        self.working.add(order)
        self.started.append(order)
        self.max_active = max(self.max_active, len(self.working))
        async with self.changed:
            self.changed.notify_all()

    async def wait_for_active(self, count: int) -> None:
        """Wait until `count` prompts are active."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.working) >= count)


def track_concurrency(
    model: ScriptedModel, steps: int = 400, gate: asyncio.Event | None = None
) -> tuple[ScriptedModel, ConcurrencyProbe]:
    """Return a copy of `model` and its probe. Each subagent call takes `steps` turns of the event loop.

    No call ends before the `gate` is open.
    """
    probe = ConcurrencyProbe()

    class Crowded(ScriptedModel):
        async def _astream(self, messages: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            is_lead = "<subagent_system>" in messages[0].text
            order = said(messages)[0]
            if not is_lead:
                await probe.enter(order)
                for _ in range(steps):
                    await asyncio.sleep(0)
                if gate is not None:
                    await gate.wait()
            async for chunk in super()._astream(list(messages), *args, **kwargs):
                yield chunk
            probe.working.discard(order)

    return Crowded.saying(*model._script), probe

"""Soak test: 5,000 messages in one thread with a small context window."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import orjson
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest, RunStatus
from deerflow.harness import Harness
from deerflow.testing import Answer, ScriptedModel, calling, in_parallel
from tests.support import OpenHarness

pytestmark = pytest.mark.slow

WINDOW = 8000
TURNS = 205
SUMMARY_PROMPT = "Notes so far:"
MEMORY_PROMPT = "# Known"


class CheckingModel:
    """Scripted model that calls tools and checks every request."""

    def __init__(self) -> None:
        self.request = ""
        self.lookups: Sequence[str] = ()
        self.problems: list[str] = []
        self.summaries = 0
        self.seen: set[str | None] = set()
        self._calls = count(1)

    def reply(self, messages: Sequence[BaseMessage]) -> Answer | Exception:
        if messages[-1].text.startswith(SUMMARY_PROMPT):
            return self._summarize(messages)
        if messages[-1].text.startswith(MEMORY_PROMPT):
            return Answer("{}")  # no facts to extract
        self._check(messages)
        step = _count_results_since(self.request, messages)
        if step < 0:
            self.problems.append(f"the request {self.request[:40]!r} is not in view")
        if self.lookups and step == 0:
            return in_parallel(*(calling("search_history", query=literal) for literal in self.lookups))
        if not self.lookups and step == 0:
            return in_parallel(*[calling("list_uploaded_files")] * 20)
        if not self.lookups and step == 20:
            return calling("search_history", query=f"nothing like {next(self._calls)}")
        return Answer("Done. " + "I looked at it from all sides. " * (next(self._calls) % 12))

    def _summarize(self, messages: Sequence[BaseMessage]) -> Answer | Exception:
        self._check_size(messages)
        self.summaries += 1
        texts = [
            "",
            "They talked about many things.",
            "It is all in /an/invented/path.",
            "One.\nTwo at 99887766.\nThree.",
        ]
        return RuntimeError("overloaded") if self.summaries % 5 == 0 else Answer(texts[self.summaries % 4])

    def _check(self, messages: Sequence[BaseMessage]) -> None:
        self.seen.update(message.id for message in messages)
        self._check_size(messages)
        if not any(message.text == self.request for message in messages if isinstance(message, HumanMessage)):
            self.problems.append(f"the request {self.request[:40]!r} is not there word for word")
        call_ids = [call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
        result_ids = [message.tool_call_id for message in messages if isinstance(message, ToolMessage)]
        if call_ids != result_ids:
            self.problems.append(f"calls and results do not match: {set(call_ids) ^ set(result_ids)}")

    def _check_size(self, messages: Sequence[BaseMessage]) -> None:
        size = (
            sum(len(str(message.content)) + len(str(getattr(message, "tool_calls", ""))) for message in messages) // 4
        )
        if size > WINDOW:
            self.problems.append(f"a request of {size} tokens")


async def test_a_thread_of_5000_messages_loses_nothing(harness_saying: OpenHarness) -> None:
    checker = CheckingModel()
    model = ScriptedModel.saying(*[checker.reply] * 10 * TURNS)
    model.profile = {"max_input_tokens": WINDOW}
    literals = [literal for number in range(TURNS // 5) for literal in make_literals(number)]
    async with harness_saying(model) as harness:
        for turn in range(TURNS):
            extra = " ".join(make_literals(turn // 5)) if turn % 5 == 3 else "please " * (turn % 200)
            await ask(harness, checker, f"Request {turn}: look after {extra} and tell me.")
        assert checker.problems == []
        assert checker.summaries >= 10
        assert len(checker.seen) >= 5000

        for start in range(0, len(literals), 12):
            checker.lookups = literals[start : start + 12]
            await ask(harness, checker, f"Where was that, part {start}?")
            found = await latest_results(harness)
            assert [literal for literal in checker.lookups if literal not in found] == []
        assert checker.problems == []


def make_literals(number: int) -> list[str]:
    """Return a unique path, number, date and name."""
    day = f"20{number % 100:02}-0{number % 9 + 1}-17"
    return [f"/srv/projects/p{number}/plan.md", f"{7_000_000 + number * 7919}", day, f"Erasmus{number}Zwick"]


async def ask(harness: Harness, checker: CheckingModel, text: str) -> None:
    checker.request = text
    request = RunRequest("soak", [{"type": "human", "content": text}])
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    ended = await harness.runs.join("soak", run.run_id, LOCAL_USER)
    assert ended.status is RunStatus.SUCCESS, ended.error


async def latest_results(harness: Harness) -> str:
    """Return the tool results of the latest turn."""
    messages: list[dict[str, Any]] = orjson.loads((await harness.threads.state("soak", LOCAL_USER)).values)["messages"]
    return "\n".join(message["content"] for message in messages[-14:] if message["type"] == "tool")


def _count_results_since(request: str, messages: Sequence[BaseMessage]) -> int:
    """Count the tool results since the request; return -1 if it is missing."""
    positions = [index for index, message in enumerate(messages) if message.text == request]
    if not positions:
        return -1
    return sum(isinstance(message, ToolMessage) for message in messages[positions[-1] :])

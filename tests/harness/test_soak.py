"""Five thousand messages on one thread, with a model that can read very little at a time."""

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
WRITER = "Notes so far:"
LEARNER = "# Known"


class Examiner:
    """Answers as an agent with tools would, and looks at everything it is shown."""

    def __init__(self) -> None:
        self.request = ""
        self.lookups: Sequence[str] = ()
        self.complaints: list[str] = []
        self.notes_written = 0
        self.seen: set[str | None] = set()
        self._calls = count(1)

    def reply(self, messages: Sequence[BaseMessage]) -> Answer | Exception:
        if messages[-1].text.startswith(WRITER):
            return self._notes(messages)
        if messages[-1].text.startswith(LEARNER):
            return Answer("{}")  # there is nothing about anybody in it
        self._examine(messages)
        step = _results_since(self.request, messages)
        if step < 0:
            self.complaints.append(f"the request {self.request[:40]!r} is not in view")
        if self.lookups and step == 0:
            return in_parallel(*(calling("search_history", query=literal) for literal in self.lookups))
        if not self.lookups and step == 0:
            return in_parallel(*[calling("list_uploaded_files")] * 20)
        if not self.lookups and step == 20:
            return calling("search_history", query=f"nothing like {next(self._calls)}")
        return Answer("Done. " + "I looked at it from all sides. " * (next(self._calls) % 12))

    def _notes(self, messages: Sequence[BaseMessage]) -> Answer | Exception:
        self._examine_size(messages)
        self.notes_written += 1
        said = [
            "",
            "They talked about many things.",
            "It is all in /an/invented/path.",
            "One.\nTwo at 99887766.\nThree.",
        ]
        return RuntimeError("overloaded") if self.notes_written % 5 == 0 else Answer(said[self.notes_written % 4])

    def _examine(self, messages: Sequence[BaseMessage]) -> None:
        self.seen.update(message.id for message in messages)
        self._examine_size(messages)
        if not any(message.text == self.request for message in messages if isinstance(message, HumanMessage)):
            self.complaints.append(f"the request {self.request[:40]!r} is not there word for word")
        asked = [call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
        answered = [message.tool_call_id for message in messages if isinstance(message, ToolMessage)]
        if asked != answered:
            self.complaints.append(f"calls and results do not match: {set(asked) ^ set(answered)}")

    def _examine_size(self, messages: Sequence[BaseMessage]) -> None:
        size = (
            sum(len(str(message.content)) + len(str(getattr(message, "tool_calls", ""))) for message in messages) // 4
        )
        if size > WINDOW:
            self.complaints.append(f"a request of {size} tokens")


async def test_five_thousand_messages_lose_nothing(harness_saying: OpenHarness) -> None:
    examiner = Examiner()
    model = ScriptedModel.saying(*[examiner.reply] * 10 * TURNS)
    model.profile = {"max_input_tokens": WINDOW}
    planted = [literal for number in range(TURNS // 5) for literal in literals_of(number)]
    async with harness_saying(model) as harness:
        for turn in range(TURNS):
            extra = " ".join(literals_of(turn // 5)) if turn % 5 == 3 else "please " * (turn % 200)
            await ask(harness, examiner, f"Request {turn}: look after {extra} and tell me.")
        assert examiner.complaints == []
        assert examiner.notes_written >= 10
        assert len(examiner.seen) >= 5000

        for start in range(0, len(planted), 12):
            examiner.lookups = planted[start : start + 12]
            await ask(harness, examiner, f"Where was that, part {start}?")
            found = await latest_results(harness)
            assert [literal for literal in examiner.lookups if literal not in found] == []
        assert examiner.complaints == []


def literals_of(number: int) -> list[str]:
    """A path, a number, a date and a name nobody else mentions."""
    day = f"20{number % 100:02}-0{number % 9 + 1}-17"
    return [f"/srv/projects/p{number}/plan.md", f"{7_000_000 + number * 7919}", day, f"Erasmus{number}Zwick"]


async def ask(harness: Harness, examiner: Examiner, text: str) -> None:
    examiner.request = text
    request = RunRequest("soak", [{"type": "human", "content": text}])
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    ended = await harness.runs.join("soak", run.run_id, LOCAL_USER)
    assert ended.status is RunStatus.SUCCESS, ended.error


async def latest_results(harness: Harness) -> str:
    """What the tools of the latest turn found."""
    messages: list[dict[str, Any]] = orjson.loads((await harness.threads.state("soak", LOCAL_USER)).values)["messages"]
    return "\n".join(message["content"] for message in messages[-14:] if message["type"] == "tool")


def _results_since(request: str, messages: Sequence[BaseMessage]) -> int:
    """How many results came since the request; -1 when it is not in view."""
    places = [index for index, message in enumerate(messages) if message.text == request]
    if not places:
        return -1
    return sum(isinstance(message, ToolMessage) for message in messages[places[-1] :])

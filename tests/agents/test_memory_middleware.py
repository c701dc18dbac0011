"""Injection of memory into threads."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.summarization_middleware import SummarizationMiddleware
from deerflow.config.sections.agents import SummarizationConfig
from deerflow.domain.context import RunContext
from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.memory import Category, Fact, InjectionReceipt, MemoryInjection
from deerflow.memory.middleware import INJECTION_KEY, MemoryMiddleware
from deerflow.sandbox.files.files import thread_files
from deerflow.testing import ScriptedModel, calling
from tests.agents.support import EmptyHistory

CONFIG: Any = {"configurable": {"thread_id": "t"}}
COMPACT_EARLY = SummarizationConfig.model_validate(
    {"trigger": {"type": "messages", "value": 6}, "keep": {"type": "messages", "value": 2}}
)


class FakeMemory:
    """Memory that returns the given texts and records its queries."""

    def __init__(self, *texts: str, is_broken: bool = False) -> None:
        self.texts = list(texts)
        self.is_broken = is_broken
        self.queries: list[str] = []

    async def build_injection(self, words: str) -> MemoryInjection:
        if self.is_broken:
            raise StorageUnavailable("the disk is gone")
        self.queries.append(words)
        text = self.texts[len(self.queries) - 1]
        return MemoryInjection(text, {"words": text} if text else {}, InjectionReceipt(1, [text], 0, 1, is_new=True))

    async def restore_injection(self, note: Mapping[str, Any]) -> MemoryInjection:
        return MemoryInjection(str(note["words"]), note, InjectionReceipt(1, [], 0, 1, is_new=False))

    def take_receipt(self, recalled: MemoryInjection) -> InjectionReceipt | None:
        return recalled.receipt

    async def search(self, query: str, category: Category | None, limit: int) -> Sequence[Fact]:
        raise AssertionError("nobody searches here")

    async def add(self, content: str, category: Category, confidence: float) -> Fact:
        raise AssertionError("nobody adds here")

    async def update(
        self, fact_id: str, content: str | None, category: Category | None, confidence: float | None
    ) -> Fact:
        raise AssertionError("nobody changes anything here")

    async def delete(self, fact_id: str) -> None:
        raise AssertionError("nobody forgets here")


class Conversation:
    """Thread of an agent with memory and compaction."""

    def __init__(self, model: ScriptedModel, memory: FakeMemory | None, home: Path, tools: Any = ()) -> None:
        middlewares: Any = [MemoryMiddleware(), SummarizationMiddleware(COMPACT_EARLY, ScriptedModel.saying("notes"))]
        self.graph: Any = create_agent(
            model, tools, middleware=middlewares, state_schema=ThreadState, checkpointer=InMemorySaver()
        )
        self.context = RunContext("t", "r", "u", thread_files(home), EmptyHistory(), memory=memory)

    async def say(self, text: str) -> list[dict[str, Any]]:
        """Send a message and return the receipts."""
        request = {"messages": [("user", text)]}
        return [part async for part in self.graph.astream(request, CONFIG, context=self.context, stream_mode="custom")]


def texts(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.text for message in messages]


@pytest.mark.parametrize("memory", [None, FakeMemory(is_broken=True), FakeMemory("")])
async def test_the_model_answers_without_memory_or_if_it_fails(memory: FakeMemory | None, tmp_path: Path) -> None:
    model = ScriptedModel.saying("one", "two")
    conversation = Conversation(model, memory, tmp_path)
    await conversation.say("a")
    await conversation.say("b")
    assert texts(model.requests[1].messages) == ["a", "one", "b"]


async def test_memory_is_injected_before_the_first_message_and_keeps_its_position(tmp_path: Path) -> None:
    model = ScriptedModel.saying(calling("look"), "one", "two")
    memory = FakeMemory("MEMORY", "never asked for")

    def look() -> str:
        """Look."""
        return "seen"

    conversation = Conversation(model, memory, tmp_path, [look])
    receipts = await conversation.say("a")
    await conversation.say("b")
    assert [texts(request.messages) for request in model.requests] == [
        ["MEMORY", "a"],
        ["MEMORY", "a", "", "seen"],
        ["MEMORY", "a", "", "seen", "one", "b"],
    ]
    assert memory.queries == ["a"] and [each["is_new"] for each in receipts] == [True, False]
    kept = (await conversation.graph.aget_state(CONFIG)).values["messages"]
    assert [message.additional_kwargs.get(INJECTION_KEY) for message in kept if message.type == "ai"][0] == {
        "words": "MEMORY"
    }
    assert "MEMORY" not in texts(kept)


async def test_memory_is_injected_again_after_compaction(tmp_path: Path) -> None:
    model = ScriptedModel.saying(*["yes"] * 8)
    memory = FakeMemory("FIRST", "SECOND")
    conversation = Conversation(model, memory, tmp_path)
    for question in "abcdefgh":
        await conversation.say(question)
    shown = [texts(request.messages) for request in model.requests]
    # The summary starts in the second to last request, which still contains the injection.
    assert [each.count("FIRST") for each in shown] == [1, 1, 1, 1, 1, 1, 1, 0]
    assert shown[-2][-2:] == ["yes", "g"] and shown[-1][-2:] == ["SECOND", "h"]


def test_synchronous_calls_inject_no_memory(tmp_path: Path) -> None:
    model = ScriptedModel.saying("one")
    Conversation(model, FakeMemory("MEMORY"), tmp_path).graph.invoke({"messages": [("user", "a")]}, CONFIG)
    assert texts(model.requests[0].messages) == ["a"]

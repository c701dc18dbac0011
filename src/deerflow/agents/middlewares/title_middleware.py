"""A name for a thread after its first exchange."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from string import Template
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse
from langchain.agents.middleware.types import ModelCallResult
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command

from deerflow.agents.middlewares.replies import (
    AskModel,
    AskModelAsync,
    Reply,
    Request,
    is_from_a_person,
    said_by_the_model,
)
from deerflow.agents.middlewares.spending import ask_beside
from deerflow.agents.thread_state import ThreadState
from deerflow.config.title import TitleConfig
from deerflow.domain.budget import Budget
from deerflow.domain.context import RunContext
from deerflow.domain.usage import TITLE

MARK = "…"
READ_CHARS = 500
"""How much of the question and of the answer a model reads to think of a title."""


class TitleMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Names a thread that has no name after what its user said first; asks no model, so nobody waits."""

    state_schema = ThreadState

    def __init__(self, settings: TitleConfig) -> None:
        super().__init__()
        self._settings = settings

    def wrap_model_call(self, request: Request, handler: AskModel) -> ModelCallResult[Any]:
        return self._naming(request, handler(request))

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> ModelCallResult[Any]:
        return self._naming(request, await handler(request))

    def _naming(self, request: Request, reply: Reply) -> ModelCallResult[Any]:
        answer = said_by_the_model(reply)
        if not self._settings.enabled or request.state.get("title") or answer is None or answer.tool_calls:
            return reply
        first = next(filter(is_from_a_person, request.messages), None)
        title = local_title(first.text, self._settings.max_chars) if first else ""
        return ExtendedModelResponse(reply, Command(update={"title": title})) if title else reply


def local_title(text: str, max_chars: int) -> str:
    """The beginning of `text` on one line, cut between words; empty when there is no text."""
    line = " ".join(text.split())
    if len(line) <= max_chars:
        return line
    cut = line[: max_chars - len(MARK)]
    return (cut.rsplit(" ", 1)[0] if " " in cut else cut).rstrip(" ,.;:") + MARK


async def write_title(
    model: BaseChatModel,
    question: str,
    answer: str,
    settings: TitleConfig,
    note: Callable[[AIMessage], Awaitable[None]] | None = None,
    budget: Budget | None = None,
) -> str:
    """A title `model` thinks of; the local one when it fails or says nothing of use. `note` is told what it said."""
    words = Template(Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip())
    prompt = words.substitute(words=settings.max_words, question=question[:READ_CHARS], answer=answer[:READ_CHARS])
    said = await ask_beside(budget, TITLE, model, [HumanMessage(prompt)], {"tags": ["nostream"]})
    if note is not None and said is not None:
        await note(said)
    lines = without_thoughts(said.text if said is not None else "").strip().splitlines()
    return local_title((lines[0] if lines else "").strip(" \"'*#«»“”„`."), settings.max_chars) or local_title(
        question, settings.max_chars
    )


def without_thoughts(text: str) -> str:
    """`text` without what a model thinks aloud before it answers; nothing is left of a thought that never ends."""
    before, begins, rest = text.partition("<think>")
    _, ends, after = rest.partition("</think>")
    return before + after if begins and ends else before

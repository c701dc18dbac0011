"""A chat model that plays scripts, so that the whole product can be seen without any other model."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from deerflow.models.demo.scripts import ANSWERED, TOOL_FAILED, Call, Say, language_of, next_step, read_text
from deerflow.models.demo.side_jobs import side_job

# A word with the space behind it, or a few characters of a script that has no spaces.
PIECE = re.compile(r"\s*[\x21-\u2fff]+\s*|\s*[^\x21-\u2fff\s]{1,3}\s*|\s+")

FAILURE = re.compile(r"\[exit code \d+\]\Z")
"""How the output of a command ends that did not succeed."""


class DemoChatModel(BaseChatModel):
    """Recognises a handful of requests, and explains itself for the rest. `delay_ms` is the pause between words."""

    model: str = "demo"
    delay_ms: float = 18.0

    @property
    def _llm_type(self) -> str:
        return "deerflow-demo"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        names = [convert_to_openai_tool(tool)["function"]["name"] for tool in tools]
        return self.bind(tool_names=names)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        tool_names: Sequence[str] = (),
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(ChatGenerationChunk(message=piece) for piece in play(messages, tool_names))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        tool_names: Sequence[str] = (),
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for piece in play(messages, tool_names):
            yield ChatGenerationChunk(message=piece)
            await asyncio.sleep(self.delay_ms / 1000)


def play(messages: Sequence[BaseMessage], tools: Sequence[str]) -> Iterator[AIMessageChunk]:
    """The pieces of the reply to `messages`."""
    if (said := side_job(messages)) is not None:
        yield AIMessageChunk(content=said, response_metadata={"finish_reason": "stop", "model_name": "demo"})
        return
    request, replies = latest_request(messages)
    language = language_of(request)
    if is_answer(messages):
        step: Say | Call = ANSWERED
    else:
        step = TOOL_FAILED if has_failed(messages) else next_step(request, replies, tools)
    if isinstance(step, Call):
        arguments = step.arguments(language)
        call = tool_call_chunk(name=step.tool, args=arguments, id=f"call_{uuid4().hex[:12]}", index=0)
        yield AIMessageChunk(content="", tool_call_chunks=[call])
        return
    for word in PIECE.findall(step.thought[language]):
        yield AIMessageChunk(content="", additional_kwargs={"reasoning_content": word})
    for word in PIECE.findall(read_text(step.text, language)):
        yield AIMessageChunk(content=word)
    yield AIMessageChunk(content="", response_metadata={"finish_reason": "stop", "model_name": "demo"})


def latest_request(messages: Sequence[BaseMessage]) -> tuple[str, int]:
    """The last thing the user said, and how many replies have been given since."""
    replies = 0
    for message in reversed(messages):
        if is_request(message):
            return message.text, replies
        replies += isinstance(message, AIMessage)
    return "", replies


def is_answer(messages: Sequence[BaseMessage]) -> bool:
    """Whether the user's last message answers a question that was asked just before."""
    positions = [index for index, message in enumerate(messages) if is_request(message)]
    before = messages[positions[-1] - 1] if positions and positions[-1] > 0 else None
    return isinstance(before, ToolMessage) and before.name == "ask_clarification"


def has_failed(messages: Sequence[BaseMessage]) -> bool:
    """Whether the latest tool call ended in an error, or its command in a failure."""
    spoken = (message for message in reversed(messages) if not isinstance(message, HumanMessage) or is_request(message))
    latest = next(spoken, None)
    return isinstance(latest, ToolMessage) and (latest.status == "error" or bool(FAILURE.search(latest.text)))


def is_request(message: BaseMessage) -> bool:
    """Whether a person said this; hidden reminders have the same role."""
    return isinstance(message, HumanMessage) and not message.additional_kwargs.get("hide_from_ui")

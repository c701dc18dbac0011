"""The built-in demo model: plays scripts, offline, for trying the product without a real model."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from deerflow.models.demo.scripts import (
    CLARIFICATION_ANSWERED,
    TOOL_FAILED,
    AnswerStep,
    Language,
    StarterPrompt,
    ToolStep,
    detect_language,
    list_starters,
    next_step,
    read_text,
)

__all__ = [
    "POLISH_PROMPT",
    "SUGGESTIONS_PROMPT",
    "DemoChatModel",
    "StarterPrompt",
    "find_latest_request",
    "list_starters",
]

SUGGESTIONS_PROMPT = "You suggest what a person may want to ask next."
POLISH_PROMPT = "You improve the wording of a request to an assistant."
"""The first sentence of the system prompt of a side call."""
SUGGESTIONS: Mapping[Language, Sequence[str]] = MappingProxyType(
    {
        "en": (
            "What is DeerFlow, and what can it do?",
            "How do I connect a real model?",
            "Plan a team offsite, step by step",
            "Draw a chart of something",
            "Write a short report",
        ),
        "zh": (
            "DeerFlow 是什么，能做什么？",
            "怎样接入真正的模型？",
            "一步一步地计划一次团建",
            "画一张图表",
            "写一份简短的报告",
        ),
    }
)


def answer_side_call(messages: Sequence[BaseMessage]) -> str | None:
    """Return the reply to a side call, such as suggestions or input polishing; None for a conversation."""
    if len(messages) < 2 or not isinstance(messages[0], SystemMessage):
        return None
    handlers: dict[str, Callable[[str], str]] = {SUGGESTIONS_PROMPT: suggest, POLISH_PROMPT: polish}
    for prompt, handle in handlers.items():
        if messages[0].text.startswith(prompt):
            return handle(messages[-1].text)
    return None


def suggest(conversation: str) -> str:
    """Return requests that the demo can play and that were not made yet, in the language of the conversation."""
    made = conversation.casefold()
    others = [each for each in SUGGESTIONS[detect_language(conversation)] if each.casefold() not in made]
    return json.dumps(others, ensure_ascii=False)


def polish(request: str) -> str:
    """Return a request with normalized spaces, a capital first letter and a final punctuation mark."""
    tidy = re.sub(r"[^\S\n]+", " ", request).strip()
    tidy = tidy[:1].upper() + tidy[1:]
    if tidy[-1:].isalnum():
        tidy += "。" if detect_language(tidy) == "zh" else "."
    return tidy


# A word with its trailing space, or a few characters of a script without spaces.
CHUNK = re.compile(r"\s*[\x21-\u2fff]+\s*|\s*[^\x21-\u2fff\s]{1,3}\s*|\s+")

FAILED_COMMAND = re.compile(r"\[exit code \d+\]\Z")
"""The end of the output of a failed command."""


class DemoChatModel(BaseChatModel):
    """Recognizes a few requests, and explains itself for all others. `delay_ms` is the pause between words."""

    model: str = "demo"
    delay_ms: float = 18.0
    writes_titles: bool = False

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
        return generate_from_stream(ChatGenerationChunk(message=piece) for piece in generate(messages, tool_names))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        tool_names: Sequence[str] = (),
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for piece in generate(messages, tool_names):
            yield ChatGenerationChunk(message=piece)
            await asyncio.sleep(self.delay_ms / 1000)


def generate(messages: Sequence[BaseMessage], tools: Sequence[str]) -> Iterator[AIMessageChunk]:
    """Yield the chunks of the reply to `messages`."""
    if (reply := answer_side_call(messages)) is not None:
        yield AIMessageChunk(content=reply, response_metadata={"finish_reason": "stop", "model_name": "demo"})
        return
    request, replies = find_latest_request(messages)
    language = detect_language(request)
    if is_clarification_answer(messages):
        step: AnswerStep | ToolStep = CLARIFICATION_ANSWERED
    else:
        step = TOOL_FAILED if has_failed(messages) else next_step(request, replies, tools)
    if isinstance(step, ToolStep):
        arguments = step.arguments(language)
        call = tool_call_chunk(name=step.tool, args=arguments, id=f"call_{uuid4().hex[:12]}", index=0)
        yield AIMessageChunk(content="", tool_call_chunks=[call])
        return
    for word in CHUNK.findall(step.thought[language]):
        yield AIMessageChunk(content="", additional_kwargs={"reasoning_content": word})
    for word in CHUNK.findall(read_text(step.text, language)):
        yield AIMessageChunk(content=word)
    yield AIMessageChunk(content="", response_metadata={"finish_reason": "stop", "model_name": "demo"})


def find_latest_request(messages: Sequence[BaseMessage]) -> tuple[str, int]:
    """Return the last message of the user, and the number of replies since."""
    replies = 0
    for message in reversed(messages):
        if is_request(message):
            return message.text, replies
        replies += isinstance(message, AIMessage)
    return "", replies


def is_clarification_answer(messages: Sequence[BaseMessage]) -> bool:
    """Return True if the user's last message answers a clarification question."""
    positions = [index for index, message in enumerate(messages) if is_request(message)]
    before = messages[positions[-1] - 1] if positions and positions[-1] > 0 else None
    return isinstance(before, ToolMessage) and before.name == "ask_clarification"


def has_failed(messages: Sequence[BaseMessage]) -> bool:
    """Return True if the latest tool call or its command failed."""
    visible = (each for each in reversed(messages) if not isinstance(each, HumanMessage) or is_request(each))
    latest = next(visible, None)
    return isinstance(latest, ToolMessage) and (latest.status == "error" or bool(FAILED_COMMAND.search(latest.text)))


def is_request(message: BaseMessage) -> bool:
    """Return True for a message of the user; hidden reminders have the same role."""
    return isinstance(message, HumanMessage) and not message.additional_kwargs.get("hide_from_ui")

"""A chat model that says what the test wrote down."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.chat_models import agenerate_from_stream, generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from deerflow.testing.turns import Answer, Piece, Stall

Said: TypeAlias = str | Answer | Stall | Exception
Line: TypeAlias = Said | Callable[[Sequence[BaseMessage]], Said]


@dataclass(frozen=True, slots=True)
class ModelCall:
    """What the model was asked."""

    messages: tuple[BaseMessage, ...]
    tools: tuple[dict[str, Any], ...]
    options: dict[str, Any]

    @property
    def tool_names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.tools]


class ScriptedModel(BaseChatModel):
    """Answers one line of its script per call and streams it word by word.

    `ScriptedModel.saying("Hello", calling("bash", command="ls"), "Done")` — a line is a text, an `Answer`
    (see `calling`, `thinking`, `in_parallel`), a `Stall`, an exception to raise, or a function from the
    messages to one of these. What it was asked is in `requests`.
    """

    _script: deque[Line] = PrivateAttr(default_factory=deque)
    _requests: list[ModelCall] = PrivateAttr(default_factory=list)
    _waiting: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)
    _released: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)

    @classmethod
    def saying(cls, *lines: Line) -> "ScriptedModel":
        """A model that says `lines`, one per call."""
        model = cls()
        model._script.extend(lines)
        return model

    @property
    def requests(self) -> list[ModelCall]:
        return self._requests

    @property
    def waiting(self) -> asyncio.Event:
        """Set while a `Stall` holds the answer back."""
        return self._waiting

    def release(self) -> None:
        """Let a stalled answer end."""
        self._released.set()

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        said = self._next_line(messages, stop, kwargs)
        answer = self._answer(said)
        for piece in answer.pieces():
            await asyncio.sleep(answer.delay_s)
            yield _chunk(piece)
        if isinstance(said, Stall):
            await self._stall()
        yield _last_chunk(answer)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        said = self._next_line(messages, stop, kwargs)
        if isinstance(said, Stall):
            raise AssertionError("a stalled turn needs the async face of the model")
        answer = self._answer(said)
        for piece in answer.pieces():
            time.sleep(answer.delay_s)
            yield _chunk(piece)
        yield _last_chunk(answer)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages, stop, run_manager, **kwargs))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, run_manager, **kwargs))

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _next_line(self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]) -> Said:
        tools = tuple(options.pop("tools", ()))
        self._requests.append(ModelCall(tuple(messages), tools, {"stop": stop, **options}))
        if not self._script:
            asked = messages[-1].text if messages else ""
            raise AssertionError(f"the script ended before call {len(self._requests)}, which asked {asked[:200]!r}")
        line = self._script.popleft()
        said = line(messages) if callable(line) else line
        if isinstance(said, Exception):
            raise said
        return said

    def _answer(self, said: Said) -> Answer:
        if isinstance(said, Stall):
            said = said.after
        answer = said if isinstance(said, Answer) else Answer(str(said))
        return answer.with_call_ids(turn=len(self._requests))

    async def _stall(self) -> None:
        self._released.clear()
        self._waiting.set()
        try:
            await self._released.wait()
        finally:
            self._waiting.clear()


def _chunk(piece: Piece) -> ChatGenerationChunk:
    if piece.kind == "text":
        return ChatGenerationChunk(message=AIMessageChunk(content=piece.text))
    if piece.kind == "reasoning":
        reasoning = {"reasoning_content": piece.text}
        return ChatGenerationChunk(message=AIMessageChunk(content="", additional_kwargs=reasoning))
    call = tool_call_chunk(name=piece.name, args=piece.text, id=piece.call_id, index=piece.index)
    return ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[call]))


def _last_chunk(answer: Answer) -> ChatGenerationChunk:
    cost = answer.cost
    usage = UsageMetadata(
        input_tokens=cost.input_tokens,
        output_tokens=cost.output_tokens,
        total_tokens=cost.input_tokens + cost.output_tokens,
        input_token_details=InputTokenDetails(cache_read=cost.cached_tokens),
        output_token_details=OutputTokenDetails(reasoning=cost.reasoning_tokens),
    )
    metadata = {"finish_reason": answer.reason_to_stop, "model_name": "scripted"}
    message = AIMessageChunk(content="", usage_metadata=usage, response_metadata=metadata, chunk_position="last")
    return ChatGenerationChunk(message=message)

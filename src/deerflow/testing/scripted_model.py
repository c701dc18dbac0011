"""Chat model that returns the replies of a script, and a responder that obeys injected instructions."""

import asyncio
import json
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson
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

from deerflow.testing.scripted_server import ServerRequest
from deerflow.testing.turns import Answer, AnswerChunk, Stall, ToolRequest

INSTRUCTION = re.compile(r"(?:TASK|INSTRUCTION): (call|say) (.*?)(?=(?:TASK|INSTRUCTION): |$)", re.MULTILINE)
PLACEHOLDER = "{canary}"
CANARY = re.compile(r"CANARY-[0-9a-f]{8,}")


@dataclass(frozen=True, slots=True)
class ObedientModel:
    """A turn for `ScriptedServer([ObedientModel()], endless=True)`.

    It follows lines like `TASK: call web_fetch {"url": "…"}` in messages and `INSTRUCTION: call …` in tool results,
    latest result first, each once; `say` adds text to its answer. `{canary}` in an instruction is replaced by the first
    canary (`CANARY-` and hexadecimal digits) in its input.
    """

    def __call__(self, request: ServerRequest) -> Answer:
        text = "\n".join(iter_texts(request.messages))
        canary = CANARY.search(text)
        instructions = [
            (kind, instruction.replace(PLACEHOLDER, canary[0] if canary else "?"))
            for kind, instruction in find_instructions(request)
        ]
        made_calls = set(iter_calls(request.messages))
        for kind, instruction in instructions:
            name, _, rest = instruction.partition(" ")
            arguments = parse_leading_json(rest) if kind == "call" else None
            if arguments is not None and (name, canonicalize(arguments)) not in made_calls:
                return Answer(calls=(ToolRequest(name, arguments),))
        replies = [instruction for kind, instruction in instructions if kind == "say"]
        return Answer(" ".join([*replies, f"I have done {len(made_calls)} things."]))


def find_instructions(request: ServerRequest) -> Iterator[tuple[str, str]]:
    """Yield all instructions: those in the latest tool results first, then those of users in order."""
    tool_messages = [message for message in request.messages if message["role"] == "tool"]
    user_messages = [message for message in request.messages if message["role"] == "user"]
    for text in iter_texts([*reversed(tool_messages), *user_messages]):
        for candidate in (text, *iter_json_strings(text)):
            yield from ((match[1], match[2].strip()) for match in INSTRUCTION.finditer(candidate))


def iter_json_strings(text: str) -> Iterator[str]:
    """Yield the strings in a JSON result."""
    try:
        parts = [orjson.loads(text)]
    except orjson.JSONDecodeError:
        return
    while parts:
        part = parts.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict | list):
            parts += part.values() if isinstance(part, dict) else part


def iter_texts(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the texts of messages in any content format."""
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, str):
            yield content
        else:
            yield from (str(block.get("text", "")) for block in content)


def iter_calls(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, bytes]]:
    """Yield the tool calls that were already made."""
    for message in messages:
        for call in message.get("tool_calls") or ():
            yield call["function"]["name"], canonicalize(call["function"]["arguments"])


def parse_leading_json(text: str) -> str | None:
    """Return the JSON at the start of a text, or None."""
    try:
        return json.dumps(json.JSONDecoder().raw_decode(text.strip())[0])
    except json.JSONDecodeError:
        return None


def canonicalize(arguments: str) -> bytes:
    """Return arguments in canonical form for comparison."""
    return orjson.dumps(orjson.loads(arguments or "{}"), option=orjson.OPT_SORT_KEYS)


ScriptedReply: TypeAlias = str | Answer | Stall | Exception
ScriptLine: TypeAlias = ScriptedReply | Callable[[Sequence[BaseMessage]], ScriptedReply]


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A recorded call of the model."""

    messages: tuple[BaseMessage, ...]
    tools: tuple[dict[str, Any], ...]
    options: dict[str, Any]

    @property
    def tool_names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.tools]


class ScriptedModel(BaseChatModel):
    """Chat model that streams one line of its script per call, word by word.

    `ScriptedModel.saying("Hello", calling("bash", command="ls"), "Done")` — a line is a text, an `Answer`
    (see `calling`, `thinking`, `in_parallel`), a `Stall`, an exception to raise, or a function from the
    messages to one of these. Calls are recorded in `requests`. Titles of threads are not part of the script unless
    `writes_titles` is set.
    """

    writes_titles: bool = False

    _script: deque[ScriptLine] = PrivateAttr(default_factory=deque)
    _requests: list[ModelCall] = PrivateAttr(default_factory=list)
    _waiting: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)
    _released: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)

    @classmethod
    def saying(cls, *lines: ScriptLine) -> "ScriptedModel":
        """Return a model that replies with `lines`, one per call."""
        model = cls()
        model._script.extend(lines)
        return model

    @property
    def requests(self) -> list[ModelCall]:
        return self._requests

    @property
    def waiting(self) -> asyncio.Event:
        """Event that is set while a `Stall` waits."""
        return self._waiting

    def release(self) -> None:
        """Release a stalled answer."""
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
        reply = self._next_line(messages, stop, kwargs)
        answer = self._answer(reply)
        for chunk in answer.chunks():
            await asyncio.sleep(answer.delay_s)
            yield _to_generation_chunk(chunk)
        if isinstance(reply, Stall):
            await self._stall()
        yield _build_last_chunk(answer)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = self._next_line(messages, stop, kwargs)
        if isinstance(reply, Stall):
            raise AssertionError("a Stall requires the async methods of the model")
        answer = self._answer(reply)
        for chunk in answer.chunks():
            time.sleep(answer.delay_s)
            yield _to_generation_chunk(chunk)
        yield _build_last_chunk(answer)

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

    def _next_line(self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]) -> ScriptedReply:
        tools = tuple(options.pop("tools", ()))
        self._requests.append(ModelCall(tuple(messages), tools, {"stop": stop, **options}))
        if not self._script:
            asked = messages[-1].text if messages else ""
            raise AssertionError(f"the script ended before call {len(self._requests)}, which asked {asked[:200]!r}")
        line = self._script.popleft()
        reply = line(messages) if callable(line) else line
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _answer(self, reply: ScriptedReply) -> Answer:
        if isinstance(reply, Stall):
            reply = reply.after
        answer = reply if isinstance(reply, Answer) else Answer(str(reply))
        return answer.with_call_ids(turn=len(self._requests))

    async def _stall(self) -> None:
        self._released.clear()
        self._waiting.set()
        try:
            await self._released.wait()
        finally:
            self._waiting.clear()


def _to_generation_chunk(chunk: AnswerChunk) -> ChatGenerationChunk:
    if chunk.kind == "text":
        return ChatGenerationChunk(message=AIMessageChunk(content=chunk.text))
    if chunk.kind == "reasoning":
        reasoning = {"reasoning_content": chunk.text}
        return ChatGenerationChunk(message=AIMessageChunk(content="", additional_kwargs=reasoning))
    call = tool_call_chunk(name=chunk.name, args=chunk.text, id=chunk.call_id, index=chunk.index)
    return ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[call]))


def _build_last_chunk(answer: Answer) -> ChatGenerationChunk:
    effective_usage = answer.effective_usage
    usage = UsageMetadata(
        input_tokens=effective_usage.input_tokens,
        output_tokens=effective_usage.output_tokens,
        total_tokens=effective_usage.input_tokens + effective_usage.output_tokens,
        input_token_details=InputTokenDetails(cache_read=effective_usage.cached_tokens),
        output_token_details=OutputTokenDetails(reasoning=effective_usage.reasoning_tokens),
    )
    metadata = {"finish_reason": answer.effective_finish_reason, "model_name": "scripted"}
    message = AIMessageChunk(content="", usage_metadata=usage, response_metadata=metadata, chunk_position="last")
    return ChatGenerationChunk(message=message)

"""A chat model and a tool for both servers: what they do depends on the last message alone."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import takewhile
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable

LAUNCH = {"name": "launch", "args": {"rocket": "Saturn"}, "id": "call-1"}


class Parrot(BaseChatModel):
    """Greets; asked to, it launches a rocket, fails, or stops in the middle of a word until it is cancelled."""

    model: str = "parrot"

    @property
    def _llm_type(self) -> str:
        return "parrot"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        pieces = [piece.message async for piece in self._astream(messages)]
        whole = pieces[0]
        for piece in pieces[1:]:
            whole = whole + piece  # type: ignore[assignment]
        return ChatResult(generations=[ChatGeneration(message=message_chunk_to_message(whole))])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        # The harness may tell the model more than people say.
        latest = list(takewhile(lambda message: message.type == "human", reversed(messages)))
        asked = {word for message in latest for word in message.text.split()}
        if "fail" in asked:
            raise LookupError("no such word")
        if "launch" in asked:
            yield ChatGenerationChunk(message=AIMessageChunk("", tool_calls=[LAUNCH]))
            return
        for word in ("Hello ", "there."):
            yield ChatGenerationChunk(message=AIMessageChunk(word))
            if "wait" in asked:
                await asyncio.Event().wait()


def launch(rocket: str) -> str:
    """Launch a rocket.

    Args:
        rocket: Its name.
    """
    return f"{rocket} is in the air"


CONFIG: dict[str, Any] = {
    "models": [{"name": "parrot", "use": "tests.gateway.reference.parrot:Parrot", "model": "parrot"}],
    "tools": [
        {"name": "launch", "group": "space", "use": "tests.gateway.reference.parrot:launch", "approval": "always"}
    ],
}

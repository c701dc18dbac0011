"""The way in from Python."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import orjson
from langchain_core.language_models import BaseChatModel

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import RunFailed
from deerflow.domain.events import StreamEvent as LoggedEvent
from deerflow.domain.ids import new_id
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRequest
from deerflow.harness import open_harness

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One thing that happened in a run.

    `messages-tuple`: a piece of a message, or a whole tool result. `values`: what a step changed in the thread.
    `custom`: what a tool or middleware reports. `end`: the run is over; `data["usage"]` counts its tokens.
    """

    type: Literal["messages-tuple", "values", "custom", "end"]
    data: Mapping[str, Any]


class DeerFlowClient:
    """DeerFlow inside a Python program.

    `config` is laid over `config.yaml`, which need not exist. Every method has a plain and an async face; both enter at
    the same run manager as the web page. Close it, or use it in a `with` block.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        config_path: str | Path | None = None,
        model: BaseChatModel | None = None,
    ) -> None:
        """`model` answers in place of every configured one."""
        source = open_source(Path(config_path) if config_path else None, overrides=config)
        self._loop = HarnessLoop(source, model)

    def chat(self, message: str, *, thread_id: str | None = None, model_name: str | None = None) -> str:
        """Send `message` and return the answer."""
        return self._loop.call(self._chat(message, thread_id, model_name))

    async def achat(self, message: str, *, thread_id: str | None = None, model_name: str | None = None) -> str:
        """Send `message` and return the answer."""
        return await self._loop.acall(self._chat(message, thread_id, model_name))

    def stream(
        self, message: str, *, thread_id: str | None = None, model_name: str | None = None
    ) -> Iterator[StreamEvent]:
        """Send `message` and follow the run. Leaving the loop early stops it."""
        events = self._events(message, thread_id, model_name)
        try:
            while (event := self._loop.call(following(events))) is not None:
                yield event
        finally:
            self._loop.call(events.aclose())

    async def astream(
        self, message: str, *, thread_id: str | None = None, model_name: str | None = None
    ) -> AsyncIterator[StreamEvent]:
        """Send `message` and follow the run. Leaving the loop early stops it."""
        events = self._events(message, thread_id, model_name)
        try:
            while (event := await self._loop.acall(following(events))) is not None:
                yield event
        finally:
            await self._loop.acall(events.aclose())

    def close(self) -> None:
        """Stop what is under way and let go of everything."""
        self._loop.close()

    async def aclose(self) -> None:
        """Stop what is under way and let go of everything."""
        await asyncio.to_thread(self._loop.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _chat(self, message: str, thread_id: str | None, model_name: str | None) -> str:
        answer = ""
        async with aclosing(self._events(message, thread_id, model_name)) as events:
            async for event in events:
                if event.type == "values":
                    answer = last_answer(event.data["messages"]) or answer
        return answer

    async def _events(self, message: str, thread_id: str | None, model_name: str | None) -> AsyncGenerator[StreamEvent]:
        runs = self._loop.harness.runs
        request = RunRequest(thread_id or new_id(), [{"type": "human", "content": message}], AgentSpec(model_name))
        run = await runs.create_or_reject(request, LOCAL_USER)
        reader = Reader()
        try:
            async with aclosing(runs.listen(run)) as groups:
                async for group in groups:
                    for event in filter(None, map(reader.read, group)):
                        yield event
        finally:
            await runs.stop(run.run_id)


@dataclass(slots=True)
class Reader:
    """Turns logged events into those of the client, and adds up what the run used."""

    usage: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("input_tokens", "output_tokens"), 0))
    failure: str | None = None

    def read(self, logged: LoggedEvent) -> StreamEvent | None:
        """What the event means to the caller; None when it means nothing.

        Raises:
            RunFailed: the run has ended, and failed.
        """
        data = orjson.loads(logged.data)
        match logged.event:
            case "messages":
                return StreamEvent("messages-tuple", data[0])
            case "changes":
                self._count(data["messages"])
                return StreamEvent("values", {**data["values"], "messages": data["messages"]})
            case "custom":
                return StreamEvent("custom", data)
            case "error":
                self.failure = data["message"]
                return None
            case "end" if self.failure is not None:
                raise RunFailed(self.failure)
            case "end":
                return StreamEvent("end", {"usage": {**self.usage, "total_tokens": sum(self.usage.values())}})
            case _:
                return None

    def _count(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            for kind in self.usage:
                self.usage[kind] += (message.get("usage_metadata") or {}).get(kind, 0)


class HarnessLoop:
    """A thread with an event loop in which the harness lives, so that callers may have any loop or none."""

    def __init__(self, source: ConfigSource, model: BaseChatModel | None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="deerflow", daemon=True)
        self._thread.start()
        self._opened = AsyncExitStack()
        try:
            self.harness = self.call(self._opened.enter_async_context(open_harness(source, model)))
        except BaseException:
            self.close()
            raise

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` in the loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def acall(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` in the loop and await it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self) -> None:
        """Close the harness and end the thread."""
        if self._loop.is_closed():
            return
        self.call(self._opened.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def following(events: AsyncGenerator[StreamEvent]) -> StreamEvent | None:
    """The next event, None when there is none."""
    return await anext(events, None)


def last_answer(messages: list[dict[str, Any]]) -> str:
    """The text of the last thing the agent said among `messages`."""
    for message in reversed(messages):
        if message["type"] == "ai" and message["content"]:
            return text_of(message["content"])
    return ""


def text_of(content: str | list[dict[str, Any] | str]) -> str:
    """The text of a message's content, whatever its form."""
    if isinstance(content, str):
        return content
    return "".join(block if isinstance(block, str) else block.get("text", "") for block in content)

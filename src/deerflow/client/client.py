"""DeerFlow inside a Python program."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel

from deerflow.agents.features import RuntimeFeatures
from deerflow.client.events import Reader, StreamEvent
from deerflow.client.loop import HarnessLoop
from deerflow.config.source import open_source
from deerflow.domain.ids import new_id
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import AgentSpec, ReasoningEffort, RunRequest
from deerflow.domain.threads import ThreadRecord
from deerflow.harness import open_harness

HISTORY = 100


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
        features: RuntimeFeatures | None = None,
        extra_middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
        model: BaseChatModel | None = None,
        model_name: str | None = None,
        thinking_enabled: bool | None = None,
        reasoning_effort: ReasoningEffort | None = None,
        plan_mode: bool = False,
        subagent_enabled: bool = False,
        agent_name: str | None = None,
    ) -> None:
        """Open everything the configuration asks for.

        Args:
            config: Settings in the shape of `config.yaml`; they win over the file.
            config_path: The file to read instead of the one that would be found.
            features: Which built-in middlewares are on, off or replaced; None leaves that to the configuration.
            extra_middleware: Middlewares of your own, placed by `@Next` and `@Prev`.
            model: Answers in place of every configured model.
            model_name: Which configured model answers.
            thinking_enabled: Whether it thinks first; None: if it can.
            reasoning_effort: How hard it thinks, where it takes that.
            plan_mode: Whether the agent keeps a list of what is to be done.
            subagent_enabled: Whether the agent may hand work to others.
            agent_name: The custom agent that answers.
        """
        source = open_source(Path(config_path) if config_path else None, overrides=config)
        self._agent = AgentSpec(
            model_name=model_name,
            thinking_enabled=thinking_enabled,
            reasoning_effort=reasoning_effort,
            is_plan_mode=plan_mode,
            subagent_enabled=subagent_enabled,
            agent_name=agent_name,
            owner=LOCAL_USER.user_id if agent_name else None,
        )
        self._loop = HarnessLoop(
            partial(open_harness, source, model, features=features, extra_middleware=extra_middleware)
        )

    def chat(self, message: str, *, thread_id: str | None = None) -> str:
        """Send `message` and return the answer."""
        return self._loop.call(self._chat(message, thread_id))

    async def achat(self, message: str, *, thread_id: str | None = None) -> str:
        """Send `message` and return the answer."""
        return await self._loop.acall(self._chat(message, thread_id))

    def stream(self, message: str, *, thread_id: str | None = None) -> Iterator[StreamEvent]:
        """Send `message` and follow the run. Leaving the loop early stops it."""
        events = self._events(message, thread_id)
        try:
            while (event := self._loop.call(following(events))) is not None:
                yield event
        finally:
            self._loop.call(events.aclose())

    async def astream(self, message: str, *, thread_id: str | None = None) -> AsyncIterator[StreamEvent]:
        """Send `message` and follow the run. Leaving the loop early stops it."""
        events = self._events(message, thread_id)
        try:
            while (event := await self._loop.acall(following(events))) is not None:
                yield event
        finally:
            await self._loop.acall(events.aclose())

    def list_threads(self, limit: int = 10) -> list[dict[str, Any]]:
        """Threads, latest activity first."""
        return self._loop.call(self._list_threads(limit))

    async def alist_threads(self, limit: int = 10) -> list[dict[str, Any]]:
        """Threads, latest activity first."""
        return await self._loop.acall(self._list_threads(limit))

    def get_thread(self, thread_id: str) -> dict[str, Any]:
        """A thread with its checkpoints, newest first.

        Raises:
            NotFound: there is no such thread.
        """
        return self._loop.call(self._get_thread(thread_id))

    async def aget_thread(self, thread_id: str) -> dict[str, Any]:
        """A thread with its checkpoints, newest first."""
        return await self._loop.acall(self._get_thread(thread_id))

    def list_models(self) -> dict[str, Any]:
        """The models there are, and the default."""
        return self._loop.call(self._list_models())

    async def alist_models(self) -> dict[str, Any]:
        """The models there are, and the default."""
        return await self._loop.acall(self._list_models())

    def get_model(self, name: str) -> dict[str, Any]:
        """One model.

        Raises:
            NotFound: there is no such model.
        """
        return self._loop.call(self._get_model(name))

    async def aget_model(self, name: str) -> dict[str, Any]:
        """One model."""
        return await self._loop.acall(self._get_model(name))

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

    async def _chat(self, message: str, thread_id: str | None) -> str:
        reader = Reader()
        async with aclosing(self._events(message, thread_id, reader)) as events:
            async for _event in events:
                pass
        return reader.answer

    async def _events(
        self, message: str, thread_id: str | None, reader: Reader | None = None
    ) -> AsyncGenerator[StreamEvent]:
        runs = self._loop.harness.runs
        request = RunRequest(thread_id or new_id(), [{"type": "human", "content": message}], self._agent)
        run = await runs.create_or_reject(request, LOCAL_USER)
        reader = reader or Reader()
        reader.begin(await runs.state_before(run, after=0))
        try:
            async with aclosing(runs.listen(run)) as groups:
                async for group in groups:
                    for event in filter(None, map(reader.read, group)):
                        yield event
        finally:
            await runs.stop(run.run_id)

    async def _list_models(self) -> dict[str, Any]:
        cards = self._loop.harness.agents.model_cards()
        return {"models": [asdict(card) for card in cards], "default": cards[0].name}

    async def _get_model(self, name: str) -> dict[str, Any]:
        return asdict(self._loop.harness.agents.model_card(name))

    async def _list_threads(self, limit: int) -> list[dict[str, Any]]:
        threads = await self._loop.harness.threads.search(LOCAL_USER, limit, 0)
        return [show_thread(thread) for thread in threads]

    async def _get_thread(self, thread_id: str) -> dict[str, Any]:
        threads = self._loop.harness.threads
        thread = show_thread(await threads.get(thread_id, LOCAL_USER))
        history = await threads.history(thread_id, LOCAL_USER, HISTORY)
        checkpoints = [
            {
                "checkpoint_id": state.checkpoint_id,
                "parent_checkpoint_id": state.parent_checkpoint_id,
                "ts": state.created_at,
                "metadata": orjson.loads(state.metadata),
                "values": orjson.loads(state.values),
            }
            for state in history
        ]
        return {**thread, "checkpoints": checkpoints}


async def following(events: AsyncGenerator[StreamEvent]) -> StreamEvent | None:
    """The next event, None when there is none."""
    return await anext(events, None)


def show_thread(thread: ThreadRecord) -> dict[str, Any]:
    """A thread in the shape of the HTTP API."""
    return {
        "thread_id": thread.thread_id,
        "status": thread.status,
        "metadata": dict(thread.metadata),
        "values": {} if thread.title is None else {"title": thread.title},
        "created_at": thread.created_at.isoformat(),
        "updated_at": thread.updated_at.isoformat(),
    }

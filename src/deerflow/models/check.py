"""Check of a model endpoint: lists its models and tests one of them, each step within a time limit."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessageChunk, HumanMessage

from deerflow.domain.errors import AddressRefused, InvalidRequest
from deerflow.models.check_problems import CheckProblem, ProblemCode, classify_error, make_problem
from deerflow.models.connection import (
    ConnectionProvider,
    ObservedCapabilities,
    describe_entry,
    make_model_config,
    normalize_address,
)
from deerflow.models.factory import create_chat_model, find_own_clients
from deerflow.models.listing import (
    MAX_DETAIL_CHARS,
    ApiAttempt,
    ApiSearch,
    FoundProblem,
    ListedModel,
    rank_models,
)

UNREACHABLE: frozenset[ProblemCode] = frozenset(("blocked_address", "dns", "tls", "timeout", "wrong_host"))
"""Problems with which a test of a model is pointless."""
T = TypeVar("T")
CLOSE_LIMIT_S = 1.0
QUESTION = "Count from 1 to 9 in digits, separated by spaces. Write nothing else."
TOOL_QUESTION = "What is the weather in Paris? Use the tool."
TOOL = {
    "name": "get_weather",
    "description": "Returns the weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """Time limits of the steps in seconds."""

    listing_s: float = 6.0
    test_s: float = 12.0
    import_s: float = 60.0
    """For the library of the provider, which is imported on first use."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Result of a check. `base_url` is the address to save; `tested` the model that was tested."""

    base_url: str
    attempts: Sequence[ApiAttempt] = ()
    models: Sequence[ListedModel] = ()
    tested: str | None = None
    observed: ObservedCapabilities = ObservedCapabilities()
    problems: Sequence[CheckProblem] = ()
    seconds: float = 0.0

    @property
    def works(self) -> bool:
        """True if the tested model answered."""
        return self.observed.answer is True


Guard = Callable[[str], Awaitable[None]]
"""Raises `AddressRefused` for hosts that may not be used, and `OSError` if the name is unknown."""


@dataclass(slots=True)
class EndpointCheck:
    """One check of an endpoint."""

    provider: ConnectionProvider
    address: str
    key: str | None = field(repr=False)
    guard: Guard
    limits: CheckLimits = CheckLimits()
    is_public_only: bool = False
    """True: requests go to public addresses only, as the resolver of the connection finds them."""
    search: ApiSearch = field(init=False)

    def __post_init__(self) -> None:
        self.search = ApiSearch(self.provider, self.key, self.limits.listing_s, is_public_only=self.is_public_only)

    async def run(self, model: str | None = None) -> CheckReport:
        """List the models and test `model`, or the best of them."""
        started = time.monotonic()
        report = await self._run(model)
        return replace(report, attempts=tuple(self.search.attempts), seconds=round(time.monotonic() - started, 2))

    async def _run(self, model: str | None) -> CheckReport:
        if command := self.provider.install_command:
            return self._fail(self.address, FoundProblem("not_installed"), command)
        try:
            address = normalize_address(self.address)
        except InvalidRequest as problem:
            return self._fail(self.address, FoundProblem("invalid_address", str(problem)))
        if refused := await self._find_refusal(address):
            return self._fail(address, refused)
        listing = await self.search.find(address)
        models = rank_models(self.provider, listing.models)
        notes = [self._name(FoundProblem("missing_v1"))] if listing.base_url == f"{address}/v1" else []
        tested = model or next((each.model for each in models if each.is_recommended), None)
        finding = listing.finding or (FoundProblem("no_listing") if tested is None else None)
        # A key may be allowed to use models but not to list them, and some servers have no list.
        if finding is not None and (tested is None or finding.code in UNREACHABLE):
            return CheckReport(listing.base_url, models=models, problems=(*notes, self._name(finding, model or "")))
        observed, found = await self._test(listing.base_url, tested or "")
        return CheckReport(listing.base_url, (), models, tested, observed, (*notes, *found))

    async def _find_refusal(self, address: str) -> FoundProblem | None:
        try:
            async with asyncio.timeout(self.limits.listing_s):
                await self.guard(urlsplit(address).hostname or "")
        except AddressRefused as refused:
            return FoundProblem("blocked_address", str(refused))
        except TimeoutError:
            return FoundProblem("timeout")
        except OSError as failure:
            return FoundProblem("dns", str(failure))
        return None

    async def _test(self, base_url: str, model: str) -> tuple[ObservedCapabilities, list[CheckProblem]]:
        """Ask for an answer and a tool call."""
        chat = await run_step(self._create(base_url, model), self.limits.import_s)
        if isinstance(chat, BaseException):
            return ObservedCapabilities(answer=False), [self._name(self._classify_error(chat), model)]
        try:
            observed, found = await self._test_answer(chat)
            if observed.answer:
                calls, problem = await self._test_tools(chat, streams=observed.streaming is True)
                observed, found = replace(observed, tools=calls), [*found, *([problem] if problem else [])]
            return observed, [self._name(each, model) for each in found]
        finally:
            await close_model(chat)

    async def _create(self, base_url: str, model: str) -> BaseChatModel:
        entry = describe_entry(self.provider, model)
        make = partial(make_model_config, is_public_only=self.is_public_only)
        config = make(self.provider, base_url, self.key, model, model, entry)
        # Deltas are counted, so they are not merged.
        ours = {"stream_coalesce_ms": 0, "timeout": self.limits.test_s}
        overrides = ours if self.provider.protocol == "openai" else {"max_retries": 1}
        return await asyncio.to_thread(create_chat_model, config, overrides=overrides)

    async def _test_answer(self, chat: BaseChatModel) -> tuple[ObservedCapabilities, list[FoundProblem]]:
        streamed = await run_step(read_stream(chat, QUESTION), self.limits.test_s)
        if not isinstance(streamed, BaseException):
            observed = ObservedCapabilities(
                answer=True,
                streaming=streamed.text_chunks > 1,
                usage=streamed.has_usage,
                reasoning=streamed.has_reasoning or None,
            )
            return observed, list_weaknesses(observed)
        finding = self._classify_error(streamed)
        if finding.code != "no_streaming":
            return ObservedCapabilities(answer=False), [finding]
        whole = await run_step(chat.ainvoke(QUESTION, stream=False), self.limits.test_s)
        if isinstance(whole, BaseException):
            return ObservedCapabilities(answer=False, streaming=False), [self._classify_error(whole)]
        observed = ObservedCapabilities(
            answer=True, streaming=False, usage=bool(getattr(whole, "usage_metadata", None))
        )
        return observed, list_weaknesses(observed)

    async def _test_tools(self, chat: BaseChatModel, *, streams: bool) -> tuple[bool | None, FoundProblem | None]:
        caller: Any = chat.bind_tools([{"type": "function", "function": TOOL}])
        asking = read_stream(caller, TOOL_QUESTION) if streams else read_whole(caller, TOOL_QUESTION)
        answer = await run_step(asking, self.limits.test_s)
        if not isinstance(answer, BaseException):
            return answer.has_tool_call, None if answer.has_tool_call else FoundProblem("no_tools")
        finding = self._classify_error(answer)
        if finding.code in ("no_tools", "rejected", "bad_response", "server_error", "wrong_host"):
            return False, FoundProblem("no_tools", finding.detail)
        return None, None

    def _fail(self, base_url: str, finding: FoundProblem, command: str = "") -> CheckReport:
        named = self._name(finding, command=command)
        return CheckReport(base_url, problems=(named,))

    def _name(self, finding: FoundProblem, model: str = "", command: str = "") -> CheckProblem:
        host = urlsplit(self.address if "//" in self.address else f"//{self.address}").netloc.rpartition("@")[2]
        return make_problem(
            finding.code,
            host=host if self.provider.base_url != self.address else self.provider.title,
            model=model,
            command=command,
            detail=finding.detail[:MAX_DETAIL_CHARS],
        )

    def _classify_error(self, error: BaseException) -> FoundProblem:
        return FoundProblem(classify_error(error), self.search.redact(str(error) or type(error).__name__))


def list_weaknesses(observed: ObservedCapabilities) -> list[FoundProblem]:
    """Return what a model that answers cannot do."""
    found = [FoundProblem("no_streaming")] if not observed.streaming else []
    return found if observed.usage else [*found, FoundProblem("no_usage")]


@dataclass(frozen=True, slots=True)
class AnswerTraits:
    """Answer of a model to a test."""

    text_chunks: int
    has_usage: bool
    has_reasoning: bool
    has_tool_call: bool


async def read_stream(model: Any, question: str) -> AnswerTraits:
    """Stream an answer and return what it had."""
    chunks = 0
    whole: BaseMessageChunk | None = None
    async for chunk in model.astream([HumanMessage(question)]):
        chunks += bool(chunk.text)
        whole = chunk if whole is None else whole + chunk
    return describe_answer(whole, chunks)


async def read_whole(model: Any, question: str) -> AnswerTraits:
    """Ask for an answer without streaming and return what it had."""
    return describe_answer(await model.ainvoke([HumanMessage(question)], stream=False), 1)


def describe_answer(message: Any, chunks: int) -> AnswerTraits:
    """Return what an answer had."""
    content = getattr(message, "content", "")
    kinds = (
        {block.get("type") for block in content if isinstance(block, Mapping)} if isinstance(content, list) else set()
    )
    extra = getattr(message, "additional_kwargs", {})
    return AnswerTraits(
        chunks,
        bool(getattr(message, "usage_metadata", None)),
        bool(extra.get("reasoning_content")) or bool(kinds & {"reasoning", "thinking"}),
        bool(getattr(message, "tool_calls", None)),
    )


async def run_step(work: Coroutine[Any, Any, T], limit_s: float) -> T | BaseException:
    """Return the result of `work`, or the error it ended with: vendors' classes raise errors of any type."""
    task = asyncio.create_task(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=limit_s)
    finally:
        task.cancel()
    if not done:
        await asyncio.wait({task}, timeout=CLOSE_LIMIT_S)
        return TimeoutError(f"no answer within {limit_s:g} s")
    return task.exception() or task.result()


async def close_model(model: BaseChatModel) -> None:
    """Close the connections of a model."""
    if (close := getattr(model, "aclose", None)) is not None:
        await close()
    for client in find_own_clients(model):
        await client.close()

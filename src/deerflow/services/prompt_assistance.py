"""Model calls besides runs: follow-up suggestions, rewriting of prompts, and thread titles."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from string import Template
from typing import Any, Literal

import orjson
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage

from deerflow.agent_support.compaction import split_conversation, verify_summary
from deerflow.agent_support.model_failures import get_model_name
from deerflow.agent_support.replies import EARLIER_NOTES, is_user_message
from deerflow.agent_support.thread_state import read_value
from deerflow.agent_support.tokens import count_tokens
from deerflow.agents.middlewares.summarization_middleware import (
    SUMMARY_TOKENS,
    build_summary_request,
    find_summary,
    read_summary_prompt,
    replace_by_summary,
)
from deerflow.agents.middlewares.title_middleware import write_title
from deerflow.agents.spec import AgentGraph, AgentSettings
from deerflow.config.sections.agents import SummarizationConfig
from deerflow.config.sections.base import Settings
from deerflow.config.sections.runs import InputPolishConfig, SuggestionsConfig
from deerflow.domain.errors import Conflict, InvalidRequest
from deerflow.domain.identity import Principal
from deerflow.domain.runs import AgentSpec, RunRecord
from deerflow.domain.threads import COMPACTION, derive_title
from deerflow.domain.usage import INPUT_POLISH, SUGGESTIONS, SUMMARIZATION, TITLE, ModelBudget, TokenCounts, UsageOrigin
from deerflow.models.usage import read_counts
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.threads import find_thread, read_title, rename_thread
from deerflow.runtime.runs.job import Job
from deerflow.runtime.side_calls import SideCalls, SideRequest
from deerflow.runtime.threads.states import checkpoint_config
from deerflow.runtime.threads.threads import Threads

MAX_MESSAGES = 6
MAX_MESSAGE_CHARS = 2000
"""Number of the latest messages in the prompt, and the maximum length of each."""
MAX_SUGGESTION_CHARS = 200
TITLE_TIMEOUT_S, MAX_TITLE_ATTEMPTS = 60.0, 2


@dataclass(frozen=True, slots=True)
class SuggestionList:
    """Follow-up questions, or the reason why there are none."""

    suggestions: Sequence[str]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SuggestionService:
    """Generates follow-up questions."""

    calls: SideCalls
    graph: AgentGraph
    settings: Settings[SuggestionsConfig]

    async def suggest(
        self,
        thread_id: str,
        who: Principal,
        count: int,
        messages: Sequence[Mapping[str, str]] | None = None,
        model_name: str | None = None,
    ) -> SuggestionList:
        """Return at most `count` questions; `messages` replaces the messages of the thread. None when the model fails.

        Raises:
            NotFound: The thread does not exist.
        """
        await self.calls.database.read(partial(find_thread, thread_id=thread_id, owner=who.user_id))
        settings = self.settings.current
        if not settings.enabled:
            return SuggestionList((), "suggestions are switched off")
        conversation = "\n\n".join(
            self._render_given(messages) if messages is not None else await self._render_thread(thread_id)
        )
        if not conversation:
            return SuggestionList((), "nothing has been said yet")
        wanted = min(count, settings.max_suggestions)
        template = Path(__file__).with_name("suggestions.md").read_text(encoding="utf-8")
        prompt = Template(template).substitute(count=wanted)
        name = model_name or settings.model_name or await self.calls.model_of(thread_id, who)
        request = [SystemMessage(prompt), HumanMessage(conversation)]
        answer = await self.calls.ask(SideRequest(SUGGESTIONS, request, name, settings.timeout_seconds, who, thread_id))
        found = parse_suggestions(answer.text)[:wanted]
        return SuggestionList(found, answer.reason or (None if found else "the model gave no list of questions"))

    def _render_given(self, messages: Sequence[Mapping[str, str]]) -> Iterator[str]:
        for message in messages[-MAX_MESSAGES:]:
            yield f"{message['role']}: {message['content'][:MAX_MESSAGE_CHARS]}"

    async def _render_thread(self, thread_id: str) -> list[str]:
        messages = (await self.graph.aget_state(checkpoint_config(thread_id))).values.get("messages", [])
        shown = [message for message in messages if is_user_message(message) or is_answer(message)]
        return [
            f"{'person' if is_user_message(message) else 'assistant'}: {message.text[:MAX_MESSAGE_CHARS]}"
            for message in shown[-MAX_MESSAGES:]
        ]


def is_answer(message: BaseMessage) -> bool:
    """Return whether a message is a reply with text."""
    return isinstance(message, AIMessage) and bool(message.text.strip())


def parse_suggestions(text: str) -> list[str]:
    """Return the questions in the output of the model, a JSON array; text around it is ignored."""
    start, end = text.find("["), text.rfind("]")
    if start < 0 or end < start:
        return []
    try:
        found = orjson.loads(text[start : end + 1])
    except orjson.JSONDecodeError:
        return []
    lines = (" ".join(each.split()) for each in found if isinstance(each, str))
    return list(dict.fromkeys(line for line in lines if 0 < len(line) <= MAX_SUGGESTION_CHARS))


FENCES = ("```", '"""')
MAX_GROWTH = 4
"""Maximum growth of a rewritten prompt; a longer output is an answer rather than a prompt."""


@dataclass(frozen=True, slots=True)
class PolishedText:
    """Rewritten prompt; if `changed` is false, the original and perhaps the reason."""

    text: str
    changed: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class InputPolisher:
    """Rewrites prompts before they are sent."""

    calls: SideCalls
    settings: Settings[InputPolishConfig]

    async def polish(
        self, text: str, who: Principal, locale: str | None = None, thread_id: str | None = None
    ) -> PolishedText:
        """Rewrite `text`; return it unchanged when the model fails.

        Raises:
            InvalidRequest: It is too long, or empty.
            NotFound: The thread does not exist.
        """
        settings = self.settings.current
        if not text.strip():
            raise InvalidRequest("text is empty: there is nothing to polish")
        if len(text) > settings.max_chars:
            raise InvalidRequest(f"text has {len(text)} characters; at most {settings.max_chars} can be polished")
        if thread_id is not None:
            await self.calls.database.read(partial(find_thread, thread_id=thread_id, owner=who.user_id))
        if not settings.enabled:
            return PolishedText(text, False, "input polish is switched off")
        name = settings.model_name or (await self.calls.model_of(thread_id, who) if thread_id else None)
        messages = [SystemMessage(build_polish_prompt(locale)), HumanMessage(text)]
        question = SideRequest(INPUT_POLISH, messages, name, settings.timeout_seconds, who, thread_id)
        answer = await self.calls.ask(question)
        better = remove_fence(answer.text)
        if answer.reason or not better or len(better) > MAX_GROWTH * len(text) + 200:
            return PolishedText(text, False, answer.reason or "the model did not rewrite the text")
        return PolishedText(better, better != text)


def build_polish_prompt(locale: str | None) -> str:
    """Return the system prompt."""
    words = Template(Path(__file__).with_name("input_polish.md").read_text(encoding="utf-8"))
    return words.substitute(locale=f" (the person's locale is {locale})" if locale else "")


def remove_fence(text: str) -> str:
    """Return a text without the code fence or quotes that some models put around it."""
    for fence in FENCES:
        if text.startswith(fence) and text.endswith(fence) and "\n" in text:
            return text[len(fence) : -len(fence)].partition("\n")[2].strip()
    if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1]:
        return text[1:-1].strip()
    return text


@dataclass(frozen=True, slots=True)
class TitleGenerator:
    """Generates thread titles with the model of the run, or the one that is configured for it."""

    database: Database
    get_model: Callable[[AgentSpec, AgentSettings, str | None], Awaitable[BaseChatModel | None]]
    """Returns the model of a name, or that of a run; None if it does not write titles."""
    record_usage: Callable[[UsageOrigin, str, str, TokenCounts], Awaitable[None]]
    """Records the usage of a call: origin, caller, model and counts."""
    charge: Callable[[str, ModelBudget | None], Awaitable[ModelBudget | None]]
    """Returns the budget of a call of a person, with their quota if they have one."""
    _active: set[str] = field(default_factory=set)
    """Threads whose title is being generated. A run that ends meanwhile does not ask again."""

    async def generate(self, job: Job) -> None:
        """Generate the title of a run's thread after its first exchange, within the remaining budget of the run.

        A title that a middleware of the user has set is kept. The first words stay when the model fails or the process
        ends; then it is tried again after the next run.
        """
        run, settings, own = job.run, job.settings.title, job.records.new_title
        if not settings.enabled:
            return
        messages = job.records.messages
        asked = [message.text for message in islice(filter(is_user_message, messages), MAX_TITLE_ATTEMPTS + 1)]
        answers = [message.text for message in messages if isinstance(message, AIMessage) and message.text]
        is_shortened = any(EARLIER_NOTES in message.additional_kwargs for message in messages)
        if job.records.is_temporary or not 1 <= len(asked) <= MAX_TITLE_ATTEMPTS or not answers or is_shortened:
            return
        first_words = derive_title(asked[0], settings.max_chars)
        if own not in (None, first_words) or len(asked) > 1 and await self._has_title(run, first_words):
            return
        if run.thread_id in self._active:
            return
        self._active.add(run.thread_id)
        try:
            await self._write(job, asked[0], answers[-1], first_words)
        finally:
            self._active.discard(run.thread_id)

    async def _write(self, job: Job, question: str, answer: str, first_words: str) -> None:
        """Store the title that a model writes, and the usage of its call."""
        run, settings = job.run, job.settings.title
        model = await self.get_model(job.request.agent, job.settings.agents, settings.model_name)
        if model is None:
            return
        replies: list[AIMessage] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(TITLE_TIMEOUT_S):
                budget = await self.charge(run.actor, job.records.budget)
                title = await write_title(model, question, answer, settings, replies.append, budget)
            writes = [self._record_usage(run, model, reply) for reply in replies]
            if title != first_words:  # these are shown already
                rename = partial(rename_thread, thread_id=run.thread_id, owner=run.owner, title=title)
                writes.append(self.database.write(rename))
            await asyncio.gather(*writes)  # in one transaction

    async def _has_title(self, run: RunRecord, first_words: str) -> bool:
        """Return whether a thread has another title than its first words."""
        title = await self.database.read(partial(read_title, thread_id=run.thread_id))
        return title not in (None, first_words)

    async def _record_usage(self, run: RunRecord, model: BaseChatModel, reply: AIMessage) -> None:
        """Record the usage of the title with the run."""
        origin = UsageOrigin(run.actor, datetime.now(UTC), run.thread_id, run.run_id)
        await self.record_usage(origin, TITLE, get_model_name(model, reply), read_counts(reply))


TIMEOUT_S = 120.0
KEPT_MESSAGES = 2
"""Number of messages at the end that stay: the latest request and its answer."""
KEPT_TOKENS = 8_000


CompactionStatus = Literal["summarized", "nothing_to_summarize", "model_failed"]


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """Number of messages that were summarized, and the estimated tokens before and after.

    If none was, `reason` says why, and the thread is unchanged.
    """

    status: CompactionStatus
    summarized: int
    tokens_before: int
    tokens_after: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CompactionService:
    """Summarizes threads. Every method is restricted to the threads of `who`, and raises `NotFound` for others."""

    threads: Threads
    graph: AgentGraph
    calls: SideCalls
    settings: Settings[SummarizationConfig]

    async def compact(self, thread_id: str, who: Principal, model_name: str | None = None) -> CompactionResult:
        """Replace all but the latest exchange by a summary.

        Messages that leave the context stay in the journal. The thread is unchanged if the model fails.

        Raises:
            Conflict: A run is active, or the thread has changed meanwhile.
        """
        await self.threads.check_idle(thread_id, who)
        before = await self.graph.aget_state(checkpoint_config(thread_id))
        messages: list[AnyMessage] = before.values.get("messages", [])
        tokens, summary = count_tokens(messages), find_summary(messages)
        parts = split_conversation(messages, KEPT_MESSAGES, KEPT_TOKENS)
        if not parts.dropped or not parts.kept:
            return CompactionResult("nothing_to_summarize", 0, tokens, tokens, "there is nothing to summarize yet")
        settings = self.settings.current
        name = model_name or settings.model_name or await self.calls.model_of(thread_id, who)
        request = build_summary_request(
            read_summary_prompt(settings), summary, parts.dropped, settings.trim_tokens_to_summarize
        )
        answer = await self.calls.ask(SideRequest(SUMMARIZATION, request, name, TIMEOUT_S, who, thread_id))
        if answer.reason is not None:
            return CompactionResult("model_failed", 0, tokens, tokens, answer.reason)
        todos = read_value(before.values, "todos") or ()
        notes = verify_summary(answer.text, summary, parts.dropped, todos, SUMMARY_TOKENS)
        now = await self.graph.aget_state(checkpoint_config(thread_id))
        if get_checkpoint(now.config) != get_checkpoint(before.config):
            raise Conflict(f"thread {thread_id!r} has changed meanwhile; try again")
        update = {"messages": list(replace_by_summary(parts.dropped, parts.kept, notes))}
        await self.threads.update_state(thread_id, who, update, source=COMPACTION)
        after = count_tokens(parts.kept) + len(notes) // 3
        return CompactionResult("summarized", len(parts.dropped), tokens, after)


def get_checkpoint(config: Mapping[str, Any]) -> str | None:
    """Return the id of the checkpoint in a configuration."""
    found: str | None = config.get("configurable", {}).get("checkpoint_id")
    return found

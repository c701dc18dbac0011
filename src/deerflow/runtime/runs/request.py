"""Run requests: conversion to messages and records, and validation of answers to interrupts.

LangGraph accepts any resume value, and a thread cannot continue after one that does not fit: answers are checked.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.messages import BaseMessage, HumanMessage
from pydantic import TypeAdapter, ValidationError

from deerflow.config.sections.runs import TitleConfig
from deerflow.domain.errors import Conflict, Forbidden, InvalidRequest
from deerflow.domain.identity import Principal, new_id
from deerflow.domain.runs import Resume, RunRecord, RunRequest, RunStatus
from deerflow.domain.threads import derive_title
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.audit import AuditOutcome
from deerflow.persistence.queries.runs import StoredRequest
from deerflow.persistence.queries.threads import find_thread
from deerflow.runtime.journal.serialization import message_fields, to_json
from deerflow.runtime.transcript import convert_values, to_messages

if TYPE_CHECKING:
    from langchain.agents.middleware.human_in_the_loop import HITLResponse
    from langgraph.types import Interrupt

ASKED_BY = "asked_by"
REQUEST_FIELDS = tuple(each.name for each in fields(RunRequest))


PendingInterrupts: TypeAlias = "Callable[[str], Awaitable[Sequence[Interrupt]]]"
"""(thread) → the interrupts of its paused run."""
Decision = tuple[str, AuditOutcome, bool]
"""Name of a tool, what a person has decided about its call, and whether that counts for the rest of the thread."""


async def match_resume(
    database: Database, list_pending: PendingInterrupts, request: RunRequest, who: Principal
) -> tuple[RunRequest, Sequence[Decision]]:
    """Return a request with its answers by interrupt, after checking them, and what they decide."""
    if request.resume is None:
        return request, ()
    await database.read(partial(find_thread, thread_id=request.thread_id, owner=who.user_id))
    questions = await list_pending(request.thread_id)
    answers = match_answers(questions, request.resume.answer)
    decided = [each for question in questions for each in list_decisions(question.value, answers[question.id])]
    return replace(request, resume=Resume(answers)), decided


def list_decisions(question: object, answer: object) -> Sequence[Decision]:
    """Return the decision about each tool call of an interrupt."""
    given = answer.get("decisions", ()) if isinstance(answer, Mapping) else ()
    decided = zip(requested_calls(question) or (), given, strict=False)
    return [(call["name"], each["type"], each.get("scope") == "thread") for call, each in decided]


def check_scopes(decisions: Sequence[Decision], *, is_owner: bool) -> None:
    """Raise `Forbidden` if a person who does not own the thread decides about calls for all of it."""
    if not is_owner and any(is_for_thread for _, _, is_for_thread in decisions):
        raise Forbidden("only the owner of the thread can allow calls for the whole thread")


def match_answers(questions: "Sequence[Interrupt]", answer: object) -> dict[str, object]:
    """Return the answer for each interrupt by id. A mapping with exactly these ids answers each separately.

    Raises:
        Conflict: The thread has no pending interrupt.
        InvalidRequest: The answer does not decide all requested calls.
    """
    if not questions:
        raise Conflict("nothing waits for an answer in this thread")
    ids = [question.id for question in questions]
    answers = dict(answer) if isinstance(answer, Mapping) and set(answer) == set(ids) else dict.fromkeys(ids, answer)
    for question in questions:
        if (calls := requested_calls(question.value)) is not None:
            check_decisions(calls, answers[question.id])
            answers[question.id] = add_asker(answers[question.id], question.value)
    return answers


def add_asker(answer: object, question: object) -> object:
    """Return the answer with the name of its asker, if any: one step may interrupt for several reasons."""
    asker = question.get(ASKED_BY) if isinstance(question, Mapping) else None
    return {**answer, ASKED_BY: asker} if asker is not None and isinstance(answer, Mapping) else answer


def requested_calls(value: object) -> Sequence[Mapping[str, Any]] | None:
    """Return the tool calls of an interrupt, or None if it has none."""
    return value["action_requests"] if isinstance(value, Mapping) and "action_requests" in value else None


@cache
def build_decisions_adapter() -> "TypeAdapter[HITLResponse]":
    """Return the type adapter of answers to interrupts that ask for decisions."""
    from langchain.agents.middleware.human_in_the_loop import HITLResponse

    return TypeAdapter(HITLResponse)


def check_decisions(calls: Sequence[Mapping[str, Any]], answer: object) -> None:
    """Raise `InvalidRequest` unless `answer` decides each of `calls`."""
    try:
        decisions = build_decisions_adapter().validate_python(answer)["decisions"]
    except ValidationError:
        decisions = []
    if len(decisions) != len(calls):
        names = ", ".join(call["name"] for call in calls)
        raise InvalidRequest(
            f"{answer!r} does not decide what waits ({names}): answer with {{'decisions': [...]}}, one for each call, "
            "such as {'type': 'approve'} or {'type': 'reject', 'message': 'why'}"
        )


def request_messages(request: RunRequest) -> list[BaseMessage]:
    """Return the messages that a request adds to its thread; none if it resumes, updates or continues.

    Raises:
        InvalidRequest: A message or the update of a command is invalid.
    """
    if request.command is not None:
        convert_values(request.command.update)
    brings_none = request.resume or request.command or request.goes_on
    return [] if brings_none else to_messages(request.messages)


def create_run_record(request: RunRequest, who: Principal, process: str, actor: Principal | None = None) -> RunRecord:
    """Return the record of a new run of a thread of `who`, started by `actor` if that is another person."""
    now = datetime.now(UTC)
    return RunRecord(
        run_id=new_id(),
        thread_id=request.thread_id,
        owner=who.user_id,
        assistant_id=request.assistant_id,
        status=RunStatus.RUNNING,
        on_disconnect=request.on_disconnect,
        multitask_strategy=request.multitask_strategy,
        process=process,
        attempt=1,
        metadata=request.metadata,
        error=None,
        created_at=now,
        updated_at=now,
        started_by=None if actor in (None, who) else actor.user_id,
    )


def serialize_request(request: RunRequest, messages: Sequence[BaseMessage]) -> StoredRequest:
    """Return the request as stored with its run."""
    content: dict[str, Any] = {
        **{name: getattr(request, name) for name in REQUEST_FIELDS},
        "agent": asdict(request.agent),
        "resume": request.resume and asdict(request.resume),
        "command": request.command and asdict(request.command),
        "budget": request.budget and request.budget.to_stored(),
    }
    named = [sent_message(sent, message) for sent, message in zip(request.messages, messages, strict=True)]
    # Without generated ids, so that equal requests have equal digests.
    digest = sha256(to_json(content)).hexdigest()
    return StoredRequest({**content, "messages": named}, digest, request.idempotency_key)


def sent_message(sent: Mapping[str, object], message: BaseMessage) -> dict[str, object]:
    """Return a message as it was sent, with its id; LangChain's serialized form uses that key for something else."""
    return message_fields(message) if "lc" in sent else {**sent, "id": message.id}


def initial_title(messages: Sequence[BaseMessage], settings: TitleConfig) -> str | None:
    """Return the initial title of a thread; None if titles are off, or the message has no words of its own."""
    text = next((message.text for message in messages if isinstance(message, HumanMessage)), "")
    return derive_title(text, settings.max_chars) or None if settings.enabled else None

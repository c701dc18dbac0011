"""From what a caller sent to what a run works with."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256

from langchain_core.messages import BaseMessage, HumanMessage

from deerflow.agents.middlewares.title_middleware import local_title
from deerflow.config.title import TitleConfig
from deerflow.domain.ids import new_id
from deerflow.domain.principal import Principal
from deerflow.domain.runs import RunRecord, RunRequest, RunStatus
from deerflow.persistence.runs import StoredRequest
from deerflow.runtime.incoming import to_messages
from deerflow.runtime.serialization import message_fields, to_json


def messages_of(request: RunRequest) -> list[BaseMessage]:
    """What a request adds to its thread: nothing when it answers, changes or goes on with what is there."""
    brings_none = request.resume or request.command or request.goes_on
    return [] if brings_none else to_messages(request.messages)


def new_run(request: RunRequest, who: Principal, process: str) -> RunRecord:
    """The record of a run that is about to begin."""
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
    )


def to_stored(request: RunRequest, messages: Sequence[BaseMessage]) -> StoredRequest:
    """The request as its run keeps it."""
    content = {**asdict(request), "budget": request.budget and request.budget.to_stored()}
    named = [as_sent(sent, message) for sent, message in zip(content["messages"], messages, strict=True)]
    # Ids that were made up here differ each time somebody asks for the same.
    digest = sha256(to_json(content)).hexdigest()
    return StoredRequest({**content, "messages": named}, digest, request.idempotency_key)


def as_sent(sent: Mapping[str, object], message: BaseMessage) -> dict[str, object]:
    """A message as it came, under its id; LangChain's envelope has another use for that word."""
    return message_fields(message) if "lc" in sent else {**sent, "id": message.id}


def title_from(messages: Sequence[BaseMessage], settings: TitleConfig) -> str | None:
    """A title for a thread that begins with `messages`; None when there is to be none."""
    text = next((message.text for message in messages if isinstance(message, HumanMessage)), "")
    return local_title(text, settings.max_chars) or None if settings.enabled else None

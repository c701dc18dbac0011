"""From what a caller sent to what a run works with."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages

from deerflow.agents.middlewares.title_middleware import local_title
from deerflow.config.title import TitleConfig
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.ids import new_id
from deerflow.domain.runs import RunRequest
from deerflow.persistence.runs import StoredRequest
from deerflow.runtime.serialization import to_json


def to_messages(raw: Sequence[Mapping[str, object]]) -> list[BaseMessage]:
    """The messages of a request, each with an id.

    Raises:
        InvalidRequest: one is not a message; the text says which.
    """
    messages: list[BaseMessage] = []
    for index, fields in enumerate(raw):
        try:
            (message,) = convert_to_messages([dict(fields)])
        except (ValueError, TypeError, NotImplementedError) as problem:
            reason = str(problem).splitlines()[0]
            raise InvalidRequest(f"input.messages[{index}] is not a message: {reason}") from problem
        message.id = message.id or new_id()
        messages.append(message)
    if not messages:
        raise InvalidRequest("input.messages is empty: send at least one message")
    return messages


def to_stored(request: RunRequest, messages: Sequence[BaseMessage]) -> StoredRequest:
    """The request as its run keeps it."""
    content = asdict(request)
    named = [{**sent, "id": message.id} for sent, message in zip(content["messages"], messages, strict=True)]
    # Ids that were made up here differ each time somebody asks for the same.
    digest = sha256(to_json(content)).hexdigest()
    return StoredRequest({**content, "messages": named}, digest, request.idempotency_key)


def title_from(messages: Sequence[BaseMessage], settings: TitleConfig) -> str | None:
    """A title for a thread that begins with `messages`; None when there is to be none."""
    text = next((message.text for message in messages if isinstance(message, HumanMessage)), "")
    return local_title(text, settings.max_chars) or None if settings.enabled else None

"""Messages as callers send them."""

from collections.abc import Mapping, Sequence

from langchain_core.messages import BaseMessage, convert_to_messages

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.ids import new_id


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

"""What people answer to a paused run, checked before it goes on.

The graph takes any answer, and a thread is stuck for good with one that does not fit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain.agents.middleware.human_in_the_loop import HITLResponse
from langgraph.types import Interrupt
from pydantic import TypeAdapter, ValidationError

from deerflow.domain.errors import Conflict, InvalidRequest

DECISIONS = TypeAdapter(HITLResponse)
ASKED_BY = "asked_by"


def by_question(questions: Sequence[Interrupt], answer: object) -> dict[str, object]:
    """`answer` for each question by its id, which is also how several can be answered differently.

    Raises:
        Conflict: Nothing was asked.
        InvalidRequest: The answer does not decide what was asked.
    """
    if not questions:
        raise Conflict("nothing waits for an answer in this thread")
    ids = [question.id for question in questions]
    answers = dict(answer) if isinstance(answer, Mapping) and set(answer) == set(ids) else dict.fromkeys(ids, answer)
    for question in questions:
        if (calls := calls_in(question.value)) is not None:
            check_decisions(calls, answers[question.id])
            answers[question.id] = addressed(answers[question.id], question.value)
    return answers


def addressed(answer: object, question: object) -> object:
    """An answer with the name of who asked, where that is told: one step may ask for several reasons."""
    asker = question.get(ASKED_BY) if isinstance(question, Mapping) else None
    return {**answer, ASKED_BY: asker} if asker is not None and isinstance(answer, Mapping) else answer


def calls_in(value: object) -> Sequence[Mapping[str, Any]] | None:
    """The tool calls a question is about; None when it is about something else."""
    return value["action_requests"] if isinstance(value, Mapping) and "action_requests" in value else None


def check_decisions(calls: Sequence[Mapping[str, Any]], answer: object) -> None:
    """Raise `InvalidRequest` unless `answer` decides each of `calls`."""
    try:
        decisions = DECISIONS.validate_python(answer)["decisions"]
    except ValidationError:
        decisions = []
    if len(decisions) != len(calls):
        names = ", ".join(call["name"] for call in calls)
        raise InvalidRequest(
            f"{answer!r} does not decide what waits ({names}): answer with {{'decisions': [...]}}, one for each call, "
            "such as {'type': 'approve'} or {'type': 'reject', 'message': 'why'}"
        )

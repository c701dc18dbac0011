"""`ask_clarification`: a question to the user, which ends the run."""

from typing import Literal, TypeAlias

from langchain_core.tools import tool

ClarificationType: TypeAlias = Literal[
    "missing_info", "ambiguous_requirement", "approach_choice", "risk_confirmation", "suggestion"
]


@tool("ask_clarification", parse_docstring=True, return_direct=True)
def ask_clarification_tool(
    question: str,
    clarification_type: ClarificationType,
    context: str | None = None,
    options: list[str] | None = None,
) -> str:
    """Ask the user one question before you go on. The run pauses; the answer is the next message.

    Ask when what you need is missing or ambiguous, when there are several ways the user should choose from, or before
    something that cannot be undone. Do not ask what you can find out yourself. Call no other tool beside it; to ask
    several things, call it once for each in the same reply.

    Args:
        question: One clear question.
        clarification_type: Why you ask.
        context: What the user needs to know to answer.
        options: Answers to choose from; the user can always write another one.
    """
    return question

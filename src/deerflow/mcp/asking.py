"""What servers ask the user, in the form in which people are asked for their approval of a call."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from deerflow.mcp.calls import Question, Reply

SIMPLE = (str, int, float, bool)
BLANK = MappingProxyType({"string": "", "number": 0, "integer": 0, "boolean": False, "array": ()})


def question_payload(tool: str, question: Question) -> dict[str, Any]:
    """The question as pages and programs read it: fill the form by `edit`, take it as it is, or reject it."""
    args: dict[str, Any] = {"open": question.url} if question.url else blank_form(question.schema)
    decisions = ["approve", "reject"] if question.url else ["approve", "edit", "reject"]
    return {
        "action_requests": [{"name": tool, "args": args, "description": question.message}],
        "review_configs": [{"action_name": tool, "allowed_decisions": decisions, "args_schema": dict(question.schema)}],
    }


def read_reply(question: Question, answer: object) -> Reply:
    """What a decision means for the server that asked."""
    decision = first_decision(answer)
    kind = decision.get("type")
    if kind == "reject":
        return Reply("decline")
    if kind not in ("approve", "edit"):
        return Reply("cancel")
    if question.url:
        return Reply("accept")
    edited = decision.get("edited_action") if kind == "edit" else None
    args = edited.get("args") if isinstance(edited, Mapping) else None
    return Reply("accept", fitting(args if isinstance(args, Mapping) else blank_form(question.schema)))


def first_decision(answer: object) -> Mapping[str, Any]:
    """The one decision in an answer."""
    decisions = answer.get("decisions") if isinstance(answer, Mapping) else None
    first = decisions[0] if isinstance(decisions, list) and decisions else None
    return first if isinstance(first, Mapping) else {}


def blank_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each field: its default, the first it may have, or an empty one."""
    fields = schema.get("properties")
    return {str(name): blank(field) for name, field in fields.items()} if isinstance(fields, Mapping) else {}


def blank(field: object) -> object:
    """A value for one field."""
    if not isinstance(field, Mapping):
        return ""
    if "default" in field:
        return field["default"]
    choices = field.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0]
    return BLANK.get(str(field.get("type")), "")


def fitting(args: Mapping[str, Any]) -> dict[str, Any]:
    """The values that may be sent: simple ones, and lists of words."""
    return {
        name: value if isinstance(value, SIMPLE) or value is None else [str(each) for each in value]
        for name, value in args.items()
        if value is None or isinstance(value, (*SIMPLE, list))
    }

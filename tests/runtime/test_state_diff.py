"""Changes of a state, and the state they add up to."""

import orjson
from hypothesis import given
from hypothesis import strategies as some
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from deerflow.runtime.journal.state_diff import DerivedState, StateDiff

STEP = some.tuples(some.sampled_from(["add", "replace", "remove", "title"]), some.integers(0, 9), some.text(max_size=5))


@given(some.lists(STEP, max_size=30))
def test_applying_all_changes_gives_the_state(steps: list[tuple[str, int, str]]) -> None:
    diff, derived = StateDiff(new_ids=["h"]), DerivedState()
    messages: dict[str, BaseMessage] = {"h": HumanMessage("hi", id="h")}
    state: dict[str, object] = {}
    for kind, number, text in [("", 0, ""), *steps]:
        key = f"m{number}"
        if kind in ("add", "replace"):
            messages[key] = AIMessage(text, id=key)
        elif kind == "remove":
            messages.pop(key, None)
        elif kind == "title":
            state["title"] = text
        changes = diff.against({**state, "messages": list(messages.values()), "__pregel": 1})
        if changes:
            derived.apply(changes.to_json())
        shown = orjson.loads(derived.to_json())
        assert {each["id"]: each["content"] for each in shown.pop("messages")} == {
            id_: message.content for id_, message in messages.items()
        }
        assert {key: value for key, value in shown.items() if value} == {k: v for k, v in state.items() if v}


def test_existing_messages_are_not_reported_as_changes() -> None:
    old, new = HumanMessage("old", id="a"), HumanMessage("new", id="b")
    diff = StateDiff(new_ids=["b"])
    assert [message.content for message in diff.against({"messages": [old, new]}).messages] == ["new"]
    assert not diff.against({"messages": [old, new]})

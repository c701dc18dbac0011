"""Tools on the wire: made once, and never stale."""

from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from deerflow.models.wire_tools import MOST_KNOWN, KnownTools


@tool
def ring(times: int) -> str:
    """Ring the bell."""
    return "ding " * times


def test_a_tool_is_turned_into_its_wire_form_once() -> None:
    known = KnownTools()
    assert known.to_wire(ring, None) is known.to_wire(ring, None)
    assert known.to_wire(ring, None) == convert_to_openai_tool(ring)


def test_strictness_has_a_form_of_its_own() -> None:
    known = KnownTools()
    assert known.to_wire(ring, True) == convert_to_openai_tool(ring, strict=True) != known.to_wire(ring, None)


def test_a_tool_that_describes_itself_otherwise_is_told_anew() -> None:
    known, changed = KnownTools(), ring.model_copy()
    known.to_wire(changed, None)
    changed.description = "Ring it louder."
    assert known.to_wire(changed, None)["function"]["description"] == "Ring it louder."


def test_what_is_no_tool_object_is_turned_each_time() -> None:
    wire = convert_to_openai_tool(ring)
    assert KnownTools().to_wire(wire, None) == wire


def test_no_more_than_so_many_are_remembered() -> None:
    known = KnownTools()
    for number in range(MOST_KNOWN + 5):
        copy = ring.model_copy(update={"name": f"ring_{number}"})
        assert known.to_wire(copy, None)["function"]["name"] == f"ring_{number}"
    assert len(known._known) <= MOST_KNOWN

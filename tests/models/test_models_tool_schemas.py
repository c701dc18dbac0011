"""Cache of tool schemas."""

from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from deerflow.models.openai_compatible.messages import MAX_CACHED_TOOLS, ToolSchemaCache


@tool
def ring(times: int) -> str:
    """Ring the bell."""
    return "ding " * times


def test_converts_a_tool_once() -> None:
    known = ToolSchemaCache()
    assert known.get_schema(ring, None) is known.get_schema(ring, None)
    assert known.get_schema(ring, None) == convert_to_openai_tool(ring)


def test_caches_strict_schemas_separately() -> None:
    known = ToolSchemaCache()
    assert known.get_schema(ring, True) == convert_to_openai_tool(ring, strict=True) != known.get_schema(ring, None)


def test_converts_a_tool_again_when_its_description_changes() -> None:
    known, changed = ToolSchemaCache(), ring.model_copy()
    known.get_schema(changed, None)
    changed.description = "Ring it louder."
    assert known.get_schema(changed, None)["function"]["description"] == "Ring it louder."


def test_does_not_cache_other_tool_types() -> None:
    wire = convert_to_openai_tool(ring)
    assert ToolSchemaCache().get_schema(wire, None) == wire


def test_limits_the_size_of_the_cache() -> None:
    known = ToolSchemaCache()
    for number in range(MAX_CACHED_TOOLS + 5):
        copy = ring.model_copy(update={"name": f"ring_{number}"})
        assert known.get_schema(copy, None)["function"]["name"] == f"ring_{number}"
    assert len(known._known) <= MAX_CACHED_TOOLS

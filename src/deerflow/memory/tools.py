"""Memory tools: `memory_search`, and in tool mode `memory_add`, `memory_update` and `memory_delete`."""

import json

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool

from deerflow.agent_support.tools import as_tool, require_run_context
from deerflow.domain.context import RunContext
from deerflow.domain.errors import DeerFlowError
from deerflow.domain.memory import Category, Fact, RunMemory
from deerflow.domain.tools import read_only

MAX_RESULTS = 50
MEMORY_ADD = "memory_add"


class MemoryDisabled(DeerFlowError):
    """A memory tool was called while memory is disabled."""


def build_memory_tools(*, can_write: bool) -> list[BaseTool]:
    """Return the memory tools; those that write only if `can_write`."""
    changing = (memory_add, memory_update, memory_delete) if can_write else ()
    return [as_tool(function) for function in (memory_search, *changing)]


@read_only
async def memory_search(
    query: str, runtime: ToolRuntime[RunContext], category: Category | None = None, limit: int = 10
) -> str:
    """Find what you know about the person from earlier conversations.

    Args:
        query: Words to look for; any of them may fit, e.g. `favourite editor theme`.
        category: Only facts of this kind.
        limit: How many facts you want at most.
    """
    found = await require_memory(runtime).search(query, category, max(1, min(limit, MAX_RESULTS)))
    return to_json({"facts": [describe_fact(fact) for fact in found], "count": len(found)})


async def memory_add(
    content: str, runtime: ToolRuntime[RunContext], category: Category = "context", confidence: float = 0.7
) -> str:
    """Remember a fact about the person for later conversations. Never secrets, and nothing about uploaded files.

    Args:
        content: One sentence that makes sense by itself.
        category: What kind of fact it is.
        confidence: How sure you are, from 0 to 1; 0.9 and more if they said it outright.
    """
    return to_json({"added": describe_fact(await require_memory(runtime).add(content, category, confidence))})


async def memory_update(
    fact_id: str,
    runtime: ToolRuntime[RunContext],
    content: str | None = None,
    category: Category | None = None,
    confidence: float | None = None,
) -> str:
    """Change a fact that you remember; what you leave out stays as it is.

    Args:
        fact_id: Its id, as `memory_search` gives it.
        content: The fact as it is right.
        category: What kind of fact it is.
        confidence: How sure you are, from 0 to 1.
    """
    return to_json(
        {"updated": describe_fact(await require_memory(runtime).update(fact_id, content, category, confidence))}
    )


async def memory_delete(fact_id: str, runtime: ToolRuntime[RunContext]) -> str:
    """Forget a fact that is wrong, or that the person does not want you to remember.

    Args:
        fact_id: Its id, as `memory_search` gives it.
    """
    await require_memory(runtime).delete(fact_id)
    return to_json({"deleted": fact_id})


def require_memory(runtime: ToolRuntime[RunContext]) -> RunMemory:
    """Return the memory of the run.

    Raises:
        MemoryDisabled: It has none.
    """
    memory = require_run_context(runtime).memory
    if memory is None:
        raise MemoryDisabled("nothing is remembered here: memory is switched off")
    return memory


def describe_fact(fact: Fact) -> dict[str, object]:
    """Return a fact as the model reads it."""
    about = {"id": fact.id, "content": fact.content, "category": fact.category, "confidence": fact.confidence}
    return {**about, "createdAt": fact.created_at.isoformat()}


def to_json(value: object) -> str:
    """Return a tool result as JSON."""
    return json.dumps(value, ensure_ascii=False)

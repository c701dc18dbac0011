"""`memory_search`; and where the agent decides what to remember, `memory_add`, `memory_update`, `memory_delete`."""

import json

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool

from deerflow.domain.context import RunContext
from deerflow.domain.errors import DeerFlowError
from deerflow.domain.ledger import read_only
from deerflow.domain.memory import Category, Fact
from deerflow.domain.recall import RunMemory
from deerflow.tools.functions import as_tool
from deerflow.tools.run import current_run

MOST_RESULTS = 50
MEMORY_ADD = "memory_add"


class NoMemory(DeerFlowError):
    """A tool for memory was used where nothing is remembered."""


def memory_tools(*, can_write: bool) -> list[BaseTool]:
    """The tools for a memory; those that change it only where the agent decides what is remembered."""
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
    found = await memory_of(runtime).search(query, category, max(1, min(limit, MOST_RESULTS)))
    return in_json({"facts": [described(fact) for fact in found], "count": len(found)})


async def memory_add(
    content: str, runtime: ToolRuntime[RunContext], category: Category = "context", confidence: float = 0.7
) -> str:
    """Remember a fact about the person for later conversations. Never secrets, and nothing about uploaded files.

    Args:
        content: One sentence that makes sense by itself.
        category: What kind of fact it is.
        confidence: How sure you are, from 0 to 1; 0.9 and more if they said it outright.
    """
    return in_json({"added": described(await memory_of(runtime).add(content, category, confidence))})


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
    return in_json({"updated": described(await memory_of(runtime).update(fact_id, content, category, confidence))})


async def memory_delete(fact_id: str, runtime: ToolRuntime[RunContext]) -> str:
    """Forget a fact that is wrong, or that the person does not want you to remember.

    Args:
        fact_id: Its id, as `memory_search` gives it.
    """
    await memory_of(runtime).delete(fact_id)
    return in_json({"deleted": fact_id})


def memory_of(runtime: ToolRuntime[RunContext]) -> RunMemory:
    """The memory of the run.

    Raises:
        NoMemory: it has none.
    """
    memory = current_run(runtime).memory
    if memory is None:
        raise NoMemory("nothing is remembered here: memory is switched off")
    return memory


def described(fact: Fact) -> dict[str, object]:
    """A fact as the model reads it."""
    about = {"id": fact.id, "content": fact.content, "category": fact.category, "confidence": fact.confidence}
    return {**about, "createdAt": fact.created_at.isoformat()}


def in_json(value: object) -> str:
    """What a tool says."""
    return json.dumps(value, ensure_ascii=False)

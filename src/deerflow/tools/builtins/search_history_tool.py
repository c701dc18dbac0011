"""`search_history`: what was said earlier in the thread."""

from langchain.tools import ToolRuntime

from deerflow.domain.context import RunContext
from deerflow.domain.history import Excerpt
from deerflow.domain.ledger import read_only
from deerflow.tools.run import current_run

MOST_RESULTS = 8
SPEAKERS = {"human": "user", "ai": "you", "tool": "tool result"}


@read_only
async def search_history(query: str, runtime: ToolRuntime[RunContext]) -> str:
    """Find what was said earlier in this conversation, word for word, also what you can no longer see.

    Args:
        query: Words that must all occur in the message, e.g. `invoice 2024`. Fewer words find more.
    """
    found = await current_run(runtime).history.search(query, MOST_RESULTS)
    if not found:
        return f"Nothing was said that contains all words of {query!r}. Try fewer or other words."
    return "\n\n".join(map(_shown, found))


def _shown(excerpt: Excerpt) -> str:
    return f"[{excerpt.said_at:%Y-%m-%d %H:%M} UTC, {SPEAKERS.get(excerpt.role, excerpt.role)}]\n{excerpt.text}"

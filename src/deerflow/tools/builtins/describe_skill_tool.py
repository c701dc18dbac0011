"""`describe_skill`: what a skill is for, where there are too many to tell of all at once."""

from langchain.tools import ToolRuntime

from deerflow.domain.context import RunContext
from deerflow.domain.ledger import read_only
from deerflow.tools.run import current_run


@read_only
async def describe_skill(name: str, runtime: ToolRuntime[RunContext]) -> str:
    """Find out what a skill is for and where its file is.

    Args:
        name: Its name as it is listed.
    """
    skills = current_run(runtime).skills
    card = skills.named(name.strip()) if skills is not None else None
    if card is None:
        return f"Error: there is no skill {name!r}; use a name from the list of skills."
    mark = "[custom, editable]" if card.editable else "[built-in]"
    return f"{card.name} {mark}\n{card.description}\n\nTo use it, read {card.location}"

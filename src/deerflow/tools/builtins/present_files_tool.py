"""`present_files`: hands results to the user."""

from typing import Any

from langchain.tools import ToolRuntime
from langgraph.types import Command

from deerflow.domain.context import RunContext
from deerflow.domain.errors import FileProblem
from deerflow.domain.files import OUTPUTS, ThreadFiles
from deerflow.domain.ledger import read_only
from deerflow.tools.run import answer, current_run
from deerflow.tools.wording import one_line


@read_only
async def present_files(filepaths: list[str], runtime: ToolRuntime[RunContext]) -> Command[Any]:
    """Show finished files to the user, who cannot see the file system. Call it once the files are complete.

    Args:
        filepaths: Absolute paths of existing files below /mnt/user-data/outputs, most important first.
    """
    files = current_run(runtime).files
    found, refused = [], []
    for path in dict.fromkeys(filepaths):
        try:
            found.append(await find_output(files, path))
        except FileProblem as problem:
            refused.append(str(problem))
    if not found:
        raise FileProblem("\n".join(refused) or "name at least one file to present")
    lines = [f"Presented: {', '.join(map(one_line, found))}", *(f"Not presented: {text}" for text in refused)]
    return answer(runtime, "\n".join(lines), artifacts=found)


async def find_output(files: ThreadFiles, path: str) -> str:
    """The path of an existing output, written in the one way that all parts use."""
    if not path.startswith(f"{OUTPUTS}/"):
        raise FileProblem(f"{path!r} is not below {OUTPUTS}; copy it there first")
    return (await files.stat(path)).path

"""Pages that were read are kept with the thread, so that a report about them can be checked."""

from typing import Annotated

from langchain.tools import ToolRuntime
from langchain_core.tools import InjectedToolArg

from deerflow.community.web.problems import WebProblem, explain
from deerflow.community.web.results import Page
from deerflow.domain.context import RunContext, run_in
from deerflow.domain.pages import ReadPage

InRun = Annotated[ToolRuntime[RunContext] | None, InjectedToolArg()]
"""The run in which a tool is used, which the graph gives; None where there is none."""
NOT_KEPT = (
    "This page is not kept, for the thread holds as much of the web as it may: a citation of it cannot be verified. "
    "Begin a new thread to go on."
)


async def keep_read(runtime: InRun, asked_url: str, page: Page) -> str:
    """Keep a page; a note for the model if that could not be done."""
    return await _keep(runtime, ReadPage(asked_url, page.url, page.title, page.content_type, page.text))


async def keep_failed(runtime: InRun, asked_url: str, problem: WebProblem) -> None:
    """Keep that a page could not be read, and why."""
    await _keep(runtime, ReadPage(asked_url, asked_url, problem=explain(problem).removeprefix("Error: ")))


async def read_before(runtime: InRun, url: str) -> Page | None:
    """The page as it was read last in this thread, if it is kept: whoever goes on with it wants no other."""
    run = run_in(runtime.context) if runtime is not None else None
    if run is None or run.pages is None:
        return None
    known = [page for page in await run.pages.all() if page.asked_url == url and page.text_hash and page.is_kept]
    if not known:
        return None
    last = known[-1]
    text = (await run.pages.texts([last.text_hash or ""])).get(last.text_hash or "", "")
    return Page(last.url, last.title, text, last.content_type)


async def _keep(runtime: InRun, page: ReadPage) -> str:
    run = run_in(runtime.context) if runtime is not None else None
    if run is None or run.pages is None:
        return ""
    snapshot = await run.pages.keep(page)
    return "" if snapshot is not None and snapshot.is_kept else NOT_KEPT

"""Tells the thread's state where the thread's files are."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse
from langgraph.types import Command

from deerflow.agents.middlewares.replies import AskModel, AskModelAsync, Reply, Request
from deerflow.agents.thread_state import ThreadData, ThreadState
from deerflow.domain.context import RunContext
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE


class ThreadDataMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Writes the paths along with the first reply of a thread, which costs no step of the graph.

    They are the agent's paths and not those of this machine: state is stored, shown and sent around.
    """

    state_schema = ThreadState

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply | ExtendedModelResponse[Any]:
        return with_thread_data(request, handler(request))

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply | ExtendedModelResponse[Any]:
        return with_thread_data(request, await handler(request))


def with_thread_data(request: Request, reply: Reply) -> Reply | ExtendedModelResponse[Any]:
    """`reply`, and the paths if the state does not have them yet."""
    if request.state.get("thread_data"):
        return reply
    paths = ThreadData(workspace_path=WORKSPACE, uploads_path=UPLOADS, outputs_path=OUTPUTS)
    return ExtendedModelResponse(reply, Command(update={"thread_data": paths}))

"""Thread data: paths of the thread's files in the state."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse
from langgraph.types import Command

from deerflow.agent_support.replies import AsyncModelHandler, ModelHandler, Reply, Request
from deerflow.agent_support.thread_state import ThreadData, ThreadState
from deerflow.domain.context import RunContext
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE


class ThreadDataMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Adds the paths with the first reply of a thread, which needs no extra step.

    They are paths inside the sandbox, not of this machine: state is stored and sent to clients.
    """

    state_schema = ThreadState

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply | ExtendedModelResponse[Any]:
        return add_thread_data(request, handler(request))

    async def awrap_model_call(
        self, request: Request, handler: AsyncModelHandler
    ) -> Reply | ExtendedModelResponse[Any]:
        return add_thread_data(request, await handler(request))


def add_thread_data(request: Request, reply: Reply) -> Reply | ExtendedModelResponse[Any]:
    """Return `reply` with the paths if the state does not have them yet."""
    if request.state.get("thread_data"):
        return reply
    paths = ThreadData(workspace_path=WORKSPACE, uploads_path=UPLOADS, outputs_path=OUTPUTS)
    return ExtendedModelResponse(reply, Command(update={"thread_data": paths}))

"""Steering: adds messages that users send to an active run."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelResponse

from deerflow.agent_support.replies import AsyncModelHandler, ModelHandler, Reply, Request
from deerflow.agent_support.thread_state import ThreadState
from deerflow.domain.context import RunContext, find_run_context


class SteeringMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Adds steering messages to the next request, and to the thread before the reply."""

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        # Messages come only where one can wait for them.
        return handler(request)

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        run = find_run_context(request.runtime.context)
        said = list(await run.inbox.take()) if run is not None and run.inbox is not None else []
        if not said:
            return await handler(request)
        reply = await handler(request.override(messages=[*request.messages, *said]))
        if not isinstance(reply, ModelResponse):
            return ModelResponse(result=[*said, reply])
        return ModelResponse(result=[*said, *reply.result], structured_response=reply.structured_response)

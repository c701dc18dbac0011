"""Lets messages join a run that is under way."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelResponse

from deerflow.agents.middlewares.replies import AskModel, AskModelAsync, Reply, Request
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext, run_in


class SteeringMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Adds what people have said meanwhile to the next request, and to the thread in front of the reply to it."""

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply:
        # Messages come only where one can wait for them.
        return handler(request)

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply:
        run = run_in(request.runtime.context)
        said = list(await run.inbox.take()) if run is not None and run.inbox is not None else []
        if not said:
            return await handler(request)
        reply = await handler(request.override(messages=[*request.messages, *said]))
        if not isinstance(reply, ModelResponse):
            return ModelResponse(result=[*said, reply])
        return ModelResponse(result=[*said, *reply.result], structured_response=reply.structured_response)

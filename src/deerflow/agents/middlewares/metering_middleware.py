"""Counts what every call of a model takes, also of those whose answer is thrown away."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware

from deerflow.agents.metering import name_of
from deerflow.agents.middlewares.replies import AskModel, AskModelAsync, Reply, Request, said_by_the_model
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext, run_in
from deerflow.domain.usage import LEAD_AGENT
from deerflow.models.counting import counts_of


class MeteringMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Stands next to the model, so that it sees which one answers and every attempt."""

    def __init__(self, caller: str = LEAD_AGENT) -> None:
        super().__init__()
        self._caller = caller

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply:
        reply: Reply | None = None
        try:
            reply = handler(request)
            return reply
        finally:
            self._note(request, reply)

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply:
        reply: Reply | None = None
        try:
            reply = await handler(request)
            return reply
        finally:
            self._note(request, reply)

    def _note(self, request: Request, reply: Reply | None) -> None:
        run = run_in(request.runtime.context)
        if run is None or run.meter is None:
            return
        message = said_by_the_model(reply) if reply is not None else None
        run.meter.note(
            self._caller, name_of(request.model, message), message.id if message else None, counts_of(message)
        )

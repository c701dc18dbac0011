"""Steering: messages that join an active run."""

from collections.abc import Sequence
from functools import partial

from langchain_core.messages import BaseMessage

from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.runs import finish_joined, list_steering_requests
from deerflow.runtime.journal.journal import RunLog
from deerflow.runtime.journal.serialization import message_fields, to_json
from deerflow.runtime.runs.job import Job, deserialize_request
from deerflow.runtime.runs.request import request_messages
from deerflow.runtime.stream_bridge.base import StreamBridge


class SteeringInbox:
    """Takes the steering requests of one run. They are committed to the event log before the model sees them."""

    def __init__(self, database: Database, bridge: StreamBridge, job: Job, log: RunLog) -> None:
        self._database = database
        self._bridge = bridge
        self._job = job
        self._log = log
        # Accepted by an earlier attempt that died before they were in the thread.
        self._again = list(job.past.steered) if job.past else []

    async def take(self) -> Sequence[BaseMessage]:
        """Return the messages that arrived since the last call."""
        again, self._again = self._again, []
        self._job.signals.heard += again
        if not self._job.signals.has_pending_input:
            return again
        self._job.signals.has_pending_input = False
        joined = await self._database.read(partial(list_steering_requests, thread_id=self._job.run.thread_id))
        messages = [message for each in joined for message in request_messages(deserialize_request(each.request))]
        if not messages:
            return again
        data = to_json({"messages": [message_fields(message) for message in messages]})
        ended = await self._log.commit("steered", data, partial(finish_joined, joined=joined))
        for logged in ended:
            self._bridge.publish(logged.run_id, [logged.event])
            self._bridge.publish_end(logged.run_id)
        self._job.signals.heard += messages
        return [*again, *messages]

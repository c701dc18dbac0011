"""What people say to a run while it is under way."""

from collections.abc import Sequence
from functools import partial

from langchain_core.messages import BaseMessage

from deerflow.persistence.database import Database
from deerflow.persistence.steering import end_joined, waiting_to_steer
from deerflow.runtime.journal import RunLog
from deerflow.runtime.runs.job import Job, stored_job
from deerflow.runtime.serialization import message_fields, to_json
from deerflow.runtime.stream_bridge.bridge import StreamBridge


class RunInbox:
    """Takes in the requests that steer one run. What it took is in the run's log before the model hears of it."""

    def __init__(self, database: Database, bridge: StreamBridge, job: Job, log: RunLog) -> None:
        self._database = database
        self._bridge = bridge
        self._job = job
        self._log = log
        # Taken by an earlier attempt, which died before they were in the thread.
        self._again = list(job.past.steered) if job.past else []

    async def take(self) -> Sequence[BaseMessage]:
        """What has come since this was last asked."""
        again, self._again = self._again, []
        self._job.signals.heard += again
        if not self._job.signals.has_mail:
            return again
        self._job.signals.has_mail = False
        joined = await self._database.read(partial(waiting_to_steer, thread_id=self._job.run.thread_id))
        messages = [message for each in joined for message in stored_job(each).messages]
        if not messages:
            return again
        told = to_json({"messages": [message_fields(message) for message in messages]})
        ended = await self._log.commit("steered", told, partial(end_joined, joined=joined))
        for logged in ended:
            self._bridge.publish(logged.run_id, [logged.event])
            self._bridge.publish_end(logged.run_id)
        self._job.signals.heard += messages
        return [*again, *messages]

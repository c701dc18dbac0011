"""Deletion of threads."""

import pytest

from deerflow.client import DeerFlowClient
from deerflow.domain.errors import NotFound
from deerflow.gateway.routers.threads.deletion import DeletedThreads
from deerflow.testing import ScriptedModel


def test_threads_are_deleted_individually_or_together() -> None:
    with DeerFlowClient(model=ScriptedModel.saying("One.", "Two.", "Three.")) as client:
        for name in ("a", "b", "c"):
            client.chat("Hi", thread_id=name)
        client.threads.delete("a")
        with pytest.raises(NotFound):
            client.threads.get("a")
        outcome = client.threads.delete_many(["a", "b"])
        assert DeletedThreads.model_validate(outcome).model_dump(mode="json") == outcome
        assert outcome["deleted"] == ["b"] and outcome["failed"][0]["error"] == "NotFound"
        assert [thread["thread_id"] for thread in client.threads.list()] == ["c"]

"""A program deletes threads."""

import pytest

from deerflow.client import DeerFlowClient
from deerflow.domain.errors import NotFound
from deerflow.gateway.routers.thread_deletion import DeletedThreads
from deerflow.testing import ScriptedModel


def test_threads_are_deleted_one_by_one_or_together() -> None:
    with DeerFlowClient(model=ScriptedModel.saying("One.", "Two.", "Three.")) as client:
        for name in ("a", "b", "c"):
            client.chat("Hi", thread_id=name)
        client.delete_thread("a")
        with pytest.raises(NotFound):
            client.get_thread("a")
        outcome = client.delete_threads(["a", "b"])
        assert DeletedThreads.model_validate(outcome).model_dump(mode="json") == outcome
        assert outcome["deleted"] == ["b"] and outcome["failed"][0]["error"] == "NotFound"
        assert [thread["thread_id"] for thread in client.list_threads()] == ["c"]

"""Filters of the history that cannot be evaluated are refused on every database, and the thread stays readable."""

from pathlib import Path
from typing import Any

import pytest

from deerflow.config.source import open_source
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel
from tests.support import browse

HI = {"input": {"messages": [{"type": "human", "content": "Hi"}]}}
REFUSED: dict[str, dict[str, Any]] = {
    "an empty key": {"metadata": {"": 1}},
    "a key with a quote": {"metadata": {"a'b": 1}},
    "a key with a double quote": {"metadata": {'a"b': 1}},
    "a key with a null character": {"metadata": {"a\0": 1}},
    "a key with a line break": {"metadata": {"a\n": 1}},
    "a key with a bracket": {"metadata": {"a[0]": 1}},
    "a dot": {"metadata": {".": 1}},
    "two dots": {"metadata": {"a..b": 1}},
    "a dot at the end": {"metadata": {"a.": 1}},
    "a key of 5000 characters": {"metadata": {"a" * 5000: 1}},
    "a key outside ASCII": {"metadata": {"\u00e9": 1}},
    "1000 keys": {"metadata": {f"k{number}": 1 for number in range(1000)}},
    "a value with a null character": {"metadata": {"a": "\0"}},
    "a null character in a list": {"metadata": {"a": [{"b": "\0"}]}},
    "a number of 64 bits without a sign": {"metadata": {"a": 2**64 - 1}},
    "metadata that are a list": {"metadata": [1]},
    "metadata that are text": {"metadata": "x"},
    "a number before": {"before": 5},
    "a list before": {"before": ["x"]},
    "a null character before": {"before": "a\0b"},
    "a null character in a checkpoint": {"checkpoint": {"checkpoint_id": "a\0b"}},
    "a null character in a config": {"before": {"configurable": {"checkpoint_id": "\0"}}},
    "a checkpoint that is text": {"checkpoint": "x"},
    "a checkpoint with a number": {"checkpoint": {"checkpoint_id": 5}},
    "a checkpoint of a subgraph": {"checkpoint": {"checkpoint_ns": "a|b"}},
    "a negative limit": {"limit": -1},
    "a huge limit": {"limit": 2**63},
}
EMPTY: dict[str, dict[str, Any]] = {
    "a nested key": {"metadata": {"a.b": 1}},
    "a key with a dash": {"metadata": {"a-b": "x"}},
    "a list": {"metadata": {"source": ["loop"]}},
    "an object": {"metadata": {"source": {"a": 1}}},
    "a float": {"metadata": {"step": 0.5}},
    "a large number": {"metadata": {"step": 2**63 - 1}},
    "quotes in a value": {"metadata": {"source": "x' OR '1'='1"}},
    "a long value": {"metadata": {"source": "x" * 100_000}},
    "before all": {"before": "0"},
    "an unknown checkpoint": {"checkpoint": {"checkpoint_id": "x" * 5000}},
}


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a folder with a configuration of the database."""
    if request.param == "postgres":
        (tmp_path / "config.yaml").write_text(f"database:\n  url: {request.getfixturevalue('postgres_url')}\n")
    return tmp_path


async def test_odd_filters_of_the_history_are_refused_or_find_nothing(home: Path) -> None:
    source = open_source(directory=home, environment={}, overrides={"memory": {"enabled": False}})
    async with open_harness(source, ScriptedModel.saying("One.")) as harness, browse(harness) as http:
        assert (await http.post("/api/threads/t/runs/wait", json=HI)).status_code == 200
        for about, body in REFUSED.items():
            response = await http.post("/api/threads/t/history", json=body)
            assert response.status_code in (404, 422), (about, response.text[:300])
            assert response.json()["error"] in ("NotFound", "InvalidRequest"), about
        for about, body in EMPTY.items():
            response = await http.post("/api/threads/t/history", json=body)
            assert (response.status_code, response.json()) == (200, []), (about, response.text[:300])
        found = (await http.post("/api/threads/t/history", json={"metadata": {"source": "input"}})).json()
        assert len(found) == 1
        assert len((await http.get("/api/threads/t/history", params={"before": found[0]["checkpoint_id"]})).json()) == 0


async def test_ids_of_checkpoints_with_null_characters_are_not_found(home: Path) -> None:
    source = open_source(directory=home, environment={}, overrides={"memory": {"enabled": False}})
    async with open_harness(source, ScriptedModel.saying("One.")) as harness, browse(harness) as http:
        assert (await http.post("/api/threads/t/runs/wait", json=HI)).status_code == 200
        for path, body in (
            ("state/checkpoint", {"checkpoint": {"checkpoint_id": "\0"}}),
            ("state", {"values": {"title": "x"}, "checkpoint_id": "\0"}),
            ("runs/wait", {**HI, "checkpoint_id": "\0"}),
            ("runs", {**HI, "checkpoint": {"checkpoint_id": "\0"}}),
            ("copy", {"checkpoint_id": "\0"}),
        ):
            response = await http.post(f"/api/threads/t/{path}", json=body)
            assert response.status_code in (404, 422), (path, response.text[:300])
        assert (await http.get("/api/threads/t/history", params={"before": "\0"})).status_code == 404
        assert len((await http.get("/api/threads/t/state")).json()["values"]["messages"]) == 2

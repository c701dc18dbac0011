"""Store of the LangGraph API."""

import pytest

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import Principal
from deerflow.testing import ScriptedModel
from tests.support import OpenHarness, browse

ANNE, BERT = Principal("anne"), Principal("bert")


async def test_items_of_other_users_are_not_visible(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness:
        store = harness.resources.store
        for who, size in ((ANNE, 1), (BERT, 2)):
            await store.put(who, ["notes"], "one", {"size": size})
        await store.delete(BERT, ["notes"], "one")
        kept = await store.get(ANNE, ["notes"], "one")
        assert kept is not None and kept.value == {"size": 1}
        assert await store.get(BERT, ["notes"], "one") is None
        assert await store.search(BERT, [], {}, 10, 0) == []
        assert await store.list_namespaces(BERT, [], [], None) == []


async def test_namespaces_are_compared_by_label(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness:
        for space in (["a"], ["a", "b"], ["ab"], ["a%"], ["a_"]):
            await harness.resources.store.put(ANNE, space, "k", {})
        found = await harness.resources.store.search(ANNE, ["a"], {}, 10, 0)
        assert [item.namespace for item in found] == [("a",), ("a", "b")]
        assert await harness.resources.store.list_namespaces(ANNE, [], ["b"], None) == [("a", "b")]
        for bad in ([], [""], ["a.b"], ["x" * 600]):
            with pytest.raises(InvalidRequest):
                await harness.resources.store.put(ANNE, bad, "k", {})


async def test_an_updated_item_keeps_its_creation_time(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        body = {"namespace": ["notes"], "key": "one", "value": {"size": 1}}
        ages = []
        for size in (1, 2):
            assert (await http.put("/api/store/items", json={**body, "value": {"size": size}})).status_code == 204
            ages.append((await http.get("/api/store/items?namespace=notes&key=one")).json())
        assert ages[0]["created_at"] == ages[1]["created_at"] < ages[1]["updated_at"]
        assert ages[1]["value"] == {"size": 2}
        for wrong in ({**body, "key": ""}, {**body, "value": 3}, {**body, "ttl": 5}):
            refused = await http.put("/api/store/items", json=wrong)
            assert (refused.status_code, refused.json()["error"]) == (422, "InvalidRequest")
        odd = await http.post("/api/store/items/search", json={"filter": {"size": {"$gt": 1}}})
        assert odd.status_code == 422 and "size" in odd.json()["detail"]

"""Suggestions, prompt rewriting, user profile and features over HTTP."""

from pathlib import Path
from typing import Any

import pytest

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import ModelRejected
from deerflow.harness import open_harness
from deerflow.models.demo import POLISH_PROMPT, SUGGESTIONS_PROMPT
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.support import OpenHarness, browse

ASK = {"input": {"messages": [{"type": "human", "content": "Which hills has Rome?"}]}}
URL = "/api/threads/t/suggestions"


def open_config(home: Path, **settings: Any) -> ConfigSource:
    return open_source(directory=home, environment={}, overrides=settings)


async def test_suggestions_use_the_messages_of_the_thread(harness_saying: OpenHarness) -> None:
    said = '<think>["no"]</think>\n```json\n["Which is highest?", "Which is highest?", " And\\n rivers? ", 3, ""]\n```'
    model = ScriptedModel.saying("Seven of them.", said)
    async with harness_saying(model) as harness, browse(harness) as http:
        await http.post("/api/threads/t/runs/wait", json=ASK)
        answer = (await http.post(URL, json={})).json()
        assert answer == {"suggestions": ["Which is highest?", "And rivers?"], "reason": None}
        asked = model.requests[-1].messages
        assert asked[0].text.startswith(SUGGESTIONS_PROMPT) and "Seven of them." in asked[1].text
        usage = (await http.get("/api/threads/t/token-usage")).json()
        assert {share["name"]: share["calls"] for share in usage["by_caller"]} == {"lead_agent": 1, "suggestions": 1}


@pytest.mark.parametrize("said", ["No idea.", "[", "][", '{"a": 1}', '["' + "x" * 300 + '"]', ModelRejected("no"), ""])
async def test_a_failing_model_returns_no_suggestions_and_a_reason(
    harness_saying: OpenHarness, said: str | Exception
) -> None:
    async with harness_saying(ScriptedModel.saying(said)) as harness, browse(harness) as http:
        await http.post("/api/threads", json={"thread_id": "t"})
        body = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
        response = await http.post(URL, json=body)
        assert response.status_code == 200 and response.json()["suggestions"] == [] and response.json()["reason"]


async def test_suggestions_time_out(tmp_path: Path) -> None:
    settings = {"suggestions": {"timeout_seconds": 0.05}, "input_polish": {"timeout_seconds": 0.05}}
    model = ScriptedModel.saying(Stall(Answer("[")), Stall(Answer("Better")))
    async with open_harness(open_config(tmp_path, **settings), model) as harness, browse(harness) as http:
        await http.post("/api/threads", json={"thread_id": "t"})
        found = (await http.post(URL, json={"messages": [{"role": "user", "content": "Hi"}]})).json()
        assert found == {"suggestions": [], "reason": "the model took longer than 0.05 s"}
        polished = (await http.post("/api/input-polish", json={"text": "hi"})).json()
        assert (polished["rewritten_text"], polished["changed"]) == ("hi", False)


async def test_disabled_features_and_invalid_requests_are_reported(tmp_path: Path) -> None:
    settings = {"suggestions": {"enabled": False}, "input_polish": {"enabled": False, "max_chars": 10}}
    source = open_config(tmp_path, **settings)
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        assert (await http.post(URL, json={})).status_code == 404
        await http.post("/api/threads", json={"thread_id": "t"})
        assert (await http.post(URL, json={})).json() == {"suggestions": [], "reason": "suggestions are switched off"}
        assert (await http.post(URL, json={"model_name": "none"})).status_code == 404
        assert (await http.post(URL, json={"n": 9})).status_code == 422
        assert (await http.get("/api/suggestions/config")).json() == {"enabled": False, "max_suggestions": 3}
        polish = "/api/input-polish"
        assert (await http.post(polish, json={"text": "hello"})).json()["reason"] == "input polish is switched off"
        assert (await http.post(polish, json={"text": "much too long"})).status_code == 422
        assert (await http.post(polish, json={"text": "  "})).status_code == 422
        assert (await http.post(polish, json={"text": "hi", "thread_id": "none"})).status_code == 404
        enabled = (await http.get("/api/features")).json()["enabled"]
        assert not enabled["suggestions"] and not enabled["input_polish"] and enabled["search"] and enabled["export"]


async def test_a_prompt_is_rewritten(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying("```\nPlan a week in Rome.\n```", '"Plan."', "plan rome", "word " * 1000)
    async with harness_saying(model) as harness, browse(harness) as http:
        answers = [
            (await http.post("/api/input-polish", json={"text": "plan rome", "locale": "de-DE"})).json()
            for _ in range(4)
        ]
    assert [(each["rewritten_text"], each["changed"]) for each in answers] == [
        ("Plan a week in Rome.", True),
        ("Plan.", True),
        ("plan rome", False),
        ("plan rome", False),  # that was an answer, not the request
    ]
    assert (
        model.requests[0].messages[0].text.startswith(POLISH_PROMPT) and "de-DE" in model.requests[0].messages[0].text
    )


async def test_the_demo_model_suggests_and_rewrites(source: ConfigSource) -> None:
    async with open_harness(source) as harness, browse(harness) as http:
        await http.post("/api/threads", json={"thread_id": "t"})
        for said, mark in (("Hello", "DeerFlow"), ("你好", "能做什么")):
            found = (await http.post(URL, json={"messages": [{"role": "user", "content": said}]})).json()
            assert len(found["suggestions"]) == 3 and mark in found["suggestions"][0]
        polished = (await http.post("/api/input-polish", json={"text": "  plan   a trip "})).json()
        assert polished == {"rewritten_text": "Plan a trip.", "changed": True, "reason": None}


async def test_the_profile_is_injected_once_and_again_after_a_change(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(*["Yes."] * 5)
    async with harness_saying(model) as harness, browse(harness) as http:
        for profile in ("", "I teach $physics 物理.", "I teach $physics 物理.", "I paint.", ""):
            response = await http.put("/api/user-profile", json={"content": f" {profile}\n"})
            assert response.json() == (await http.get("/api/user-profile")).json() == {"content": profile}
            await http.post("/api/threads/t/runs/wait", json=ASK)
        assert (await http.put("/api/user-profile", json={"content": "x" * 8001})).status_code == 422
    prompts = [[message.text for message in request.messages] for request in model.requests]
    assert sum("I teach" in each for each in prompts[0]) == 0
    assert sum("I teach $physics 物理." in each for each in prompts[2]) == 1
    assert sum("I teach" in each for each in prompts[4]) == sum("I paint." in each for each in prompts[4]) == 1
    assert "taken back" in prompts[4][-1]
    for earlier, later in zip(prompts, prompts[1:], strict=False):  # the beginning of a request never changes
        assert later[: len(earlier)] == earlier


async def test_features_list_enabled_parts(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        features = (await http.get("/api/features")).json()
        assert features["sandbox"]["tier"] == (await http.get("/api/sandbox")).json()["tier"]
        assert features["models"] == {"count": 1, "thinking": True, "vision": False, "scripted_only": True}
        assert features["enabled"]["feedback"] and (await http.get("/api/models")).json()["token_usage"]["enabled"]

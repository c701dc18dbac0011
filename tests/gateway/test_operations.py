"""Health checks, metrics, logs and errors."""

import asyncio
import io
import json
import logging
import re
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

import deerflow.domain.errors as domain_errors
from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import ConfigError, DeerFlowError
from deerflow.gateway.app import create_app
from deerflow.gateway.errors import ERRORS, STATUS_ERRORS
from deerflow.gateway.middleware.request_context import HeaderTimeoutProtocol
from deerflow.harness import Harness, open_harness
from deerflow.testing import ScriptedModel, calling
from deerflow.tracing.logs import MAX_LABEL_VALUES, JsonFormatter, Metrics, start_logging
from tests.support import OpenHarness, browse

GUIDE = Path(__file__).parents[2] / "docs/guides/http-api.md"
HI = {"input": {"messages": [{"type": "human", "content": "Hi, said the secret otter."}]}}


async def test_a_healthy_server_is_ready(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        assert (await http.get("/health")).json()["status"] == "healthy"
        ready = await http.get("/ready")
        assert ready.status_code == 200, ready.text
        assert ready.json()["parts"].keys() == {"database", "sandbox", "disk"}
        assert all(part["works"] for part in ready.json()["parts"].values())


async def test_readiness_names_the_failing_component(tmp_path: Path) -> None:
    overrides = {"gateway": {"min_free_disk_mb": 1e12}}
    source = open_source(directory=tmp_path, environment={}, overrides=overrides)
    async with open_harness(source) as harness, browse(harness) as http:
        ready = await http.get("/ready")
        assert ready.status_code == 503 and ready.json()["error"] == "NotReady"
        assert "disk: " in ready.json()["detail"] and "min_free_disk_mb" in ready.json()["detail"]
        works = {name: part["works"] for name, part in ready.json()["parts"].items()}
        assert works == {"database": True, "sandbox": works["sandbox"], "disk": False}
        assert (await http.get("/health")).status_code == 200  # it lives


async def test_metrics_cover_runs_models_tools_requests_and_the_database(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(calling("ls", description="look", path="/mnt/user-data/workspace"), "Nothing there.")
    async with harness_saying(model) as harness, browse(harness) as http:
        await http.post("/api/threads/t1/runs/wait", json=HI)
        await http.get("/api/threads/secret-name-1")
        await http.get("/nowhere/secret-name-2")
        text = (await http.get("/metrics")).text
        figures = dict(re.findall(r"^(deerflow_\S+) (\S+)$", text, re.M))
        assert figures['deerflow_runs_ended_total{status="success"}'] == "1.0"
        assert figures['deerflow_tool_calls_total{outcome="success",tool="ls"}'] == "1.0", text
        assert float(figures['deerflow_database_seconds_count{operation="write"}']) >= 2
        assert float(figures["deerflow_events_total"]) >= 3
        assert figures['deerflow_runs_unfinished{status="running"}'] == "0.0"
        assert figures["deerflow_readers"] == "0.0" and figures["deerflow_run_seconds_count"] == "1.0"
        missed = [name for name in figures if "_requests_total" in name and 'threads/{thread_id}",status="404"' in name]
        assert [figures[name] for name in missed] == ["1.0"]
        assert "secret-name" not in text and "otter" not in text


def test_metric_labels_are_bounded() -> None:
    metrics = Metrics()
    for number in range(500):
        metrics.count_tool_call(f"tool{number}", "error")
        metrics.count_model_call(f"model{number}", 1, 2)
    assert metrics.to_text().count(b"deerflow_tool_calls_total{") == MAX_LABEL_VALUES + 1


async def test_two_harnesses_have_separate_metrics(tmp_path: Path) -> None:
    def source(name: str) -> ConfigSource:
        (tmp_path / name).mkdir()
        return open_source(directory=tmp_path / name, environment={})

    async with open_harness(source("a"), ScriptedModel.saying("One.")) as one, open_harness(source("b")) as other:
        async with browse(one) as http:
            await http.post("/api/threads/t1/runs/wait", json=HI)
        assert b'deerflow_runs_ended_total{status="success"} 1.0' in await one.health.render_metrics()
        assert b"deerflow_runs_ended_total{" not in await other.health.render_metrics()


async def test_log_lines_contain_request_run_and_thread_ids(harness_saying: OpenHarness) -> None:
    heard = io.StringIO()
    handler = start_logging("info", "json", heard)
    try:
        async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
            await http.post("/api/threads/t1/runs/wait", json=HI, headers={"X-Request-Id": "req-1"})
            run = (await http.get("/api/threads/t1/runs")).json()[0]
    finally:
        logging.root.removeHandler(handler)
    lines = [json.loads(line) for line in heard.getvalue().splitlines()]
    of_run = [line for line in lines if line.get("run") == run["run_id"]]
    assert of_run and all(line["thread"] == "t1" and line["request"] == "req-1" for line in of_run)
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert "otter" not in heard.getvalue()


def test_log_messages_cannot_inject_lines() -> None:
    heard = io.StringIO()
    handler = start_logging("info", "text", heard)
    try:
        logging.getLogger("deerflow.test").info("%s", "x\n2026-01-01 ERROR forged: yes\r\nmore")
    finally:
        logging.root.removeHandler(handler)
    assert [line[:4] for line in heard.getvalue().splitlines()[1:]] == ["    ", "    "]
    assert "\n" not in JsonFormatter(str).format(logging.makeLogRecord({"msg": "a\nb"}))


@pytest.mark.parametrize("origin", ["https://app.example.org", "https://evil.example"])
async def test_only_configured_origins_are_allowed(tmp_path: Path, origin: str) -> None:
    overrides = {"gateway": {"cors_origins": ["https://app.example.org"]}}
    source = open_source(directory=tmp_path, environment={}, overrides=overrides)
    async with open_harness(source) as harness, browse(harness) as http:
        wish = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
        before = await http.options("/api/threads", headers={"Origin": origin, **wish})
        made = await http.post("/api/threads", json={}, headers={"Origin": origin})
        is_named = "app" in origin
        assert before.headers.get("access-control-allow-origin") == (origin if is_named else None)
        assert made.status_code == (200 if is_named else 403)


async def test_event_streams_are_allowed_to_configured_origins(tmp_path: Path) -> None:
    origin = "https://app.example.org"
    source = open_source(directory=tmp_path, environment={}, overrides={"gateway": {"cors_origins": [origin]}})
    async with open_harness(source, ScriptedModel.saying("Hi.")) as harness, browse(harness) as http:
        body = {"input": {"messages": [{"type": "human", "content": "Hello"}]}}
        streamed = await http.post("/api/threads/t/runs/stream", json=body, headers={"Origin": origin})
        assert streamed.headers["access-control-allow-origin"] == origin
        assert "content-location" in streamed.headers["access-control-expose-headers"]
        assert streamed.headers["x-request-id"] and streamed.text.endswith("event: end\ndata: null\n\n")


async def test_no_cross_origin_requests_by_default(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        response = await http.get("/api/models", headers={"Origin": "https://app.example.org"})
        assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize("origin", ["*", "app.example.org", "https://app.example.org/", "ftp://x", "https://"])
def test_invalid_origins_are_rejected(tmp_path: Path, origin: str) -> None:
    with pytest.raises(ConfigError, match="cors_origins"):
        open_source(directory=tmp_path, environment={}, overrides={"gateway": {"cors_origins": [origin]}})


async def test_an_unexpected_error_has_the_request_id_of_its_traceback(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness:
        app = create_app_with_bug(harness)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            heard = io.StringIO()
            handler = start_logging("info", "json", heard)
            try:
                response = await http.get("/api/bug", headers={"X-Request-Id": "req-9"})
            finally:
                logging.root.removeHandler(handler)
        assert response.status_code == 500 and response.json()["error"] == "InternalError"
        assert response.headers["x-request-id"] == "req-9"
        line = json.loads(heard.getvalue().splitlines()[0])
        assert line["request"] == "req-9" and "ZeroDivisionError" in line["trace"]


def create_app_with_bug(harness: Harness) -> FastAPI:
    app = create_app(harness)

    async def bug() -> float:
        return 1 / 0

    app.router.routes.insert(0, FastAPI().router.route_class("/api/bug", bug))
    return app


async def test_idle_connections_time_out(harness_saying: OpenHarness) -> None:
    patience, HeaderTimeoutProtocol.header_timeout_s = HeaderTimeoutProtocol.header_timeout_s, 0.2
    try:
        async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http, asyncio.timeout(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port)
            writer.write(b"GET /health HTTP/1.1\r\nhost: loc")
            answer = await reader.read()
            writer.close()
            assert answer.startswith(b"HTTP/1.1 408") and b"RequestTimeout" in answer
    finally:
        HeaderTimeoutProtocol.header_timeout_s = patience


def test_every_error_has_a_code_and_is_in_the_guide() -> None:
    known = [kind for kind in vars(domain_errors).values() if isinstance(kind, type)]
    kinds = {kind.__name__ for kind in known if issubclass(kind, DeerFlowError)}
    assert kinds - {"DeerFlowError"} <= ERRORS.keys()
    assert set(STATUS_ERRORS.values()) <= ERRORS.keys()
    listed = re.findall(r"^\| `(\w+)` \| (\d+) \| (.*) \|$", GUIDE.read_text(), re.M)
    assert listed == [(name, str(code.status), code.meaning) for name, code in ERRORS.items()]

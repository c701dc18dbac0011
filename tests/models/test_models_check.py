"""Checks of model endpoints, against scripted servers."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import pytest

from deerflow.domain.errors import AddressRefused
from deerflow.models.check import CheckLimits, CheckReport
from deerflow.models.check_problems import TEXTS, ProblemCode
from deerflow.testing import Answer, RateLimited, Raw, ScriptedServer, ServerFault, ServerRequest, Stall, calling
from tests.certificates import make_certificate
from tests.models.checked_servers import KEY, allow, answer_check, capable_server, check

LIMIT_S = 30


def codes(report: CheckReport) -> list[str]:
    return [problem.code for problem in report.problems]


async def check_bad_key(_: Path) -> CheckReport:
    async with capable_server() as server:
        return await check(server.base_url, "sk-wrong-canary-0000")


async def check_no_credit(_: Path) -> CheckReport:
    fault = ServerFault(429, "You exceeded your current quota, please check your plan.", "insufficient_quota")
    async with capable_server(listing=fault) as server:
        return await check(server.base_url)


async def check_wrong_host(_: Path) -> CheckReport:
    page = Raw((b"<html>Welcome</html>",), content_type="text/html")
    async with ScriptedServer(listing=page) as server:
        return await check(server.base_url.removesuffix("/v1") + "/elsewhere/v1")


async def check_missing_v1(_: Path) -> CheckReport:
    async with capable_server() as server:
        return await check(server.base_url.removesuffix("/v1"))


async def check_unknown_model(_: Path) -> CheckReport:
    def reply(request: ServerRequest) -> ServerFault:
        return ServerFault(404, f"The model '{request.model}' does not exist", "model_not_found")

    async with ScriptedServer([reply], endless=True, models=["other"], key=KEY) as server:
        return await check(server.base_url, model="gpt-9")


async def check_tls(folder: Path) -> CheckReport:
    async with capable_server(certificate=make_certificate(folder, ["models.example"])) as server:
        return await check(server.base_url)


async def check_dns(_: Path) -> CheckReport:
    return await check("https://no-such-host.invalid/v1")


async def check_timeout(_: Path) -> CheckReport:
    async with ScriptedServer([Stall()], endless=True, models=["slow"]) as server:
        limits = CheckLimits(listing_s=5.0, test_s=0.3)
        report = await check(server.base_url, limits=limits)
        server.release()
        return report


async def check_rate_limited(_: Path) -> CheckReport:
    async with ScriptedServer([RateLimited(retry_after=60)], endless=True, models=["busy"]) as server:
        return await check(server.base_url)


async def check_region(_: Path) -> CheckReport:
    fault = ServerFault(403, "Country, region, or territory not supported", "unsupported_country_region_territory")
    async with capable_server(listing=fault) as server:
        return await check(server.base_url)


async def check_no_tools(_: Path) -> CheckReport:
    def reply(request: ServerRequest) -> ServerFault | Answer:
        has_tools = "tools" in request.body
        return ServerFault(400, "plain does not support tools") if has_tools else Answer(("1 ", "2"))

    async with ScriptedServer([reply], endless=True, models=["plain"]) as server:
        return await check(server.base_url)


async def check_no_streaming(_: Path) -> CheckReport:
    def reply(request: ServerRequest) -> object:
        return ServerFault(400, "streaming is not supported") if request.body.get("stream") else answer_check(request)

    async with ScriptedServer([reply], endless=True, models=["whole"]) as server:  # type: ignore[list-item]
        return await check(server.base_url)


FAILURES: dict[str, Callable[[Path], Awaitable[CheckReport]]] = {
    "bad_key": check_bad_key,
    "no_credit": check_no_credit,
    "wrong_host": check_wrong_host,
    "missing_v1": check_missing_v1,
    "unknown_model": check_unknown_model,
    "tls": check_tls,
    "dns": check_dns,
    "timeout": check_timeout,
    "rate_limited": check_rate_limited,
    "region": check_region,
    "no_tools": check_no_tools,
    "no_streaming": check_no_streaming,
}


@pytest.mark.parametrize("code", FAILURES)
async def test_each_failure_has_its_own_sentence_and_remedy(code: str, tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S):
        report = await FAILURES[code](tmp_path)
    assert codes(report) == [code]
    (problem,) = report.problems
    assert problem.message.endswith(".") and problem.remedy.endswith(".") and "{" not in problem.message
    assert report.works is (code in ("missing_v1", "no_tools", "no_streaming"))
    assert KEY not in repr(report) and "sk-wrong-canary" not in repr(report)


def test_no_two_problems_share_a_sentence_or_a_remedy() -> None:
    assert set(TEXTS) == set(get_args(ProblemCode))
    assert len({text.message for text in TEXTS.values()}) == len({text.remedy for text in TEXTS.values()}) == len(TEXTS)


async def test_a_refused_connection_differs_from_a_refused_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = await check(f"http://127.0.0.1:{unused.getsockname()[1]}/v1")
    assert codes(closed) == ["wrong_host"]

    async def refuse(host: str) -> None:
        raise AddressRefused(f"{host} is not an address at which models may be reached")

    assert codes(await check("http://169.254.169.254/v1", guard=refuse)) == ["blocked_address"]
    for text in ("https://", "ftp://models.example", "not an address", "https://me:secret@models.example/v1"):
        assert codes(await check(text)) == ["invalid_address"]


async def test_a_missing_package_is_reported_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deerflow.models.connection.find_spec", lambda name: None)
    report = await check("https://generativelanguage.googleapis.com", provider="gemini")
    assert codes(report) == ["not_installed"]
    assert "pip install 'deerflow[google]'" in report.problems[0].remedy


@pytest.mark.parametrize("path", ["", "/", "/v1/", "/v1/chat/completions", "/v1/models", "/chat/completions"])
async def test_addresses_are_mended_and_the_attempts_are_shown(path: str) -> None:
    async with capable_server() as server:
        root = server.base_url.removesuffix("/v1")
        report = await check(f" {root}{path} ")
        assert (report.works, report.base_url) == (True, f"{root}/v1")
        assert report.attempts[-1].url == f"GET {root}/v1/models" and report.attempts[-1].outcome == "200"


async def test_a_server_without_a_list_needs_the_name_of_a_model() -> None:
    async with capable_server(listing=False) as server:
        root = server.base_url.removesuffix("/v1")
        unnamed = await check(root)
        assert (codes(unnamed), unnamed.base_url) == (["missing_v1", "no_listing"], f"{root}/v1")
        named = await check(root, model="my-model")
        assert (named.works, named.tested, codes(named)) == (True, "my-model", ["missing_v1"])
        assert codes(await check(root, "sk-wrong-canary-0000")) == ["missing_v1", "bad_key"]


async def test_a_key_that_may_not_list_models_can_still_use_one() -> None:
    async with capable_server(listing=ServerFault(403, "Missing scopes: api.model.read")) as server:
        assert codes(await check(server.base_url)) == ["bad_key"]
        assert (await check(server.base_url, model="gpt-5-mini")).works


async def test_the_capabilities_of_scripted_profiles_are_detected() -> None:
    def never_call(request: ServerRequest) -> Answer:
        return Answer(("1 ", "2 ", "3"))

    def think(request: ServerRequest) -> object:
        return calling("get_weather", city="Paris") if "tools" in request.body else Answer(("1 ", "2"), "Let me count.")

    profiles = {
        "everything": (capable_server(), (True, True, True, None), []),
        "no tools": (ScriptedServer([never_call], endless=True), (True, False, True, None), ["no_tools"]),
        "no streaming": (capable_server(streams=False), (False, True, True, None), ["no_streaming"]),
        "no usage": (capable_server(reports_usage=False), (True, True, False, None), ["no_usage"]),
        "reasoning": (ScriptedServer([think], endless=True), (True, True, True, True), []),  # type: ignore[list-item]
        "nothing": (
            ScriptedServer([never_call], endless=True, streams=False, reports_usage=False),
            (False, False, False, None),
            ["no_streaming", "no_usage", "no_tools"],
        ),
    }
    for name, (server, expected, problems) in profiles.items():
        async with server:
            report = await check(server.base_url)
        seen = report.observed
        assert (seen.streaming, seen.tools, seen.usage, seen.reasoning) == expected, name
        assert (seen.answer, codes(report)) == (True, problems), name


async def test_the_snapshot_has_vision_context_window_and_prices() -> None:
    async with capable_server(models=["text-embedding-3-large", "gpt-9-turbo", "gpt-5-mini"]) as server:
        own = await check(server.base_url, provider="openai")
        foreign = await check(server.base_url)
    assert [model.model for model in own.models] == ["gpt-5-mini", "gpt-9-turbo"]
    assert [model.is_recommended for model in own.models] == [True, False]
    facts = own.models[0].facts
    assert (facts.vision, facts.tools, facts.reasoning, facts.context_window) == (True, True, True, 400_000)
    assert facts.pricing is not None and facts.pricing["input"] == 0.25
    assert foreign.models[0].facts.vision and foreign.models[0].facts.pricing is None
    assert own.models[1].facts.vision is None


@asynccontextmanager
async def serve_redirect(target: str) -> AsyncIterator[str]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 308 Moved\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def test_a_key_is_not_sent_to_the_host_of_a_redirect() -> None:
    async with capable_server() as other, serve_redirect(f"{other.base_url}/models") as address:
        report = await check(address)
        assert codes(report) == ["wrong_host"]
        assert other.requests == [] and other.rejected_keys == []


async def test_the_guard_is_asked_before_the_first_request() -> None:
    async with capable_server() as server:
        await allow("anything")

        async def refuse(host: str) -> None:
            raise AddressRefused(host)

        assert codes(await check(server.base_url, guard=refuse)) == ["blocked_address"]
        assert server.requests == []

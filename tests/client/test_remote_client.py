"""One list of calls over the embedded client and over a server: both return the same."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from pprint import pformat
from typing import Any

import pytest

from deerflow.client import DeerFlowClient
from deerflow.client.session import Resource
from deerflow.domain.errors import Conflict, InvalidRequest, NotFound, RunFailed, Unauthorized
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.gateway.account_server import open_account_server

SETTINGS: dict[str, Any] = {
    "sharing": {"enabled": True},
    "title": {"enabled": False},
    "memory": {"debounce_seconds": 3600},
    "sandbox": {"toolbox": {"enabled": False}},
}
AGENT: dict[str, Any] = {"description": "Counts — 数", "model_settings": {"temperature": 0.5}, "soul": "You count."}
SKILL = "---\nname: tidy-up\ndescription: Puts things in order.\n---\n# How\n\nBegin with what is small.\n"
ENTRY = {"type": "http", "url": "https://mcp.example/", "enabled": False}
VARYING = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32,64}|fact_[0-9a-f]+")
MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:.]+)?(?:Z|\+00:00)?")
NOT_THE_SAME = {"duration_seconds"}


def normalize(found: Any) -> Any:
    """Replace ids, times and secrets, which differ from run to run."""
    if isinstance(found, dict):
        return {normalize(name): normalize(each) for name, each in found.items() if name not in NOT_THE_SAME}
    if isinstance(found, list | tuple):
        return [normalize(each) for each in found]
    if isinstance(found, str):
        shown = MOMENT.sub("<time>", VARYING.sub("<id>", found))
        return "<secret>" if re.fullmatch(r"(/share/)?[A-Za-z0-9_-]{43}", shown) else shown
    return found


Call = Callable[[DeerFlowClient, dict[str, Any], Path], Any]


def keep(name: str, found: dict[str, Any], notes: dict[str, Any], key: str) -> dict[str, Any]:
    notes[name] = found[key]
    return found


def first_fact(client: DeerFlowClient, notes: dict[str, Any]) -> Any:
    made = client.memory.create_fact("Likes tea", "preference", 0.9)
    notes["fact"] = made["facts"][0]["id"]
    return made


CALLS: dict[str, Call] = {
    "chat": lambda c, n, d: c.chat("1", thread_id="t1"),
    "stream": lambda c, n, d: [(e.type, e.data) for e in c.stream("2", thread_id="t1") if e.type != "messages-tuple"],
    "threads.list": lambda c, n, d: c.threads.list(),
    "threads.get": lambda c, n, d: c.threads.get("t1"),
    "threads.rename": lambda c, n, d: c.threads.rename("t1", "Counting — 数"),
    "threads.rename back": lambda c, n, d: c.threads.rename("t1", None),
    "threads.search": lambda c, n, d: c.threads.search("one"),
    "threads.export": lambda c, n, d: c.threads.export("t1").decode(),
    "shares.create": lambda c, n, d: keep("share", keep("link", c.shares.create("t1", 2), n, "token"), n, "share_id"),
    "shares.list": lambda c, n, d: c.shares.list("t1"),
    "shares.get": lambda c, n, d: c.shares.get(n["link"]),
    "shares.revoke": lambda c, n, d: c.shares.revoke("t1", n["share"]),
    "runs.list": lambda c, n, d: keep("run", c.runs.list()["runs"][0], n, "run_id"),
    "runs.get_changes": lambda c, n, d: c.runs.get_changes("t1"),
    "approvals.list": lambda c, n, d: c.approvals.list("t1"),
    "approvals.list_permissions": lambda c, n, d: c.approvals.list_permissions("t1"),
    "feedback.put": lambda c, n, d: c.feedback.put("t1", n["run"], 1, "Good"),
    "feedback.list": lambda c, n, d: c.feedback.list("t1", n["run"]),
    "feedback.get_stats": lambda c, n, d: c.feedback.get_stats("t1", n["run"]),
    "feedback.delete": lambda c, n, d: c.feedback.delete("t1", n["run"]),
    "usage.get": lambda c, n, d: c.usage.get(days=2),
    "usage.get_thread": lambda c, n, d: c.usage.get_thread("t1"),
    "usage.get_run": lambda c, n, d: c.usage.get_run("t1", n["run"]),
    "usage.get_stats": lambda c, n, d: c.usage.get_stats(),
    "agents.create": lambda c, n, d: c.agents.create("ada", **AGENT),
    "agents.update": lambda c, n, d: c.agents.update("ada", description="Counts on"),
    "agents.get": lambda c, n, d: c.agents.get("ada"),
    "agents.list": lambda c, n, d: c.agents.list(),
    "agents.delete": lambda c, n, d: c.agents.delete("ada"),
    "models.list": lambda c, n, d: c.models.list(),
    "models.get": lambda c, n, d: c.models.get(c.models.list()["default"]),
    "tools.list": lambda c, n, d: c.tools.list(),
    "tools.get_policy": lambda c, n, d: c.tools.get_policy(),
    "features.get": lambda c, n, d: c.features.get(),
    "profile.update": lambda c, n, d: c.profile.update("Me"),
    "profile.get": lambda c, n, d: c.profile.get(),
    "memory.create_fact": lambda c, n, d: first_fact(c, n),
    "memory.update_fact": lambda c, n, d: c.memory.update_fact(n["fact"], content="Likes green tea"),
    "memory.undo": lambda c, n, d: c.memory.undo(c.memory.get_history(limit=1)["changes"][0]["change_id"]),
    "memory.undo a group": lambda c, n, d: c.memory.undo(c.memory.get_history(limit=1)["changes"][0]["group"]),
    "memory.update_summary": lambda c, n, d: c.memory.update_summary("user.workContext", "Teaches physics"),
    "memory.get": lambda c, n, d: c.memory.get(),
    "memory.search": lambda c, n, d: c.memory.search("tea"),
    "memory.explain_fact": lambda c, n, d: c.memory.explain_fact(n["fact"]),
    "memory.get_history": lambda c, n, d: c.memory.get_history(limit=2),
    "memory.set_enabled": lambda c, n, d: c.memory.set_enabled(False),
    "memory.get_config": lambda c, n, d: c.memory.get_config(),
    "memory.get_status": lambda c, n, d: c.memory.get_status(),
    "memory.export": lambda c, n, d: c.memory.export(),
    "memory.import_": lambda c, n, d: c.memory.import_({**c.memory.export(), "facts": []}),
    "memory.erase_thread": lambda c, n, d: c.memory.erase_thread("t1"),
    "memory.delete_fact": lambda c, n, d: [first_fact(c, n), c.memory.delete_fact(n["fact"], keep_history=True)],
    "memory.reload": lambda c, n, d: c.memory.reload(),
    "memory.clear": lambda c, n, d: c.memory.clear(),
    "skills.list": lambda c, n, d: c.skills.list(enabled_only=True),
    "skills.update": lambda c, n, d: c.skills.update("slide-creation", enabled=False),
    "skills.list enabled": lambda c, n, d: len(c.skills.list(enabled_only=True)["skills"]),
    "skills.get": lambda c, n, d: c.skills.get("slide-creation"),
    "skills.reload": lambda c, n, d: c.skills.reload(),
    "custom_skills.list": lambda c, n, d: c.custom_skills.list(),
    "mcp.put": lambda c, n, d: c.mcp.put("notes", ENTRY),
    "mcp.get": lambda c, n, d: c.mcp.get("notes"),
    "mcp.list": lambda c, n, d: c.mcp.list(),
    "mcp.get_config": lambda c, n, d: c.mcp.get_config(),
    "mcp.set_enabled": lambda c, n, d: c.mcp.set_enabled("notes", enabled=False),
    "mcp.get_pins": lambda c, n, d: c.mcp.get_pins("notes"),
    "mcp.reset_cache": lambda c, n, d: c.mcp.reset_cache(),
    "mcp.delete": lambda c, n, d: c.mcp.delete("notes"),
    "uploads.create": lambda c, n, d: c.uploads.create("t1", [d / "a.md", d / "数 b.md"]),
    "uploads.list": lambda c, n, d: c.uploads.list("t1"),
    "artifacts.list": lambda c, n, d: c.artifacts.list("t1", "/mnt/user-data/uploads"),
    "artifacts.edit": lambda c, n, d: c.artifacts.edit("t1", "/mnt/user-data/outputs/x/数.md", "Deer.\n"),
    "artifacts.get": lambda c, n, d: str(c.artifacts.get("t1", "/mnt/user-data/outputs/x/数.md")),
    "artifacts.stream": lambda c, n, d: b"".join(c.artifacts.stream("t1", "mnt/user-data/outputs/x/数.md")).decode(),
    "artifacts.download": lambda c, n, d: [
        c.artifacts.download("t1", "/mnt/user-data/outputs/x/数.md", d / "got.md"),
        (d / "got.md").read_text(),
    ],
    "artifacts.download_zip": lambda c, n, d: c.artifacts.download_zip("t1", d / "got.zip"),
    "uploads.delete": lambda c, n, d: c.uploads.delete("t1", "a.md"),
    "web_pages.list": lambda c, n, d: c.web_pages.list("t1"),
    "projects.create": lambda c, n, d: keep("project", c.projects.create("Deer", "Be kind."), n, "project_id"),
    "projects.update": lambda c, n, d: c.projects.update(n["project"], name="Herons"),
    "projects.list": lambda c, n, d: c.projects.list(),
    "projects.add_thread": lambda c, n, d: c.projects.add_thread(n["project"], "t1"),
    "projects.get": lambda c, n, d: c.projects.get(n["project"]),
    "projects.list_files": lambda c, n, d: c.projects.list_files(n["project"]),
    "projects.get_memory": lambda c, n, d: c.projects.get_memory(n["project"]),
    "projects.remove_thread": lambda c, n, d: c.projects.remove_thread("t1"),
    "projects.delete": lambda c, n, d: c.projects.delete(n["project"]),
    "prompts.suggest": lambda c, n, d: c.prompts.suggest("t1"),
    "prompts.polish": lambda c, n, d: c.prompts.polish("better"),
    "threads.delete": lambda c, n, d: c.threads.delete("t1"),
    "threads.delete_many": lambda c, n, d: c.threads.delete_many(["none"]),
}
ERRORS: dict[str, tuple[type[Exception], Call]] = {
    "an unknown thread": (NotFound, lambda c, n, d: c.threads.get("none")),
    "an unknown model": (NotFound, lambda c, n, d: c.models.get("none")),
    "an agent that exists": (Conflict, lambda c, n, d: [c.agents.create("bob"), c.agents.create("bob")]),
    "a setting that is none": (InvalidRequest, lambda c, n, d: c.agents.create("eve", model_settings={"x": 1})),
    "an answer nobody waits for": (Conflict, lambda c, n, d: [c.chat("3", thread_id="t9"), c.runs.resume("t9", "x")]),
    "a file that is not there": (InvalidRequest, lambda c, n, d: c.uploads.create("t9", [d / "none"])),
}
TEXT_DIFFERS = {"a setting that is none"}
ONLY_EMBEDDED = {"mcp.start_login", "mcp.finish_login"}
"""Methods of which a server has no equal: its own page carries out the login."""
CALLED_ELSEWHERE = {
    "skills.install", "custom_skills.get", "custom_skills.get_file", "custom_skills.create", "custom_skills.edit",
    "custom_skills.delete", "custom_skills.get_history", "custom_skills.clear_history", "custom_skills.rollback",
    "custom_skills.check_update", "custom_skills.update", "runs.resume", "runs.stream_resume", "approvals.approve",
    "approvals.approve_in_thread", "approvals.reject", "approvals.edit", "approvals.revoke_permission",
    "artifacts.get_thumbnail", "web_pages.get", "projects.add_files", "projects.delete_file", "projects.retry_file",
    "projects.search", "mcp.import_text", "mcp.update_config", "mcp.reconnect", "mcp.accept_tools", "mcp.get_login",
    "mcp.delete_login",
}  # fmt: skip
"""Methods that need a review by a model, a pause or other programs. Each has a route; some are called below."""


def make_model() -> ScriptedModel:
    return ScriptedModel.saying("One.", "Two.", '["Three?"]', "Better.", "Four.", "Five.")


@asynccontextmanager
async def open_remote(home: Path, model: ScriptedModel) -> AsyncIterator[DeerFlowClient]:
    """Run a server with an account and yield a client with a token of its administrator."""
    async with open_account_server(home, model, **SETTINGS) as server:
        token, _ = await server.create_token(await server.set_up(), "admin")
        async with DeerFlowClient(url=server.url, token=token) as client:
            yield client


def run_calls(client: DeerFlowClient, folder: Path) -> Iterator[tuple[str, Any]]:
    folder.mkdir()
    (folder / "a.md").write_text("# A\n")
    (folder / "数 b.md").write_text("# B\n")
    notes: dict[str, Any] = {}
    for name, call in CALLS.items():
        yield name, normalize(call(client, notes, folder))
    for name, (expected, call) in ERRORS.items():
        with pytest.raises(expected) as raised:
            call(client, notes, folder)
        # Texts on invalid values say where the value was: in an argument, or in the body of a request.
        text = "" if name in TEXT_DIFFERS else normalize(str(raised.value)).replace(str(folder), "<folder>")
        yield name, (type(raised.value).__name__, text)


def list_methods(client: DeerFlowClient) -> set[str]:
    return {
        f"{owner}.{name}"
        for owner, resource in vars(client).items()
        if isinstance(resource, Resource)
        for name in dir(type(resource))
        if not name.startswith("_") and f"a{name.removesuffix('_')}" in dir(type(resource))
    }


async def test_a_remote_client_returns_what_an_embedded_one_does(tmp_path: Path) -> None:
    def embedded() -> dict[str, Any]:
        with DeerFlowClient(SETTINGS, model=make_model()) as client:
            assert list_methods(client) == {name for name in CALLS if "." in name and " " not in name} | (
                ONLY_EMBEDDED | CALLED_ELSEWHERE
            )
            return dict(run_calls(client, tmp_path / "embedded-files"))

    local = await asyncio.to_thread(embedded)
    async with open_remote(tmp_path / "server", make_model()) as client:
        remote = await asyncio.to_thread(lambda: dict(run_calls(client, tmp_path / "remote-files")))
    different = {name: (local[name], remote[name]) for name in local if local[name] != remote[name]}
    assert different == {}, pformat(different)
    assert len(local) == len(CALLS) + len(ERRORS)


async def test_every_method_is_possible_on_a_server_or_says_that_it_is_not(tmp_path: Path) -> None:
    async with open_remote(tmp_path, make_model()) as client:
        for name in list_methods(client):
            owner, method = name.split(".")
            work = getattr(type(getattr(client, owner)), method).__wrapped__
            if name not in ONLY_EMBEDDED:
                assert client._session._find(work), name  # type: ignore[attr-defined]
                continue
            with pytest.raises(InvalidRequest, match="not possible on a remote server"):
                await getattr(getattr(client, owner), f"a{method}")("x", "y")


async def test_async_methods_and_streams_work_on_a_server(tmp_path: Path) -> None:
    async with open_remote(tmp_path, make_model()) as client:
        assert await client.achat("1", thread_id="t") == "One."
        events = [event async for event in client.astream("2", thread_id="t")]
        text = "".join(event.data["content"] for event in events if event.type == "messages-tuple")
        assert text == "Two." and events[-1].type == "end"
        assert events[-1].data["usage"]["total_tokens"] > 0


async def test_leaving_a_stream_cancels_the_run_on_the_server(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Stall(Answer("Working")), "Free again.")
    async with open_remote(tmp_path, model) as client, asyncio.timeout(30):
        events = client.astream("1", thread_id="t")
        async for event in events:
            if event.type == "messages-tuple":
                break
        await events.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert (await client.runs.alist())["runs"][0]["status"] == "interrupted"
        assert await client.achat("2", thread_id="t") == "Free again."


async def test_calls_are_approved_rejected_and_changed_on_a_server(tmp_path: Path) -> None:
    launch = {"name": "launch", "group": "x", "use": "tests.client.test_client_runs:launch", "approval": "always"}
    turns = [part for text in ("Up.", "No.", "Else.") for part in (calling("launch", rocket="Saturn"), text)]
    async with open_account_server(tmp_path, ScriptedModel.saying(*turns), tools=[launch], **SETTINGS) as server:
        token, _ = await server.create_token(await server.set_up())
        async with DeerFlowClient(url=server.url, token=token) as client:
            await client.achat("go", thread_id="a")
            assert len(await client.approvals.alist("a")) == 1
            assert await client.approvals.aapprove("a") == "Up."
            await client.achat("go", thread_id="b")
            assert await client.approvals.areject("b", "too early") == "No."
            await client.achat("go", thread_id="c")
            assert await client.approvals.aedit("c", {"rocket": "Ariane"}) == "Else."
            with pytest.raises(Conflict):
                await client.approvals.aapprove("c")
            messages = (await client.threads.aget("c"))["values"]["messages"]
            assert any("Ariane is in the air" in each["content"] for each in messages)


async def test_custom_skills_are_managed_on_a_server(tmp_path: Path) -> None:
    model = ScriptedModel.saying(*['{"decision": "allow", "reason": "fine"}'] * 5)
    async with open_remote(tmp_path, model) as client:
        made = await client.custom_skills.acreate(SKILL)
        assert made["name"] == "tidy-up"
        edited = await client.custom_skills.aedit("tidy-up", SKILL + "\nThen rest.\n")
        assert edited["content"].endswith("Then rest.\n")
        assert (await client.custom_skills.aget("tidy-up"))["content"] == edited["content"]
        assert (await client.custom_skills.aget_history("tidy-up"))["history"]
        await client.custom_skills.adelete("tidy-up")
        assert (await client.custom_skills.alist())["skills"] == []
        with pytest.raises(InvalidRequest):
            await client.skills.ainstall(tmp_path / "x.skill")


async def test_a_failed_run_raises_on_a_server_as_in_process(tmp_path: Path) -> None:
    async with open_remote(tmp_path, ScriptedModel.saying(ValueError("out of ink"))) as client:
        with pytest.raises(RunFailed):
            await client.achat("1", thread_id="t")


async def test_wrong_tokens_and_addresses_are_named(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        await server.set_up()
        async with DeerFlowClient(url=server.url, token="df_" + "A" * 43) as client:
            with pytest.raises(Unauthorized):
                await client.threads.alist()
            with pytest.raises(Unauthorized):
                await client.achat("Hi")
    async with DeerFlowClient(url=server.url) as client:
        with pytest.raises(ConnectionError, match="cannot be reached"):
            await client.threads.alist()


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "127.0.0.1:2026"},
        {"token": "x"},
        {"url": "http://127.0.0.1:9", "config": {}},
        {"url": "http://127.0.0.1:9", "available_skills": ["x"]},
        {"url": "http://127.0.0.1:9", "model": ScriptedModel.saying("x")},
    ],
)
def test_settings_of_a_harness_are_refused_with_an_address(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        DeerFlowClient(**settings)

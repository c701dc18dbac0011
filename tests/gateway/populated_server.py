"""Server with data of every kind, and the requests that its OpenAPI document has as examples."""

import asyncio
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
from langchain_core.messages import BaseMessage
from starlette.requests import Request

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.tools import ToolPermission
from deerflow.domain.web_pages import FetchedPage
from deerflow.gateway.app import create_app
from deerflow.gateway.examples import (
    AGENT,
    CHANGE,
    CHECKPOINT,
    CONNECTED_MODEL,
    CONNECTION,
    FEEDBACK,
    MCP_ENTRY,
    MCP_SERVER,
    MCP_TOOL,
    MODEL,
    MODEL_ADDRESS,
    NEW_SKILL,
    PACK,
    PERMISSION,
    PIN_HASH,
    PROJECT,
    PROJECT_FILE,
    REVISION,
    RUN,
    SHARE,
    SKILL,
    SKILL_TEXT,
    SNAPSHOT,
    THREAD,
    TOKEN,
)
from deerflow.gateway.schemas.memory import DOCUMENT_EXAMPLE, FACT_EXAMPLE
from deerflow.harness import Harness, open_harness
from deerflow.mcp.status import McpToolInfo
from deerflow.skills.authoring.download import DownloadedSkill, SkillAddress, SkillDownloader
from deerflow.skills.authoring.history import Verdict
from deerflow.skills.authoring.lock import SkillSource, lock_source
from deerflow.skills.authoring.store import Author, SkillFileChange
from deerflow.skills.folders import custom_root, owner_folder
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.office_files import book_of_formulas
from tests.pictures import png
from tests.skills.hostile_archives import build_archive
from tests.skills.support import write_skill
from tests.support import browse

USER_HEADER = "x-test-user"
"""Header that names the user of a request, in place of a login."""
HI = {"input": {"messages": [{"type": "human", "content": "Hello, kingfisher."}]}}
PACKED = "packed"
SECRET = "kingfisher"
"""Word in all data of the owner."""


ENDLESS = "GET /api/threads/{thread_id}/stream"
"""Route whose response goes on until the client disconnects."""
OUTPUTS = "/mnt/user-data/outputs"
WAIT = "Wait until you are stopped."


def answer_message(messages: Sequence[BaseMessage]) -> str | Stall:
    if messages[-1].text == WAIT:
        return Stall(Answer("Working"))
    return f"Hello, said the {SECRET}." if any(SECRET in message.text for message in messages) else "Hello."


@dataclass(frozen=True)
class Example:
    """Request that the OpenAPI document has as an example."""

    method: str
    path: str
    url: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Contents of the files to send, by field."""
    problem: str | None = None
    """What is missing in the OpenAPI document."""

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def list_examples(document: Mapping[str, Any]) -> list[Example]:
    """Return one request per operation."""
    return [
        build_example(document, method.upper(), path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]


def build_example(document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> Example:
    url, query, lacking = path, {}, []
    for parameter in operation.get("parameters", ()):
        value = find_example(document, parameter)
        if value is None and parameter["required"]:
            lacking.append(
                f"the parameter {parameter['name']!r} has no example (gateway/examples.py, or Query(examples=…))"
            )
        elif parameter["in"] == "path":
            url = url.replace(f"{{{parameter['name']}}}", str(value))
        elif parameter["in"] == "query" and value is not None:
            query[parameter["name"]] = value
    contents = operation.get("requestBody", {}).get("content", {})
    bodies = {kind: find_example(document, content) for kind, content in contents.items()}
    if None in bodies.values():
        lacking.append("its body has no example (json_schema_extra=with_examples(…) of the model)")
    body, files = bodies.get("application/json"), bodies.get("multipart/form-data") or {}
    return Example(method, path, url, query, body, files, "; ".join(lacking) or None)


def find_example(document: Mapping[str, Any], part: Mapping[str, Any]) -> Any:
    """Return the first example of a parameter, a body or a schema."""
    if "example" in part:
        return part["example"]
    if "examples" in part:
        first = next(iter(part["examples"].values() if isinstance(part["examples"], dict) else part["examples"]))
        return first["value"] if isinstance(part["examples"], dict) else first
    if "$ref" in part:
        return find_example(document, document["components"]["schemas"][part["$ref"].rpartition("/")[2]])
    if "anyOf" in part:
        return next((found for each in part["anyOf"] if (found := find_example(document, each)) is not None), None)
    if part.get("type") == "array" and (inner := find_example(document, part["items"])) is not None:
        return [inner]
    return find_example(document, part["schema"]) if "schema" in part else None


class PopulatedServer:
    """Real server in a thread of its own, with data for all examples."""

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None, **settings: object) -> None:
        self.home = home
        self._environment = environment or {}
        self.model = ScriptedModel.saying(*[answer_message] * 20_000)
        self._settings = {
            # Stays listed when a model is connected.
            "models": [{"name": MODEL, "use": "deerflow.models.demo:DemoChatModel", "model": "demo"}],
            "sandbox": {"toolbox": {"enabled": False}},
            "uploads": {"conversion": {"enabled": False}},
            "skill_evolution": {"security_fail_closed": False},
            "sharing": {"enabled": True},
            **settings,
        }
        self._loop = asyncio.new_event_loop()
        self._closing: asyncio.Event
        self.harness: Harness
        self.url = ""
        self.document: dict[str, Any] = {}

    async def _serve(self, ready: Future[None]) -> None:
        self._closing = asyncio.Event()
        source = open_source(directory=self.home, environment=self._environment, overrides=self._settings)
        try:
            async with AsyncExitStack() as stack:
                self.harness = await stack.enter_async_context(open_harness(source, self.model))
                app = create_app(self.harness)
                app.state.identify = read_principal
                http = await stack.enter_async_context(browse(self.harness, app))
                self.url, self.document = str(http.base_url), await asyncio.to_thread(app.openapi)
                ready.set_result(None)
                await self._closing.wait()
        except BaseException as problem:
            if not ready.done():
                ready.set_exception(problem)
            raise

    def run(self, doing: Any) -> Any:
        """Run a coroutine in the server's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result(timeout=30)

    @contextmanager
    def opened(self) -> Iterator["PopulatedServer"]:
        ready: Future[None] = Future()
        thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve(ready)])
        thread.start()
        try:
            ready.result(timeout=60)
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._closing.set)
            thread.join(timeout=30)
            self._loop.close()

    def client(self, user: str = LOCAL_USER.user_id) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=20, headers={USER_HEADER: user})

    def seed(self, http: httpx.Client, *, busy: bool = False) -> dict[str, str]:
        """Create the data of the examples; return the generated ids by the ids in the examples."""
        self.unseed(http)
        made = http.post("/api/threads", json={"thread_id": THREAD, "metadata": {"topic": f"{SECRET}s"}})
        assert made.status_code == 200, made.text
        ended = http.post(f"/api/threads/{THREAD}/runs/wait", json=HI)
        assert ended.status_code == 200, ended.text
        thread = self.run(self.harness.threads.get(THREAD, Principal(http.headers[USER_HEADER])))
        for name in ("report.md", "page.html"):
            self.run(self.harness.files_of(thread).write(f"{OUTPUTS}/{name}", f"A {SECRET}.".encode()))
        self.run(self.harness.files_of(thread).write(f"{OUTPUTS}/chart.png", png(40, 30)))
        self.run(self.harness.files_of(thread).write(f"{OUTPUTS}/data.xlsx", book_of_formulas()))
        presented = [f"{OUTPUTS}/{name}" for name in ("report.md", "page.html")]
        updated = http.post(f"/api/threads/{THREAD}/state", json={"values": {"artifacts": presented}})
        assert updated.status_code == 200, updated.text
        uploaded = http.post(f"/api/threads/{THREAD}/uploads", files={"files": ("report.pdf", SECRET.encode())})
        assert uploaded.status_code == 200, uploaded.text
        http.post("/api/agents", json={"name": AGENT, "description": f"Knows {SECRET}s.", "soul": SECRET})
        custom = custom_root(self.harness.core.source.current.home, http.headers[USER_HEADER])
        skill = write_skill(custom, SKILL, f"Knows {SECRET}s.")
        guide = SkillFileChange("write_file", "references/guide.md", None, SECRET.encode())
        self.harness.resources.custom_skills.store.apply_change(
            http.headers[USER_HEADER], skill.name, guide, Author(), Verdict()
        )
        folder = owner_folder(self.harness.core.source.current.home, http.headers[USER_HEADER])
        lock_source(folder, SKILL, SkillSource("https://git.example.org/tidy-up", "0" * 40))
        self.harness.resources.skill_downloader = StoredDownloads()
        pack = build_archive(skill=SKILL_TEXT.format(name=PACKED))
        self.run(self.harness.files_of(thread).write(PACK, pack))
        http.put("/api/store/items", json={"namespace": ["notes"], "key": "first", "value": {"text": SECRET}})
        if busy:
            waiting = {"input": {"messages": [{"type": "human", "content": WAIT}]}}
            assert http.post(f"/api/threads/{THREAD}/runs", json=waiting).status_code == 200
        run_id = http.get(f"/api/threads/{THREAD}/runs").json()[0]["run_id"]
        state = http.get(f"/api/threads/{THREAD}/state").json()
        opinion = http.put(f"/api/threads/{THREAD}/runs/{run_id}/feedback", json={"rating": 1, "comment": SECRET})
        assert opinion.status_code == 200, opinion.text
        link = http.post(f"/api/threads/{THREAD}/shares", json={}).json()
        known = {**DOCUMENT_EXAMPLE, "facts": [{**FACT_EXAMPLE, "sourceError": f"No {SECRET}."}]}
        assert http.post("/api/memory/import", json=known).status_code == 200
        change = http.get("/api/memory/history").json()["changes"][0]["change_id"]
        ids = {CHANGE: change, RUN: run_id, CHECKPOINT: state["checkpoint_id"], FEEDBACK: opinion.json()["feedback_id"]}
        pages = self.harness.resources.web_pages.for_thread(THREAD, http.headers[USER_HEADER])
        address = "https://example.org/birds"
        page = self.run(pages.save(FetchedPage(address, address, "Birds", "text/html", f"A {SECRET}.")))
        ids |= {SNAPSHOT: page.snapshot_id, SHARE: link["share_id"], TOKEN: link["token"]}
        entry = {"provider": "custom", "base_url": MODEL_ADDRESS, "key": f"sk-{SECRET}"}
        connected = http.post("/api/model-connections", json={**entry, "models": [{"model": CONNECTED_MODEL}]})
        assert connected.status_code == 200, connected.text
        permissions = self.harness.resources.permissions.for_thread(THREAD, http.headers[USER_HEADER])
        self.run(permissions.grant(ToolPermission("web_fetch", SECRET)))
        (granted,) = http.get(f"/api/threads/{THREAD}/permissions").json()["permissions"]
        ids |= {PERMISSION: granted["permission_id"]}
        ids |= self.seed_project(http)
        return self.seed_mcp(ids | {CONNECTION: connected.json()["connection_id"]})

    def seed_project(self, http: httpx.Client) -> dict[str, str]:
        """Create a project with a file that cannot be read, which may be retried; return the ids."""
        project = http.post("/api/projects", json={"name": f"Birds {SECRET}"}).json()["project_id"]
        sent = {"files": ("photo.bin", b"\0")}
        (file,) = http.post(f"/api/projects/{project}/files", files=sent).json()["files"]
        for _ in range(3000):
            if http.get(f"/api/projects/{project}/files/{file['file_id']}").json()["state"] == "failed":
                break
        return {PROJECT: project, PROJECT_FILE: file["file_id"]}

    def seed_mcp(self, ids: Mapping[str, str]) -> dict[str, str]:
        """Create the data of the MCP examples; return the ids with those generated."""
        return {**ids, PIN_HASH: self.run(self._change_a_tool())}

    async def _change_a_tool(self) -> str:
        """Create an MCP server with a changed tool; return the hash of the new version."""
        servers = self.harness.resources.mcp_servers
        await servers.replace({MCP_SERVER: MCP_ENTRY})
        await servers.pins.forget(MCP_SERVER)
        for words in ("Adds a note.", "Adds a note, and tells everybody."):
            await servers.pins.check(MCP_SERVER, [McpToolInfo(MCP_TOOL, words)])
        offered = (await servers.list_pins(MCP_SERVER))[0].offered
        assert offered is not None
        return offered.hash

    def unseed(self, http: httpx.Client) -> None:
        http.delete(f"/api/threads/{THREAD}", params={"stop_runs": True})
        http.delete(f"/api/saved-models/{CONNECTED_MODEL}")
        for name in (AGENT, "scribe", "counter"):
            http.delete(f"/api/agents/{name}")
        skills = owner_folder(self.harness.core.source.current.home, http.headers[USER_HEADER])
        for name in (SKILL, NEW_SKILL, PACKED):
            shutil.rmtree(skills / "custom" / name, ignore_errors=True)
            shutil.rmtree(skills / "history" / name, ignore_errors=True)


class StoredDownloads(SkillDownloader):
    """Downloader that has one revision of the example skill and opens no connections."""

    async def download(self, address: SkillAddress) -> DownloadedSkill:
        return DownloadedSkill(build_archive(skill=SKILL_TEXT.format(name=SKILL)), SkillSource(address.url, REVISION))


def read_principal(request: Request) -> Principal:
    name = request.headers.get(USER_HEADER, LOCAL_USER.user_id)
    return Principal(name, is_admin=name == LOCAL_USER.user_id)


def send_example(http: httpx.Client, example: Example, ids: Mapping[str, str]) -> httpx.Response:
    """Send an example with real ids."""
    url, body = example.url, orjson.dumps(example.body).decode()
    for shown_id, real in ids.items():
        url, body = url.replace(shown_id, real), body.replace(shown_id, real)
    query = dict(example.query)
    if example.files:
        files = [(name, ("example.md", text)) for name, texts in example.files.items() for text in texts]
        return http.request(example.method, url, params=query, files=files)
    content = {"content": body, "headers": {"content-type": "application/json"}} if example.body is not None else {}
    if example.name == ENDLESS:
        with http.stream(example.method, url, params=query) as response:
            if not response.is_success:
                response.read()
            return response
    return http.request(example.method, url, params=query, **content)

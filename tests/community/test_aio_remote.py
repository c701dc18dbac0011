"""Containers created by a provisioner: a small real one on Podman."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web

from deerflow.community.aio_sandbox import AioSandboxProvider
from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.files import WORKSPACE
from tests.community.support import ContainerEngine, make_host
from tests.conformance.command_suite import run_command
from tests.conformance.sandbox_suite import acquire

KEY = "provisioner key"


@dataclass
class Provisioner:
    """Provisioner with its routes; `orders` are the requested sandboxes."""

    engine: ContainerEngine
    prefix: str = field(default_factory=lambda: f"remote-{uuid4().hex[:8]}")
    sandboxes: dict[str, dict[str, Any]] = field(default_factory=dict)
    orders: list[dict[str, Any]] = field(default_factory=list)

    @web.middleware
    async def check_key(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.path != "/health" and request.headers.get("X-API-Key") != KEY:
            return web.json_response({"detail": "wrong key"}, status=401)
        response: web.StreamResponse = await handler(request)
        return response

    async def health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def create(self, request: web.Request) -> web.Response:
        order = await request.json()
        self.orders.append(order)
        sandbox_id = order["sandbox_id"]
        if sandbox_id not in self.sandboxes:
            self.sandboxes[sandbox_id] = await asyncio.to_thread(self.run, sandbox_id)
        return web.json_response(self.sandboxes[sandbox_id])

    async def show(self, request: web.Request) -> web.Response:
        found = self.sandboxes.get(request.match_info["id"])
        return web.json_response(found or {"detail": "unknown"}, status=200 if found else 404)

    async def list(self, request: web.Request) -> web.Response:
        return web.json_response({"sandboxes": list(self.sandboxes.values()), "count": len(self.sandboxes)})

    async def delete(self, request: web.Request) -> web.Response:
        sandbox_id = request.match_info["id"]
        if self.sandboxes.pop(sandbox_id, None) is None:
            return web.json_response({"detail": "unknown"}, status=404)
        await asyncio.to_thread(self.engine.podman, "rm", "--force", "--time=0", self.name_of(sandbox_id))
        return web.json_response({"ok": True, "sandbox_id": sandbox_id})

    def name_of(self, sandbox_id: str) -> str:
        return f"{self.prefix}-{sandbox_id}"

    def run(self, sandbox_id: str) -> dict[str, Any]:
        variables = {"DEERFLOW_SANDBOX_TOKEN": "secret", "DEERFLOW_SANDBOX_HOST": "0.0.0.0"}
        options = [f"--env={name}={value}" for name, value in variables.items()]
        name = self.name_of(sandbox_id)
        self.engine.podman(
            *("run", "--detach", f"--name={name}", "--publish=127.0.0.1::8080", *options),
            self.engine.image,
        )
        address = self.engine.podman("port", name, "8080").strip()
        return {"sandbox_id": sandbox_id, "sandbox_url": f"http://{address}", "status": "Running", "token": "secret"}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        app = web.Application(middlewares=[self.check_key])
        one = "/api/sandboxes/{id}"
        app.add_routes([web.get("/health", self.health), web.get(one, self.show), web.delete(one, self.delete)])
        app.add_routes([web.post("/api/sandboxes", self.create), web.get("/api/sandboxes", self.list)])
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
            self.engine.remove_containers(self.prefix)  # also those that were made and did not start


def create_provider(url: str, tmp_path: Path, **settings: object) -> AioSandboxProvider:
    config = {"provisioner_url": url, "provisioner_api_key": KEY, **settings}
    return AioSandboxProvider(SandboxConfig.model_validate(config), make_host(tmp_path))


async def test_creates_uses_discovers_and_deletes_a_sandbox(engine: ContainerEngine, tmp_path: Path) -> None:
    provisioner = Provisioner(engine)
    mounts = [{"host_path": str(tmp_path), "container_path": "/mnt/data", "read_only": True}]
    async with provisioner.serving() as url, aclosing(create_provider(url, tmp_path, mounts=mounts)) as provider:
        assert (await provider.open()).tier == "container"
        sandbox = await acquire(provider, "t1", "somebody")
        await sandbox.write_file(f"{WORKSPACE}/a.txt", "made\n")
        assert await run_command(sandbox, "cat a.txt") == "made\n"
        with pytest.raises(FileProblem, match="no such file"):
            await sandbox.read_file(f"{WORKSPACE}/b.txt")
        [order] = provisioner.orders
        assert (order["thread_id"], order["user_id"]) == ("t1", "somebody")
        assert [mount["container_path"] for mount in order["extra_mounts"]] == ["/mnt/data"]

        async with aclosing(create_provider(url, tmp_path, mounts=mounts)) as other:
            await other.open()
            found = await acquire(other, "t1", "somebody")
            assert await found.read_file(f"{WORKSPACE}/a.txt") == "made\n"

        await provider.discard("t1", "somebody")
        assert provisioner.sandboxes == {}


async def test_ignores_sandboxes_of_others(engine: ContainerEngine, tmp_path: Path) -> None:
    provisioner = Provisioner(engine)
    provisioner.sandboxes["theirs"] = {"sandbox_id": "theirs", "sandbox_url": "http://127.0.0.1:9", "status": "Running"}
    async with provisioner.serving() as url:
        async with aclosing(create_provider(url, tmp_path, idle_timeout=0.01)) as provider:
            await provider.open()
        assert list(provisioner.sandboxes) == ["theirs"]


async def test_reports_a_wrong_key(engine: ContainerEngine, tmp_path: Path) -> None:
    async with (
        Provisioner(engine).serving() as url,
        aclosing(create_provider(url, tmp_path, provisioner_api_key="wrong")) as provider,
    ):
        report = await provider.open()
        assert report.tier == "none" and "wrong key" in (report.problem or "")
        with pytest.raises(SandboxError, match="wrong key"):
            await provider.acquire("t1", "local")


async def test_reports_a_failed_pod(engine: ContainerEngine, tmp_path: Path) -> None:
    class Failing(Provisioner):
        def run(self, sandbox_id: str) -> dict[str, Any]:
            return {"sandbox_id": sandbox_id, "sandbox_url": "http://127.0.0.1:9", "status": "Failed"}

    provisioner = Failing(engine)
    async with provisioner.serving() as url, aclosing(create_provider(url, tmp_path)) as provider:
        await provider.open()
        with pytest.raises(SandboxError, match="its pod is Failed"):
            await provider.acquire("t1", "local")


async def test_reports_a_server_that_is_not_a_provisioner(tmp_path: Path) -> None:
    app = web.Application()

    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<html>")

    app.add_routes([web.get("/health", page)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with aclosing(create_provider(f"http://127.0.0.1:{runner.addresses[0][1]}/", tmp_path)) as provider:
        report = await provider.open()
        assert "unexpected response" in (report.problem or "")
    await runner.cleanup()

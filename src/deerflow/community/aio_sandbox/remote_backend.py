"""Containers made elsewhere, by a provisioner service."""

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
from pydantic import BaseModel, ValidationError

from deerflow.community.aio_sandbox.api import Address
from deerflow.community.aio_sandbox.backend import Readiness, Wanted
from deerflow.config.sandbox import SandboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.sandbox.places import AREAS, TEMPORARY

CREATE_S, ASK_S, DELETE_S = 30.0, 10.0, 15.0
MOUNTED_BY_ITSELF = (*AREAS, TEMPORARY, "/mnt/skills", "/mnt/acp-workspace")
"""What a provisioner shows every sandbox, from volumes it knows."""
FINAL = ("Failed", "Succeeded")

T = TypeVar("T", bound=BaseModel)


class ProvisionerError(SandboxError):
    """The provisioner cannot be reached, or does not do what it was asked."""


class Health(BaseModel):
    """That the provisioner is there."""

    status: str = "ok"


class Provisioned(BaseModel):
    """A sandbox as the provisioner tells of it."""

    sandbox_id: str
    sandbox_url: str
    status: str = ""
    token: str | None = None


class ProvisionedList(BaseModel):
    """All sandboxes of the provisioner."""

    sandboxes: list[Provisioned]


class Ended(BaseModel):
    """That a sandbox has ended."""

    ok: bool = True


class RemoteSandboxBackend:
    """Asks a provisioner, which runs sandboxes in a cluster. Limits and isolation are its business."""

    is_here = False

    def __init__(self, config: SandboxConfig) -> None:
        self._config = config
        self._url = (config.provisioner_url or "").rstrip("/")
        self._opened: aiohttp.ClientSession | None = None

    async def open(self) -> Readiness:
        """Ask whether the provisioner is well."""
        try:
            await self._ask(Health, "GET", "/health", ASK_S)
            found = await self._ask(ProvisionedList, "GET", "/api/sandboxes", ASK_S)  # wants the key
        except ProvisionerError as problem:
            remedy = "start it, or set sandbox.provisioner_url and sandbox.provisioner_api_key"
            return Readiness(self._url, str(problem), remedy)
        running = [each.sandbox_id for each in found.sandboxes] if found else []
        return Readiness(f"containers made by the provisioner at {self._url}", running=running)

    async def create(self, wanted: Wanted) -> Address:
        """Have a sandbox made; asking twice gives the same one."""
        mounts = [
            {"host_path": str(place.folder), "container_path": place.path, "read_only": place.read_only}
            for place in wanted.places
            if place.path not in MOUNTED_BY_ITSELF
        ]
        order = {"sandbox_id": wanted.sandbox_id, "thread_id": wanted.thread_id, "user_id": wanted.user_id}
        made = await self._ask(Provisioned, "POST", "/api/sandboxes", CREATE_S, {**order, "extra_mounts": mounts})
        assert made is not None
        return Address(made.sandbox_url, made.token)

    async def discover(self, wanted: Wanted) -> Address | None:
        """A sandbox the provisioner has already."""
        found = await self._find(wanted.sandbox_id)
        if found is None or found.status in FINAL:
            return None
        return Address(found.sandbox_url, found.token)

    async def explain(self, sandbox_id: str) -> str | None:
        """Why a sandbox does not run."""
        found = await self._find(sandbox_id)
        if found is None:
            return "the provisioner does not know it"
        return f"its pod is {found.status}" if found.status in FINAL else None

    async def destroy(self, sandbox_id: str) -> None:
        """End a sandbox."""
        await self._ask(Ended, "DELETE", f"/api/sandboxes/{quote(sandbox_id)}", DELETE_S)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            await self._opened.close()

    async def _find(self, sandbox_id: str) -> Provisioned | None:
        return await self._ask(Provisioned, "GET", f"/api/sandboxes/{quote(sandbox_id)}", ASK_S)

    async def _ask(
        self, kind: type[T], method: str, path: str, limit_s: float, body: Mapping[str, Any] | None = None
    ) -> T | None:
        """What the provisioner answers, None for what it does not know."""
        if self._opened is None:  # in the event loop, not where the backend is made
            key = self._config.provisioner_api_key
            self._opened = aiohttp.ClientSession(headers={"X-API-Key": key} if key else {})
        limit = aiohttp.ClientTimeout(total=limit_s)
        try:
            async with self._opened.request(method, f"{self._url}{path}", json=body, timeout=limit) as response:
                content = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            reason = problem if str(problem) else type(problem).__name__
            raise ProvisionerError(f"the provisioner at {self._url} does not answer: {reason}") from problem
        if response.status == 404 and method != "POST":
            return None
        if response.status >= 400:
            said = content[:500].decode(errors="replace")
            raise ProvisionerError(f"the provisioner refused {method} {path} with status {response.status}: {said}")
        try:
            return kind.model_validate_json(content)
        except ValidationError as problem:
            raise ProvisionerError(
                f"the provisioner answers what nobody understands: {problem.errors()[0]['msg']}"
            ) from None

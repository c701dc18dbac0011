"""Backend whose containers are created by a remote provisioner service."""

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
from pydantic import BaseModel, ValidationError

from deerflow.community.aio_sandbox.api import SandboxAddress
from deerflow.community.aio_sandbox.backend import BackendStatus, ContainerRequest
from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.sandbox.files.mounts import AREAS, TEMPORARY

CREATE_TIMEOUT_S, REQUEST_TIMEOUT_S, DELETE_TIMEOUT_S = 30.0, 10.0, 15.0
MOUNTED_BY_ITSELF = (*AREAS, TEMPORARY, "/mnt/skills", "/mnt/acp-workspace")
"""Paths that a provisioner mounts in every sandbox from its own volumes."""
FINAL_PHASES = ("Failed", "Succeeded")

T = TypeVar("T", bound=BaseModel)


class ProvisionerError(SandboxError):
    """The provisioner cannot be reached, or answers with an error."""


class ProvisionerHealth(BaseModel):
    """Health of the provisioner."""

    status: str = "ok"


class ProvisionedSandbox(BaseModel):
    """A sandbox of the provisioner."""

    sandbox_id: str
    sandbox_url: str
    status: str = ""
    token: str | None = None


class ProvisionedSandboxes(BaseModel):
    """All sandboxes of the provisioner."""

    sandboxes: list[ProvisionedSandbox]


class DeletedSandbox(BaseModel):
    """Response to a deletion."""

    ok: bool = True


class RemoteSandboxBackend:
    """Backend of a provisioner that runs sandboxes in a cluster; limits and isolation are up to it."""

    is_here = False

    def __init__(self, config: SandboxConfig) -> None:
        self._config = config
        self._url = (config.provisioner_url or "").rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> BackendStatus:
        """Check the provisioner and the API key."""
        try:
            await self._send(ProvisionerHealth, "GET", "/health", REQUEST_TIMEOUT_S)
            found = await self._send(ProvisionedSandboxes, "GET", "/api/sandboxes", REQUEST_TIMEOUT_S)  # needs the key
        except ProvisionerError as problem:
            remedy = "start it, or set sandbox.provisioner_url and sandbox.provisioner_api_key"
            return BackendStatus(self._url, str(problem), remedy, "provisioner_unreachable")
        running = [each.sandbox_id for each in found.sandboxes] if found else []
        return BackendStatus(f"containers made by the provisioner at {self._url}", running=running)

    async def create(self, request: ContainerRequest) -> SandboxAddress:
        """Create a sandbox; repeated calls return the same one."""
        mounts = [
            {"host_path": str(mount.folder), "container_path": mount.path, "read_only": mount.read_only}
            for mount in request.mounts
            if mount.path not in MOUNTED_BY_ITSELF
        ]
        body = {"sandbox_id": request.sandbox_id, "thread_id": request.thread_id, "user_id": request.user_id}
        made = await self._send(
            ProvisionedSandbox, "POST", "/api/sandboxes", CREATE_TIMEOUT_S, {**body, "extra_mounts": mounts}
        )
        assert made is not None
        return SandboxAddress(made.sandbox_url, made.token)

    async def discover(self, request: ContainerRequest) -> SandboxAddress | None:
        """Return an existing sandbox."""
        found = await self._find(request.sandbox_id)
        if found is None or found.status in FINAL_PHASES:
            return None
        return SandboxAddress(found.sandbox_url, found.token)

    async def explain(self, sandbox_id: str) -> str | None:
        """Return why a sandbox does not run."""
        found = await self._find(sandbox_id)
        if found is None:
            return "the provisioner does not know it"
        return f"its pod is {found.status}" if found.status in FINAL_PHASES else None

    async def destroy(self, sandbox_id: str) -> None:
        """Delete a sandbox."""
        await self._send(DeletedSandbox, "DELETE", f"/api/sandboxes/{quote(sandbox_id)}", DELETE_TIMEOUT_S)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _find(self, sandbox_id: str) -> ProvisionedSandbox | None:
        return await self._send(ProvisionedSandbox, "GET", f"/api/sandboxes/{quote(sandbox_id)}", REQUEST_TIMEOUT_S)

    async def _send(
        self, kind: type[T], method: str, path: str, limit_s: float, body: Mapping[str, Any] | None = None
    ) -> T | None:
        """Send a request and return the parsed response, or None for status 404."""
        if self._session is None:  # created in the event loop
            key = self._config.provisioner_api_key
            self._session = aiohttp.ClientSession(headers={"X-API-Key": key} if key else {})
        limit = aiohttp.ClientTimeout(total=limit_s)
        try:
            async with self._session.request(method, f"{self._url}{path}", json=body, timeout=limit) as response:
                content = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            reason = problem if str(problem) else type(problem).__name__
            raise ProvisionerError(f"the provisioner at {self._url} does not answer: {reason}") from problem
        if response.status == 404 and method != "POST":
            return None
        if response.status >= 400:
            text = content[:500].decode(errors="replace")
            raise ProvisionerError(f"the provisioner refused {method} {path} with status {response.status}: {text}")
        try:
            return kind.model_validate_json(content)
        except ValidationError as problem:
            raise ProvisionerError(f"unexpected response of the provisioner: {problem.errors()[0]['msg']}") from None

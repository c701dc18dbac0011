"""`sandbox:` — isolation, network access and resource limits of commands."""

import re
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field, field_validator

from deerflow.config.sections.base import Section, check_object_path, make_error

LOCAL_PROVIDER = "deerflow.sandbox.local:LocalSandboxProvider"
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
HOST = re.compile(rf"(?=.{{1,253}}$)(\*\.)?({LABEL}\.)*(?!\d+$|0x[0-9a-f]*$){LABEL}")
RESERVED_PATHS = (
    "/mnt/user-data", "/mnt/skills", "/mnt/acp-workspace", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64",
    "/libx32", "/etc", "/proc", "/dev", "/sys", "/tmp", "/opt/deerflow", "/opt/toolbox", "/opt/node",
)  # fmt: skip
"""Paths that the sandbox itself provides."""


class MountConfig(Section):
    """An entry of `sandbox.mounts:`."""

    host_path: str = Field(min_length=1, description="Folder or file on the host.")
    container_path: str = Field(description="Path inside the sandbox.")
    read_only: bool = Field(default=False, description="Mount read-only.")

    @field_validator("container_path")
    @classmethod
    def _check_path(cls, path: str) -> str:
        pure = PurePosixPath(path)
        if not pure.is_absolute() or ".." in pure.parts or len(pure.parts) < 2:
            raise make_error("must be an absolute path without '..'")
        for place in map(PurePosixPath, RESERVED_PATHS):
            if pure == place or place in pure.parents or pure in place.parents:
                raise make_error(f"{place} is reserved by the sandbox; choose another path, for instance /mnt/data")
        return str(pure)


class ToolboxConfig(Section):
    """Preinstalled Python environment of local sandboxes, usable without network."""

    enabled: bool = Field(default=True, description="Build it and mount it into sandboxes.")
    packages: tuple[str, ...] = Field(default=(), strict=False, description="Additional packages, as pip requirements.")


class LimitsConfig(Section):
    """Resource limits of the commands of one thread."""

    processes: int = Field(default=256, ge=16, le=32768, description="Maximum number of processes and threads.")
    memory_mb: int = Field(default=2048, ge=128, description="Maximum memory.")
    file_mb: int = Field(default=1024, ge=1, description="Maximum size of a file.")
    disk_mb: int = Field(default=4096, ge=16, description="Maximum total size of a thread's files.")
    background_processes: int = Field(default=4, ge=0, le=64, description="Maximum number of background commands.")


class SandboxConfig(Section):
    """Isolation, network access and limits of commands."""

    needs_restart = True

    use: str = Field(default=LOCAL_PROVIDER, description='Sandbox provider, as "module:Class".')
    allow_host_bash: bool = Field(
        default=False, description="Run commands without isolation where none is available. Unsafe."
    )
    network: Literal["none", "allowlist", "full"] = Field(
        default="none", description="Network access of commands: none, the allowed hosts, or everything."
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(), strict=False, description='Hosts for network: allowlist, e.g. "*.python.org".'
    )
    mounts: tuple[MountConfig, ...] = Field(
        default=(), strict=False, description="Host folders mounted into every sandbox."
    )
    environment: Mapping[str, str] = Field(default_factory=dict, description="Environment variables of every command.")
    skill_environment: Mapping[str, str] = Field(
        default_factory=dict,
        description="Environment variables that are set only while a skill is active whose contract names them.",
    )
    toolbox: ToolboxConfig = Field(default=ToolboxConfig(), description="Preinstalled Python environment.")
    limits: LimitsConfig = Field(default=LimitsConfig(), description="Resource limits of the commands of a thread.")
    bash_command_timeout: float = Field(default=600.0, gt=0, description="Command timeout in seconds.")
    bash_output_max_chars: int = Field(
        default=20_000, ge=0, description="Maximum characters of command output shown to the model; 0: no limit."
    )
    read_file_output_max_chars: int = Field(
        default=50_000, ge=0, description="Maximum characters of a file shown to the model at once; 0: no limit."
    )
    ls_output_max_chars: int = Field(
        default=20_000, ge=0, description="Maximum characters of a listing shown to the model; 0: no limit."
    )
    image: str = Field(default="deerflow-sandbox:latest", description="Container image, for container providers.")
    port: int = Field(default=8080, ge=1, le=65535, description="Port of the server in the container.")
    container_prefix: str = Field(default="deer-flow-sandbox", min_length=1, description="Prefix of container names.")
    idle_timeout: float = Field(
        default=600.0, ge=0, description="Idle seconds before a container is removed; 0: never."
    )
    replicas: int = Field(
        default=3, ge=1, description="Maximum number of containers; the least recently used one is evicted."
    )
    engine_url: str | None = Field(default=None, description="Docker or Podman API, as unix:///path; null: detected.")
    provisioner_url: str | None = Field(default=None, description="URL of a service that creates containers elsewhere.")
    provisioner_api_key: str | None = Field(default=None, description="API key of the provisioner.")

    @field_validator("use")
    @classmethod
    def _check_class_path(cls, use: str) -> str:
        return check_object_path(use, "module:Class", LOCAL_PROVIDER)

    @field_validator("allowed_hosts")
    @classmethod
    def _check_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if not is_host(host.lower()):
                raise make_error(
                    "must be host names like docs.python.org or *.python.org, without scheme, port or path"
                )
        return tuple(host.lower() for host in hosts)

    @field_validator("environment", "skill_environment")
    @classmethod
    def _check_variable_names(cls, variables: Mapping[str, str]) -> Mapping[str, str]:
        for name in variables:
            if not VARIABLE.fullmatch(name):
                raise make_error("names must consist of letters, digits and '_' and not start with a digit")
        return variables


def is_host(host: str) -> bool:
    """Return True for a host name, a wildcard or an IPv4 address; other numeric forms are ambiguous."""
    try:
        IPv4Address(host)
    except ValueError:
        return HOST.fullmatch(host) is not None
    return True

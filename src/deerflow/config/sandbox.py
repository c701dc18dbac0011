"""`sandbox:` — the computer of an agent: what isolates it, what it may reach, how much it may use."""

import re
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field, field_validator

from deerflow.config.section import Section, object_path, objection

LOCAL_PROVIDER = "deerflow.sandbox.local:LocalSandboxProvider"
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
HOST = re.compile(rf"(?=.{{1,253}}$)(\*\.)?({LABEL}\.)*(?!\d+$|0x[0-9a-f]*$){LABEL}")
TAKEN = (
    "/mnt/user-data", "/mnt/skills", "/mnt/acp-workspace", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64",
    "/libx32", "/etc", "/proc", "/dev", "/sys", "/tmp", "/opt/deerflow", "/opt/toolbox", "/opt/node",
)  # fmt: skip
"""What a sandbox shows by itself."""


class MountConfig(Section):
    """One entry of `sandbox.mounts:`."""

    host_path: str = Field(min_length=1, description="A folder or file of this machine.")
    container_path: str = Field(description="Where the agent sees it.")
    read_only: bool = Field(default=False, description="Whether the agent may only read it.")

    @field_validator("container_path")
    @classmethod
    def _is_a_place_of_its_own(cls, path: str) -> str:
        pure = PurePosixPath(path)
        if not pure.is_absolute() or ".." in pure.parts or len(pure.parts) < 2:
            raise objection("must be an absolute path without '..'")
        for place in map(PurePosixPath, TAKEN):
            if pure == place or place in pure.parents or pure in place.parents:
                raise objection(f"{place} belongs to the sandbox itself; choose another path, for instance /mnt/data")
        return str(pure)


class ToolboxConfig(Section):
    """The Python environment that every local sandbox can use without a network."""

    enabled: bool = Field(default=True, description="Whether it is built and shown to sandboxes.")
    packages: tuple[str, ...] = Field(
        default=(), strict=False, description="Packages added to it, written as pip takes them."
    )


class LimitsConfig(Section):
    """How much the commands of one thread may use."""

    processes: int = Field(default=256, ge=16, le=32768, description="So many processes and threads at a time.")
    memory_mb: int = Field(default=2048, ge=128, description="So much memory.")
    file_mb: int = Field(default=1024, ge=1, description="So large may one file become.")
    disk_mb: int = Field(default=4096, ge=16, description="So much may all files of a thread take.")
    background_processes: int = Field(default=4, ge=0, le=64, description="So many commands may run in the background.")


class SandboxConfig(Section):
    """What isolates commands, what they may reach and use."""

    needs_restart = True

    use: str = Field(default=LOCAL_PROVIDER, description='Who provides sandboxes, as "module:Class".')
    allow_host_bash: bool = Field(
        default=False, description="Whether commands may run without isolation where there is none. Unsafe."
    )
    network: Literal["none", "allowlist", "full"] = Field(
        default="none", description="What commands can reach: nothing, the allowed hosts, or everything."
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(), strict=False, description='Hosts reached with network: allowlist, e.g. "*.python.org".'
    )
    mounts: tuple[MountConfig, ...] = Field(
        default=(), strict=False, description="Folders of this machine that every sandbox sees."
    )
    environment: Mapping[str, str] = Field(default_factory=dict, description="Variables that every command sees.")
    skill_environment: Mapping[str, str] = Field(
        default_factory=dict,
        description="Variables that commands see only while a skill is active whose contract names them.",
    )
    toolbox: ToolboxConfig = Field(default=ToolboxConfig(), description="Python packages for commands.")
    limits: LimitsConfig = Field(default=LimitsConfig(), description="How much the commands of a thread may use.")
    bash_command_timeout: float = Field(default=600.0, gt=0, description="After so many seconds a command is ended.")
    bash_output_max_chars: int = Field(
        default=20_000, ge=0, description="So much of a command's output the model sees; 0: everything."
    )
    read_file_output_max_chars: int = Field(
        default=50_000, ge=0, description="So much of a file the model sees at once; 0: everything."
    )
    ls_output_max_chars: int = Field(
        default=20_000, ge=0, description="So much of a listing the model sees; 0: everything."
    )
    image: str = Field(
        default="deerflow-sandbox:latest", description="The container image, for a provider that uses containers."
    )
    port: int = Field(default=8080, ge=1, le=65535, description="Where the server in the container listens.")
    container_prefix: str = Field(default="deer-flow-sandbox", min_length=1, description="How container names begin.")
    idle_timeout: float = Field(default=600.0, ge=0, description="After so many idle seconds one ends; 0: never.")
    replicas: int = Field(default=3, ge=1, description="So many containers are kept; the least used makes room.")
    engine_url: str | None = Field(
        default=None, description="The Docker or Podman API, as unix:///path; found by itself when null."
    )
    provisioner_url: str | None = Field(default=None, description="A service that makes containers elsewhere.")
    provisioner_api_key: str | None = Field(default=None, description="What the provisioner wants to be shown.")

    @field_validator("use")
    @classmethod
    def _names_a_class(cls, use: str) -> str:
        return object_path(use, "module:Class", LOCAL_PROVIDER)

    @field_validator("allowed_hosts")
    @classmethod
    def _are_names(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if not is_host(host.lower()):
                raise objection("must be host names like docs.python.org or *.python.org, without scheme, port or path")
        return tuple(host.lower() for host in hosts)

    @field_validator("environment", "skill_environment")
    @classmethod
    def _are_variables(cls, variables: Mapping[str, str]) -> Mapping[str, str]:
        for name in variables:
            if not VARIABLE.fullmatch(name):
                raise objection("must have names of letters, digits and '_' that begin with no digit")
        return variables


def is_host(host: str) -> bool:
    """Whether it is a name, all names below one, or an address; other numbers are taken for addresses by some."""
    try:
        IPv4Address(host)
    except ValueError:
        return HOST.fullmatch(host) is not None
    return True

"""Validation of `sandbox:`."""

import re
from pathlib import Path

import pytest

from deerflow.config.load import load
from deerflow.config.root import Config
from deerflow.config.sections.sandbox import RESERVED_PATHS, LimitsConfig, SandboxConfig
from deerflow.domain.errors import ConfigError
from deerflow.sandbox.egress import AllowedHosts

GUIDE = Path(__file__).parents[2] / "docs/guides/sandbox.md"
ENVIRONMENT = {"TOKEN": "canary"}
HOSTS = "must be host names like docs.python.org or *.python.org, without scheme, port or path"
MISTAKES = {
    "use: deerflow.sandbox.local.LocalSandboxProvider": 'use: must be "module:Class", for instance '
    "\"deerflow.sandbox.local:LocalSandboxProvider\"; did you mean 'deerflow.sandbox.local:LocalSandboxProvider'?",
    "use: docker": 'use: must be "module:Class", for instance "deerflow.sandbox.local:LocalSandboxProvider"',
    "use: $TOKEN": 'use: must be "module:Class", for instance "deerflow.sandbox.local:LocalSandboxProvider"; '
    "the value comes from $TOKEN",
    "allow_host_bash: sure": "allow_host_bash: must be true or false, not the text 'sure'",
    "allow_bash: true": "allow_bash: unknown key; did you mean 'allow_host_bash'?",
    "network: internet": "network: must be 'none', 'allowlist' or 'full', not the text 'internet'",
    "network: allow-list": "network: must be 'none', 'allowlist' or 'full', not the text 'allow-list'; "
    "did you mean 'allowlist'?",
    "network: false": "network: must be 'none', 'allowlist' or 'full', not false",
    "allowed_hosts: a.example": "allowed_hosts: must be a list: lines that start with '- ', not the text 'a.example'",
    "allowed_hosts: ['https://docs.python.org']": f"allowed_hosts: {HOSTS}",
    "allowed_hosts: [docs.python.org, 'docs.python.org:443']": f"allowed_hosts: {HOSTS}",
    "allowed_hosts: [docs.python.org/simple]": f"allowed_hosts: {HOSTS}",
    "allowed_hosts: ['*']": f"allowed_hosts: {HOSTS}",
    "allowed_hosts: ['py*.org']": f"allowed_hosts: {HOSTS}",
    "allowed_hosts: ['a..b']": f"allowed_hosts: {HOSTS}",
    "allowed_hosts: ['']": f"allowed_hosts: {HOSTS}",
    "allowed_hosts: ['::1']": f"allowed_hosts: {HOSTS}",
    "allowed_hosts: [1.2.3.256]": f"allowed_hosts: {HOSTS}",
    "allowed_hosts: ['127.1']": f"allowed_hosts: {HOSTS}",
    "allowed_hosts: [0x7f.0x1]": f"allowed_hosts: {HOSTS}",
    "allowed_hosts: ['*.127.0.0.1']": f"allowed_hosts: {HOSTS}",
    f"allowed_hosts: [{'a' * 64}.org]": f"allowed_hosts: {HOSTS}",
    f"allowed_hosts: [{'a.' * 126}com]": f"allowed_hosts: {HOSTS}",
    "environment: {1A: x}": "environment: names must consist of letters, digits and '_' and not start with a digit",
    "environment: {'A=B': x}": "environment: names must consist of letters, digits and '_' and not start with a digit",
    "environment: {A: 1}": 'environment.A: must be text, not 1; put it in quotes: "1"',
    "mounts: [/srv]": "mounts[0]: must be a mapping: lines of the form 'key: value', not the text '/srv'",
    "mounts: [{host_path: /srv}]": "mounts[0].container_path: is missing: path inside the sandbox",
    "mounts: [{host_path: '', container_path: /mnt/a}]": "mounts[0].host_path: must not be empty",
    "mounts: [{host_path: /srv, container_path: data}]": "mounts[0].container_path: must be an absolute path "
    "without '..'",
    "mounts: [{host_path: /srv, container_path: /mnt/../etc}]": "mounts[0].container_path: must be an absolute path "
    "without '..'",
    "mounts: [{host_path: /srv, container_path: /}]": "mounts[0].container_path: must be an absolute path without '..'",
    "limits: {processes: 1}": "limits.processes: must be at least 16, not 1",
    "limits: {processes: 40000}": "limits.processes: must be at most 32768, not 40000",
    "limits: {memory_mb: 64}": "limits.memory_mb: must be at least 128, not 64",
    "limits: {disk_mb: 1.5}": "limits.disk_mb: must be a whole number, not 1.5",
    "limits: {file_mb: 0}": "limits.file_mb: must be at least 1, not 0",
    "limits: {background_processes: -1}": "limits.background_processes: must be at least 0, not -1",
    "limits: {memory: 2048}": "limits.memory: unknown key; did you mean 'memory_mb'?",
    "bash_command_timeout: 0": "bash_command_timeout: must be more than 0, not 0",
    "bash_command_timeout: .inf": "bash_command_timeout: must be a finite number, not .inf",
    "bash_output_max_chars: -1": "bash_output_max_chars: must be at least 0, not -1",
    "toolbox: false": "toolbox: must be a mapping: lines of the form 'key: value', not false",
    "toolbox: {packages: numpy}": "toolbox.packages: must be a list: lines that start with '- ', not the text 'numpy'",
    "port: 70000": "port: must be at most 65535, not 70000",
    "replicas: 0": "replicas: must be at least 1, not 0",
}


def load_error(folder: Path, line: str) -> str:
    """Return the error message for a section with one line."""
    (folder / "config.yaml").write_text(f"sandbox:\n  {line}\n")
    with pytest.raises(ConfigError) as raised:
        load(directory=folder, environment=ENVIRONMENT)
    return str(raised.value)


@pytest.mark.parametrize(("line", "message"), MISTAKES.items(), ids=MISTAKES.keys())
def test_reports_a_mistake_with_file_line_key_and_advice(tmp_path: Path, line: str, message: str) -> None:
    assert load_error(tmp_path, line) == f"config.yaml:2: sandbox.{message}"


@pytest.mark.parametrize("place", RESERVED_PATHS)
@pytest.mark.parametrize("form", ["{}", "{}/below"])
def test_rejects_a_mount_over_a_reserved_path(tmp_path: Path, place: str, form: str) -> None:
    message = load_error(tmp_path, f"mounts: [{{host_path: /srv, container_path: {form.format(place)}}}]")
    assert message == (
        f"config.yaml:2: sandbox.mounts[0].container_path: {place} is reserved by the sandbox; "
        "choose another path, for instance /mnt/data"
    )


def test_rejects_a_mount_over_the_parent_of_reserved_paths(tmp_path: Path) -> None:
    message = load_error(tmp_path, "mounts: [{host_path: /srv, container_path: /mnt}]")
    assert message.endswith("/mnt/user-data is reserved by the sandbox; choose another path, for instance /mnt/data")


@pytest.mark.parametrize(
    "host",
    ["localhost", "docs.python.org", "*.wikipedia.org", "a-b.1.example", "xn--bcher-kva.example", "93.184.216.34"],
)
def test_accepts_hosts_in_any_case_as_the_proxy_does(host: str) -> None:
    taken = SandboxConfig(allowed_hosts=(host.upper(),)).allowed_hosts
    assert taken == (host,) and AllowedHosts.from_patterns(taken).allows(host.replace("*", "x"))


def test_reads_a_complete_section(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        """\
sandbox:
  network: allowlist
  allowed_hosts: [docs.python.org]
  mounts:
    - {host_path: ~/data, container_path: /mnt/data/}
  environment: {TZ: Europe/Berlin, _x1: ""}
  toolbox: {packages: [scipy]}
  limits: {memory_mb: 512, background_processes: 0}
  bash_command_timeout: 30
"""
    )
    sandbox = load(directory=tmp_path, environment={}).config.sandbox
    assert sandbox.mounts[0].container_path == "/mnt/data" and not sandbox.mounts[0].read_only
    assert (sandbox.limits.memory_mb, sandbox.limits.processes) == (512, 256)
    assert sandbox.toolbox.packages == ("scipy",) and sandbox.toolbox.enabled
    assert sandbox.environment == {"TZ": "Europe/Berlin", "_x1": ""}


def test_masks_the_provisioner_key() -> None:
    assert "canary" not in repr(SandboxConfig(provisioner_api_key="canary"))


@pytest.mark.parametrize("text", re.findall(r"^```yaml\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL))
def test_loads_each_example_of_the_guide(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert load(directory=tmp_path, environment={}).config != Config()


def test_the_guide_states_the_actual_limits() -> None:
    limits = re.findall(r"^\| `(\w+)` \| (\d+) \|", GUIDE.read_text(), re.MULTILINE)
    assert {name: int(value) for name, value in limits} == LimitsConfig().model_dump()

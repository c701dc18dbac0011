"""`deerflow doctor`: sandbox, MCP servers and skills."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from deerflow.cli.doctor import check_servers, check_skills
from deerflow.config.source import open_source
from deerflow.skills.authoring.lock import lock_skill
from tests.e2e.server_process import run_deerflow
from tests.skills.support import write_skill

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
UNISOLATED = "tests.sandbox.support:UnisolatedProvider"
LIMITS = {
    "processes": "64",
    "memory": "512 MB",
    "file size": "1024 MB",
    "disk of a thread": "4096 MB",
    "time of a command": "600 s",
    "background processes": "4",
    "network": "none",
}


def run_doctor(folder: Path, settings: str) -> subprocess.CompletedProcess[str]:
    """Run the doctor with `settings` as the section `sandbox:`."""
    (folder / "config.yaml").write_text(f"sandbox: {{{settings}}}\n")
    variables = {"PATH": os.defpath, "HOME": str(folder), "PYTHONPATH": str(PROJECT)}
    return run_deerflow("doctor", folder=folder, environment=variables)


@pytest.mark.parametrize(
    ("use", "error"),
    [
        ("nowhere:Provider", "sandbox.use: cannot load 'nowhere:Provider': there is no module 'nowhere'"),
        ("pathlib:Path", "sandbox.use: 'pathlib:Path' is a class, not a subclass of SandboxProvider: it has no"),
    ],
)
def test_an_invalid_provider_is_one_line_and_the_other_checks_run(tmp_path: Path, use: str, error: str) -> None:
    result = run_doctor(tmp_path, f"use: '{use}'")
    assert result.returncode == 1 and result.stderr == ""
    assert f"✗ sandbox: {error}" in result.stdout
    assert "→ set a valid provider, or remove the key" in result.stdout
    assert "disk: " in result.stdout


def test_missing_isolation_is_reported_with_a_fix(tmp_path: Path) -> None:
    result = run_doctor(tmp_path, f"use: '{UNISOLATED}'")
    assert result.returncode == 0, result.stdout + result.stderr
    assert (
        "! sandbox: none: `bash` is off, because commands cannot be isolated on this machine (bubblewrap was not found)"
    ) in result.stdout
    for fix in ("install bubblewrap", "apparmor_restrict_unprivileged_userns", "AioSandboxProvider"):
        assert fix in result.stdout


def test_host_commands_are_a_warning_and_have_no_limits(tmp_path: Path) -> None:
    result = run_doctor(tmp_path, f"use: '{UNISOLATED}', allow_host_bash: true")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "! sandbox: host: commands run as the server itself, without isolation" in result.stdout
    for name in ("processes", "memory", "file size", "network"):
        assert re.search(rf"^! limit of {name}: .*, not enforced$", result.stdout, re.M)


def test_isolated_commands_list_each_limit_and_its_enforcement(tmp_path: Path) -> None:
    result = run_doctor(tmp_path, "limits: {processes: 64, memory_mb: 512}, toolbox: {enabled: false}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"^✓ sandbox: isolated: .*bwrap.*network: none$", result.stdout, re.M)
    limits = dict(re.findall(r"^✓ limit of ([\w ]+): ([^,]+), by \S.*$", result.stdout, re.M))
    assert limits == LIMITS
    assert re.search("^✓ python toolbox: off: ", result.stdout, re.M)
    assert re.search("^✓ ripgrep: /", result.stdout, re.M)


def test_unsupported_settings_of_mcp_servers_are_noted(tmp_path: Path) -> None:
    toolset = {"name": "report", "submit_tool": "submit", "status_tool": "look"}
    entries = {"good": {"command": "a"}, "tasks": {"command": "a", "task_toolsets": [toolset]}}
    (tmp_path / "extensions_config.json").write_text(json.dumps({"mcpServers": entries}))
    (check,) = check_servers(open_source(directory=tmp_path, environment={}).current)
    assert (check.subject, check.state) == ("MCP server 'tasks'", "note") and "has no effect" in check.text


def test_skills_changed_outside_are_named(tmp_path: Path) -> None:
    loaded = open_source(directory=tmp_path, environment={}).current
    custom = loaded.home / "users" / "local" / "skills" / "custom"
    write_skill(custom, "kept")
    write_skill(custom, "nested", folder="group/nested")
    lock_skill(custom.parent, "kept", custom / "kept")
    lock_skill(custom.parent, "nested", custom / "group" / "nested")
    assert check_skills(loaded).text == "unchanged"
    (custom / "kept" / "SKILL.md").write_text("other\n")
    lock_skill(custom.parent, "gone", custom / "kept")
    check = check_skills(loaded)
    assert check.text == "gone of local: removed outside: the whole skill; kept of local: changed outside: SKILL.md"
    assert check.state == "note" and check.remedy and check.remedy.startswith("they stay enabled")

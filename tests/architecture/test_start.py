"""Modules that the server loads at its start, and those that are imported later."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef

LATE = (
    "argon2",
    "joserfc",
    "webauthn",
    "deerflow.accounts.accounts",
    "deerflow.accounts.passkeys",
    "deerflow.accounts.single_sign_on",
    "deerflow.accounts.logins",
    "yaml",
    "h11",
    "alembic",
    "sqlalchemy.dialects.postgresql",
    "mcp",
    "openai",
    "aiohttp",
    "httpx",
    "rich",
    "langchain.agents",
    "langgraph.graph",
    "langgraph.pregel",
    "langgraph.types",
    "langgraph_sdk",
    "langsmith",
    "deerflow.agent_support.thread_state",
    "deerflow.agents.factory",
    "deerflow.agents.lead_agent.agent",
    "deerflow.channels",
    "deerflow.gateway.routers.features",
    "deerflow.gateway.routers.threads.threads",
    "deerflow.gateway.schemas.runs",
    "deerflow.harness.run_context",
    "deerflow.mcp.catalog",
    "deerflow.mcp.servers",
    "deerflow.runtime.runs.tool_ledger",
    "deerflow.runtime.runs.worker",
    "deerflow.services.artifacts",
    "deerflow.services.export",
    "deerflow.services.prompt_assistance",
    "deerflow.skills.scanner",
    "deerflow.skills.authoring.custom_skills",
    "deerflow.subagents.executor",
    "deerflow.tools.assembly",
)

UNUSED_BY_RUNS = (
    "mcp",
    "websockets",
    "httpx2",
    "psutil._common",
    "langgraph_sdk.client",
    "langsmith.types.run",
    "jsonschema",
    "pygments",
    "rich",
    "watchfiles",
    "sqlalchemy.dialects.postgresql",
    "deerflow.sandbox.previews.previews",
    "deerflow.mcp.session.calls",
)
RUN_MODULES = (
    "deerflow.harness.run_context",
    "deerflow.models.openai_compatible.client",
    "deerflow.runtime.runs.worker",
    "deerflow.services.artifacts",
)


def test_what_most_servers_never_need_is_not_loaded_at_their_start() -> None:
    listing = "import sys, deerflow.cli.serve; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, timeout=60, check=True)

    assert not set(LATE) & set(done.stdout.split())


def test_chat_apps_load_no_library_that_runs_do_not_need() -> None:
    listing = (
        "import sys, deerflow.channels.service, deerflow.channels.telegram.adapter\n"
        "print(*(name for name in sys.argv[1:] if name in sys.modules))"
    )
    unwanted = ("mcp", "deerflow.client", "alembic", "argon2", "rich", "yaml")
    command = [sys.executable, "-c", listing, *unwanted]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.split() == []


def test_every_module_with_late_imports_saves_something_at_start() -> None:
    """A module leaves the list of PLC0415 in pyproject.toml when all it imports in functions is loaded anyway."""
    listed = {name: sorted(list_late_imports(ROOT / name)) for name in list_exempt_modules()}
    program = (
        "import json, sys, deerflow.cli.serve, deerflow.harness, deerflow.gateway.app\n"
        "for name, imports in json.loads(sys.argv[1]).items():\n"
        "    loaded = [[m, n] for m, n in imports if m in sys.modules and (not n or n in vars(sys.modules[m]))]\n"
        "    if len(loaded) == len(imports): print(name)"
    )
    arguments = [sys.executable, "-c", program, json.dumps(listed)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True)

    assert len(listed) > 20
    assert done.stdout.split() == []


def list_exempt_modules() -> Iterator[str]:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]["per-file-ignores"]
    for pattern, codes in rules.items():
        if "PLC0415" in codes and pattern.startswith("src/"):
            start, names, end = re.fullmatch(r"([^{]*)(?:\{(.*)\})?(.*)", pattern).groups()  # type: ignore[union-attr]
            yield from (f"{start}{name}{end}" for name in (names or "").split(","))


def list_late_imports(file: Path) -> set[tuple[str, str]]:
    """Return module and name of every import inside a function."""
    functions = [
        node for node in ast.walk(ast.parse(file.read_text())) if hasattr(node, "args") and hasattr(node, "body")
    ]
    found: set[tuple[str, str]] = set()
    for node in (node for function in functions for node in ast.walk(function)):
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "", alias.name) for alias in node.names}
    return found


def test_what_most_runs_never_need_is_not_loaded_with_the_first_run() -> None:
    listing = (
        "import sys; from deerflow.cli.main import skip_unused_modules; skip_unused_modules(); "
        f"import deerflow.cli.serve, {', '.join(RUN_MODULES)}; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, timeout=60, check=True)

    assert not set(UNUSED_BY_RUNS) & set(done.stdout.split())


def test_libraries_work_without_the_modules_that_are_skipped() -> None:
    use = (
        "from deerflow.cli.main import skip_unused_modules; skip_unused_modules(); "
        "import httpx, uvicorn.supervisors; print(httpx.Client, uvicorn.supervisors.ChangeReload)"
    )
    done = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True, timeout=60, check=True)

    assert "httpx.Client" in done.stdout and "StatReload" in done.stdout


def test_deferred_packages_are_loaded_when_they_are_used() -> None:
    use = (
        "import sys; from deerflow.cli.main import skip_unused_modules; skip_unused_modules(); "
        "import langgraph_sdk, langsmith.types, langgraph_sdk.auth.types; "
        "print('langgraph_sdk.client' in sys.modules); "
        "from langsmith.types import Run; print(langgraph_sdk.get_client.__name__, Run.__name__, dir(langgraph_sdk))"
    )
    done = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.startswith("False\nget_client Run ") and "get_sync_client" in done.stdout


def test_a_library_that_prefers_a_package_falls_back_to_the_one_that_is_loaded_anyway() -> None:
    use = (
        "import sys; from deerflow.cli.main import skip_unused_modules; skip_unused_modules(); "
        "import langsmith.utils; from langsmith._httpx import httpx; print(httpx.__name__, 'httpx2' in sys.modules); "
        "import httpx2, psutil; print(httpx2.Client.__module__, psutil.Process().pid)"
    )
    done = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.startswith("httpx False\nhttpx2")


def test_a_library_that_prefers_a_package_uses_it_if_it_is_loaded() -> None:
    use = (
        "from deerflow.cli.main import skip_unused_modules; skip_unused_modules(); "
        "import httpx2; from langsmith._httpx import httpx; print(httpx.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "httpx2\n"

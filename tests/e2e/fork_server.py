"""A fork server: starts `deerflow` processes quickly, because it has imported the program already.

`python -m tests.e2e.fork_server REPORT` reads one JSON object per line (`arguments`, `environment`, `folder`, and the
files `input`, `output`, `errors` and `status`), forks a process that runs the `deerflow` command in the folder with
these streams, and prints the process id. If the first argument is a Python file, that is run instead of the command.
The process writes its exit code to `status`. A watchdog in each server appends to the file `REPORT` if the event loop
is held.
"""

import json
import os
import signal
import sys
from collections.abc import Coroutine
from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import Any

from deerflow.cli import serve
from deerflow.cli.main import build_app
from deerflow.cli.main import main as deerflow
from deerflow.gateway.routes import LANGGRAPH_ROUTES, ROUTES, LazyRouter
from deerflow.models.demo import DemoChatModel
from tests.watchdog import Watchdog

LAZY_MODULES = (
    "deerflow.agents.lead_agent.agent",
    "deerflow.community.ddg_search.tools",
    "deerflow.community.web_fetch.tools",
    "deerflow.harness.run_context",
    "deerflow.models.openai_compatible.client",
    "deerflow.runtime.runs.worker",
    "deerflow.services.prompt_assistance",
)
"""Modules that a server imports with its first run."""
DELAY_MS = 5.0
"""Pause of the demo model between words, which is made for readers."""


def main() -> None:
    """Fork a process for every line of standard input."""
    report = Path(sys.argv[1])
    build_app([])
    for name in LAZY_MODULES:
        import_module(name)
    for part in (*LANGGRAPH_ROUTES, *ROUTES):
        if isinstance(part, LazyRouter):
            part.load()
    DemoChatModel.model_fields["delay_ms"].default = DELAY_MS
    DemoChatModel.model_rebuild(force=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps children
    for line in sys.stdin:
        request = json.loads(line)
        output = os.open(request.pop("output"), os.O_WRONLY)
        if child := os.fork():
            os.close(output)
            sys.stdout.write(f"{child}\n")
            sys.stdout.flush()
        else:
            run_deerflow(report, output, **request)


def run_deerflow(
    report: Path, output: int, arguments: list[str], environment: dict[str, str], folder: str, **files: str
) -> None:
    """Run the `deerflow` command, or a program, in this process with its own environment, folder and streams."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()  # noqa: TID251
    os.environ.update(environment)  # noqa: TID251
    os.chdir(folder)
    os.dup2(os.open(files["input"], os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.close(output)
    os.dup2(os.open(files["errors"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
    watch_event_loop(report)
    code: object = 1
    try:
        if arguments and arguments[0].endswith(".py"):
            sys.argv, sys.path[0] = arguments, str(Path(arguments[0]).parent)
            run_path(arguments[0], run_name="__main__")
        else:
            sys.argv = ["deerflow", *arguments]
            deerflow()
        code = 0
    except SystemExit as ended:
        code = 0 if ended.code is None else ended.code
        raise
    finally:
        Path(files["status"]).write_text(str(code))


def watch_event_loop(report: Path) -> None:
    """Report code that holds the event loop of `deerflow serve` in this process."""
    run_loop = serve.run_loop

    def append(problem: str) -> None:
        with report.open("a") as file:
            file.write(f"{problem}\n")

    def run_watched(main: Coroutine[Any, Any, None]) -> None:
        run_loop(Watchdog(report=append).observe_loop(main))

    serve.run_loop = run_watched


if __name__ == "__main__":
    main()

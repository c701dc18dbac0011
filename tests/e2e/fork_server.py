"""A fork server: starts `deerflow` processes quickly, because it has imported the program already.

`python -m tests.e2e.fork_server` reads one JSON object per line (`arguments`, `environment`, `home`, `output`), forks a
process that runs the `deerflow` command and writes to the named pipe `output`, and prints the process id.
"""

import json
import os
import signal
import sys
from importlib import import_module

from deerflow.cli.main import build_app
from deerflow.cli.main import main as deerflow
from deerflow.gateway.routes import LANGGRAPH_ROUTES, ROUTES, LazyRouter

LAZY_MODULES = (
    "deerflow.agents.lead_agent.agent",
    "deerflow.community.ddg_search.tools",
    "deerflow.community.web_fetch.tools",
    "deerflow.models.openai_compatible.client",
)
"""Modules that a server imports with its first run."""


def main() -> None:
    """Fork a process for every line of standard input."""
    build_app([])
    for name in LAZY_MODULES:
        import_module(name)
    for part in (*LANGGRAPH_ROUTES, *ROUTES):
        if isinstance(part, LazyRouter):
            part.load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps children
    for line in sys.stdin:
        request = json.loads(line)
        output = os.open(request.pop("output"), os.O_WRONLY)
        if child := os.fork():
            os.close(output)
            sys.stdout.write(f"{child}\n")
            sys.stdout.flush()
        else:
            run_deerflow(output, **request)


def run_deerflow(output: int, arguments: list[str], environment: dict[str, str], home: str) -> None:
    """Run the `deerflow` command in this process with its own environment, folder and streams."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()  # noqa: TID251
    os.environ.update(environment)  # noqa: TID251
    os.chdir(home)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.close(output)
    os.dup2(os.open("server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
    sys.argv = ["deerflow", *arguments]
    deerflow()


if __name__ == "__main__":
    main()

"""Servers that start quickly: forked from a process that has imported the program already.

`python -m tests.e2e.nursery` reads one JSON object per line (`arguments`, `environment`, `home`, `said`) and forks a
process that runs the `deerflow` command with them and speaks into the pipe `said`. The id of that process is printed.
"""

import json
import os
import signal
import sys
from importlib import import_module

from deerflow.cli.main import build_app
from deerflow.cli.main import main as deerflow
from deerflow.gateway.routes import LANGGRAPH_ROUTES, ROUTES, LazyRouter

LATE = (
    "deerflow.agents.lead_agent.agent",
    "deerflow.community.ddg_search.tools",
    "deerflow.community.web_fetch.tools",
    "deerflow.models.openai_compatible.client",
)
"""What a server loads with its first run: here every server would have a first one."""


def main() -> None:
    """Fork a server for every line, and wait for nobody."""
    build_app([])
    for name in LATE:
        import_module(name)
    for part in (*LANGGRAPH_ROUTES, *ROUTES):
        if isinstance(part, LazyRouter):
            part.load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system puts the dead to rest
    for line in sys.stdin:
        order = json.loads(line)
        mouth = os.open(order.pop("said"), os.O_WRONLY)
        if child := os.fork():
            os.close(mouth)
            sys.stdout.write(f"{child}\n")
            sys.stdout.flush()
        else:
            become_server(mouth, **order)


def become_server(mouth: int, arguments: list[str], environment: dict[str, str], home: str) -> None:
    """Go on as a `deerflow` process of its own."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()  # noqa: TID251
    os.environ.update(environment)  # noqa: TID251
    os.chdir(home)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(mouth, 1)
    os.close(mouth)
    os.dup2(os.open("server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
    sys.argv = ["deerflow", *arguments]
    deerflow()


if __name__ == "__main__":
    main()

"""`python -m deerflow.testing.server`: the scripted server as a process, for benchmarks."""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from deerflow.testing.scripted_server import ScriptedServer, ServerRequest, is_title_request
from deerflow.testing.turns import Answer, ToolRequest


def main() -> None:
    """Print the base URL, then serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m deerflow.testing.server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port; 0 selects a free one")
    parser.add_argument("--tokens", type=int, default=200, help="number of tokens of the answer")
    parser.add_argument("--delay-ms", type=float, default=0, help="delay after each token")
    parser.add_argument("--calls", type=json.loads, default=[], help="calls before the answer: [[name, arguments], …]")
    options = parser.parse_args()
    try:
        asyncio.run(_serve(options.port, options.tokens, options.delay_ms / 1000, options.calls))
    except KeyboardInterrupt:
        return


async def _serve(port: int, tokens: int, delay_s: float, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    answer = Answer(tuple(f"word{number} " for number in range(tokens)), delay_s=delay_s)

    def turn(request: ServerRequest) -> Answer:
        if is_title_request(request.body):
            return Answer(("Something long",))
        done = _results_this_turn(request)
        if not request.body.get("tools") or done >= len(calls):
            return answer
        name, arguments = calls[done]
        request_id = f"call_{len(request.messages)}"
        return Answer(calls=(ToolRequest(name, json.dumps(arguments), id=request_id),), delay_s=delay_s)

    async with ScriptedServer([turn], endless=True, titles=True, port=port) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def _results_this_turn(request: ServerRequest) -> int:
    """Return the number of tool results after the last user message."""
    roles = [message["role"] for message in request.messages]
    since_user = roles[::-1].index("user") if "user" in roles else len(roles)
    return roles[len(roles) - since_user :].count("tool")


if __name__ == "__main__":
    main()

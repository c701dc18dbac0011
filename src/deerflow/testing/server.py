"""`python -m deerflow.testing.server`: the scripted server as a process, for benchmarks."""

import argparse
import asyncio
import sys

from deerflow.testing.scripted_server import ScriptedServer, ServerRequest
from deerflow.testing.turns import Answer, ToolRequest


def main() -> None:
    """Print the base URL, then serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m deerflow.testing.server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port; 0 selects a free one")
    parser.add_argument("--tokens", type=int, default=200, help="number of tokens of the answer")
    parser.add_argument("--delay-ms", type=float, default=0, help="delay after each token")
    parser.add_argument("--tool-calls", type=int, default=0, help="number of calls of the first tool before the answer")
    options = parser.parse_args()
    try:
        asyncio.run(_serve(options.port, options.tokens, options.delay_ms / 1000, options.tool_calls))
    except KeyboardInterrupt:
        return


async def _serve(port: int, tokens: int, delay_s: float, tool_calls: int) -> None:
    answer = Answer(tuple(f"word{number} " for number in range(tokens)), delay_s=delay_s)

    def turn(request: ServerRequest) -> Answer:
        done = _results_this_turn(request)
        tools = request.body.get("tools")
        if not tools or done >= tool_calls:
            return answer
        return Answer(
            calls=(ToolRequest(tools[0]["function"]["name"], "{}", id=f"call_{len(request.messages)}"),),
            delay_s=delay_s,
        )

    async with ScriptedServer([turn], endless=True, port=port) as server:
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

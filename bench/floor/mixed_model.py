"""The model of `soak.py`: answers at once, or calls one or two tools first, as the last question says."""

import asyncio
import json

from deerflow.testing.scripted_server import ScriptedServer, ServerRequest
from deerflow.testing.turns import Answer, ToolRequest

ANSWER = Answer(tuple(f"word{number} " for number in range(30)))
WORKSPACE = "/mnt/user-data/workspace"
CALLS = (
    ("write_file", {"description": "note", "path": f"{WORKSPACE}/note.txt", "content": "A line of text.\n" * 60}),
    ("read_file", {"description": "look", "path": f"{WORKSPACE}/note.txt"}),
)


async def main() -> None:
    """Print the address, then serve until killed."""

    def turn(request: ServerRequest) -> Answer:
        server.requests.clear()  # this process must not grow either
        roles = [message["role"] for message in request.messages]
        since_user = roles[::-1].index("user")
        wanted = str(request.messages[len(roles) - 1 - since_user]["content"])
        done = roles[len(roles) - since_user :].count("tool")
        if not request.body.get("tools") or done >= sum(mark in wanted for mark in ("write", "read")):
            return ANSWER
        name, arguments = CALLS[done]
        return Answer(calls=(ToolRequest(name, json.dumps(arguments), id=f"call_{len(roles)}"),))

    async with ScriptedServer([turn], endless=True) as server:
        print(server.base_url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())

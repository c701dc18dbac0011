"""A model that says what time it is: each token is the moment it was sent, in nanoseconds.

Prints its base URL, then serves. An answer has as many tokens, at such a distance, as the arguments say.
"""

import asyncio
import sys
import time

import orjson
from aiohttp import web

TOKENS, PAUSE_S = int(sys.argv[1]), float(sys.argv[2]) / 1000


async def answer(request: web.Request) -> web.StreamResponse:
    """Stream the time."""
    await request.read()
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for _ in range(TOKENS):
        await asyncio.sleep(PAUSE_S)
        await response.write(chunk({"content": f"{time.time_ns()} "}))
    await response.write(chunk({}, "stop") + b"data: [DONE]\n\n")
    return response


def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    """A piece of an OpenAI-compatible stream."""
    body = {
        "id": "c",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return b"data: " + orjson.dumps(body) + b"\n\n"


async def main() -> None:
    """Serve on any free port."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0]
    print(f"http://{host}:{port}/v1", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())

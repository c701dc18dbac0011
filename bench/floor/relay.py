"""The floor of `scale.py`: a server that relays the answer of a model, with Starlette and httpx, without a database."""

import sys
from collections.abc import AsyncIterator

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

QUESTION = {"model": "clock", "stream": True, "messages": [{"role": "user", "content": "What time is it?"}]}


def create_app(base_url: str) -> Starlette:
    """Serve `/health` and `/stream`."""
    client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))

    async def relay(request: Request) -> Response:
        await request.body()
        return StreamingResponse(follow(), media_type="text/event-stream")

    async def follow() -> AsyncIterator[bytes]:
        async with client.stream("POST", f"{base_url}/chat/completions", json=QUESTION) as answer:
            async for piece in answer.aiter_bytes():
                yield piece
        yield b"event: end\ndata: null\n\n"

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "healthy"})

    return Starlette(routes=[Route("/stream", relay, methods=["POST"]), Route("/health", health)])


if __name__ == "__main__":
    uvicorn.run(create_app(sys.argv[1]), port=int(sys.argv[2]), log_level="warning", access_log=False)

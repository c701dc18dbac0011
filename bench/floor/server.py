"""The floor of `startup.py`: the least server that could do anything like this — FastAPI, an agent, a SQLite saver."""

import asyncio
import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


async def main(port: int, directory: Path) -> None:
    """Serve `/health` until killed."""
    app = FastAPI()

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "healthy"}

    async with AsyncSqliteSaver.from_conn_string(str(directory / "floor.db")) as saver:
        await saver.setup()
        app.state.agent = create_agent(GenericFakeChatModel(messages=iter([AIMessage("hi")])), checkpointer=saver)
        await uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))

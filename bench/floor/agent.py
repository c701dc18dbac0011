"""The floor of `run_overhead.py`: `create_agent`, `ChatOpenAI` and an in-memory saver in one process, nothing else.

Reads how many runs to make from standard input, one number a line, and prints the CPU seconds they took.
"""

import asyncio
import sys
import time
from uuid import uuid4

import uvloop
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

PROMPT = "You are a helpful assistant."


def ping(text: str = "") -> str:
    """Answer at once.

    Args:
        text: Anything.
    """
    return "pong"


async def main(base_url: str) -> None:
    """Make runs as asked."""
    model = ChatOpenAI(model="scripted", base_url=base_url, api_key="none")
    agent = create_agent(model, [ping], system_prompt=PROMPT, checkpointer=InMemorySaver())
    while line := await asyncio.to_thread(sys.stdin.readline):
        before = time.process_time()
        for _ in range(int(line)):
            await run(agent)
        print(time.process_time() - before, flush=True)


async def run(agent: object) -> None:
    """One streamed answer in a thread of its own."""
    config = {"configurable": {"thread_id": str(uuid4())}}
    question = {"messages": [{"type": "human", "content": "Say something long."}]}
    async for _piece in agent.astream(question, config, stream_mode="messages"):  # type: ignore[attr-defined]
        pass


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))

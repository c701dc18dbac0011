"""The floor of `run_overhead.py`: `create_agent`, `ChatOpenAI` and an in-memory saver in one process, nothing else.

Its tools are plain functions that do the same work. Reads how many runs to make from standard input, one number a line,
and prints the CPU seconds they took, with those of its processes. After `at once`, all runs of a line begin together.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
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


def write_file(description: str, path: str, content: str) -> str:
    """Write a file.

    Args:
        description: What for.
        path: Its path.
        content: Its text.
    """
    return f"wrote {Path(Path(path).name).write_text(content)} characters"


def read_file(description: str, path: str) -> str:
    """Return the text of a file.

    Args:
        description: What for.
        path: Its path.
    """
    return Path(Path(path).name).read_text()


async def bash(description: str, command: str) -> str:
    """Run a command.

    Args:
        description: What for.
        command: The command.
    """
    process = await asyncio.create_subprocess_exec("bash", "-c", command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    return output.decode()


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its ended children."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


async def main(base_url: str) -> None:
    """Make runs as asked."""
    model = ChatOpenAI(model="scripted", base_url=base_url, api_key="none")
    tools = [ping, write_file, read_file, bash]
    agent = create_agent(model, tools, system_prompt=PROMPT, checkpointer=InMemorySaver())
    while line := await asyncio.to_thread(sys.stdin.readline):
        before = cpu_seconds()
        count, _, is_at_once = line.strip().partition(" ")
        if is_at_once:
            await asyncio.gather(*(run(agent) for _ in range(int(count))))
        else:
            for _ in range(int(count)):
                await run(agent)
        print(cpu_seconds() - before, flush=True)


async def run(agent: object) -> None:
    """One streamed answer in a thread of its own."""
    config = {"configurable": {"thread_id": str(uuid4())}}
    question = {"messages": [{"type": "human", "content": "Say something long."}]}
    async for _piece in agent.astream(question, config, stream_mode="messages"):  # type: ignore[attr-defined]
        pass


if __name__ == "__main__":
    os.chdir(tempfile.mkdtemp())
    Path("given.txt").write_text("A line of text.\n" * 60)
    uvloop.run(main(sys.argv[1]))

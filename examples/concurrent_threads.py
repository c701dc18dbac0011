"""Async client: several threads at the same time."""

import asyncio

from deerflow.client import DeerFlowClient

QUESTIONS = {"tour": "What is DeerFlow?", "formats": "Show me what an answer can look like."}


async def main() -> None:
    """Ask all questions concurrently and print the length of each answer."""
    async with DeerFlowClient() as client:
        answers = await asyncio.gather(
            *(client.achat(question, thread_id=thread_id) for thread_id, question in QUESTIONS.items())
        )
        for thread_id, answer in zip(QUESTIONS, answers, strict=True):
            print(f"{thread_id}: {len(answer.split())} words")
        print(len(await client.threads.alist()), "threads")


asyncio.run(main())

"""Chat: two messages in one thread, answered by the model of your configuration or by the demo model."""

from deerflow.client import DeerFlowClient

with DeerFlowClient() as client:
    print(client.chat("What is DeerFlow?", thread_id="tour"))
    print(client.chat("How do I connect a real model?", thread_id="tour"))

    (thread,) = client.threads.list()
    print("Thread:", thread["thread_id"], "Title:", thread["values"]["title"])

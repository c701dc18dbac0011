"""Streaming: print the answer as it arrives, the tool results, and the token usage at the end."""

from deerflow.client import DeerFlowClient
from deerflow.testing import ScriptedModel, calling

# Remove `model=` to use the model of your configuration.
model = ScriptedModel.saying(
    calling("write_file", description="save", path="/mnt/user-data/outputs/note.txt", content="Deer eat leaves."),
    "I saved a note about deer.",
)

with DeerFlowClient(model=model) as client:
    for event in client.stream("Save a note about deer.", thread_id="notes"):
        match event.type, event.data.get("type"):
            case "messages-tuple", "ai":
                print(event.data["content"], end="", flush=True)
            case "messages-tuple", "tool":
                print(f"[{event.data['name']}] {event.data['content']}")
            case "end", _:
                print("\nTokens:", event.data["usage"]["total_tokens"])

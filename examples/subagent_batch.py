"""Subagents: the lead agent runs the same task for every item of a list and gets the results as a file."""

import json

from deerflow.client import DeerFlowClient
from deerflow.testing import ScriptedModel, calling

CITIES = ["Oslo", "Rome", "Lima"]


def answer(messages) -> str:
    """Reply as a subagent: find the task in the messages and confirm it."""
    task = next(line for message in messages for line in message.text.splitlines() if line.startswith("Check the city"))
    return f"{task}: done"


# Remove `model=` to use the model of your configuration.
model = ScriptedModel.saying(
    calling(
        "task_batch",
        description="check cities",
        prompt="Check the city {item}",
        subagent_type="general-purpose",
        items=CITIES,
    ),
    *[answer] * len(CITIES),
    "All cities are checked.",
)

with DeerFlowClient(model=model, subagent_enabled=True) as client:
    print(client.chat("Check these cities.", thread_id="cities"))
    outputs = "/mnt/user-data/outputs"
    (file,) = [entry["name"] for entry in client.artifacts.list("cities", outputs)["entries"]]
    content, _ = client.artifacts.get("cities", f"{outputs}/{file}")
    for line in content.decode().splitlines():
        row = json.loads(line)
        print(row["item"], row["status"], row["result"])

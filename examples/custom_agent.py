"""Custom agent: a name, a SOUL.md with its role, and settings of its own."""

from deerflow.client import DeerFlowClient
from deerflow.testing import ScriptedModel

SOUL = """You are an editor.

- Answer in short sentences.
- Name the one change that improves the text most.
"""

# Remove `model=` to use the model of your configuration.
model = ScriptedModel.saying("Cut the first sentence.")

with DeerFlowClient(model=model, agent_name="editor") as client:
    client.agents.create("editor", soul=SOUL, description="Reviews texts")
    print("Agents:", [agent["name"] for agent in client.agents.list()])
    print("Answer:", client.chat("It is generally known that deer eat leaves."))

print("SOUL.md is part of the prompt:", "You are an editor." in model.requests[0].messages[0].text)

"""Skills: create a custom skill and activate it with a slash command."""

from deerflow.client import DeerFlowClient
from deerflow.testing import ScriptedModel

SKILL = """---
name: house-style
description: How we write. Use it when somebody asks for a text.
---

# House style

Write short sentences. Avoid adjectives.
"""

# Remove `model=` to use the model of your configuration.
model = ScriptedModel.saying("Deer eat leaves.")

with DeerFlowClient(model=model) as client:
    client.custom_skills.create(SKILL)
    print("Custom skills:", [skill["name"] for skill in client.custom_skills.list()["skills"]])
    print("Answer:", client.chat("/house-style write about deer"))
    for change in client.custom_skills.get_history("house-style")["history"]:
        print("History:", change["action"], "by", change["author"])

prompt = "\n".join(message.text for message in model.requests[0].messages)
print("The skill is part of the prompt:", "Avoid adjectives." in prompt)

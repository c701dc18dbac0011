"""Memory: facts are injected into new threads, and every change can be explained and undone."""

from deerflow.client import DeerFlowClient
from deerflow.testing import ScriptedModel

# Remove `model=` to use the model of your configuration.
model = ScriptedModel.saying("Green tea, as usual?")

with DeerFlowClient(model=model) as client:
    fact = client.memory.create_fact("Drinks green tea in the morning", "preference", 0.9)["facts"][0]
    print("Found:", client.memory.search("morning tea")["facts"][0]["content"])
    print("Answer:", client.chat("What should I drink?", thread_id="breakfast"))

    client.memory.update_fact(fact["id"], content="Drinks coffee in the morning")
    newest = client.memory.get_history()["changes"][0]
    print("Changed:", newest["kind"], "by", newest["actor"])
    client.memory.undo(newest["change_id"])
    print("After undo:", client.memory.get()["facts"][0]["content"])

prompt = "\n".join(message.text for message in model.requests[0].messages)
print("Injected:", "Drinks green tea in the morning" in prompt)

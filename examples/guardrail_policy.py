"""Guardrails: a policy that denies one command and asks before another tool is used."""

from pathlib import Path

from deerflow.client import DeerFlowClient
from deerflow.testing import ScriptedModel, calling

POLICY = """
rules:
  - name: no-secrets
    tool: read_file
    arguments: {path: {glob: ["*.env", "*.pem"]}}
    outcome: deny
    reason: files with secrets are not read
  - name: ask-before-writing
    tool: write_file
    outcome: ask
    reason: a person checks what is published
"""
Path("policy.yaml").write_text(POLICY)

# Remove `model=` to use the model of your configuration.
model = ScriptedModel.saying(
    calling("read_file", description="look", path="/mnt/user-data/workspace/keys.env"),
    calling("write_file", description="publish", path="/mnt/user-data/outputs/post.md", content="# News"),
    "Published.",
)

with DeerFlowClient(model=model) as client:
    client.chat("Publish the news.", thread_id="news")
    print("Denied:", model.requests[1].messages[-1].text)

    (interrupt,) = client.approvals.list("news")
    (call,) = interrupt["value"]["action_requests"]
    print("Waiting for approval:", call["name"], call["args"]["path"])
    print("Answer:", client.approvals.approve("news"))

"""Files: upload a file, let the agent write another, list the changes of the run and download the result."""

from pathlib import Path

from deerflow.client import DeerFlowClient
from deerflow.testing import ScriptedModel, calling

REPORT = "/mnt/user-data/outputs/report.md"
Path("notes.txt").write_text("Deer eat leaves.\n")

# Remove `model=` to use the model of your configuration.
model = ScriptedModel.saying(
    "Hello.",
    calling("read_file", description="read the notes", path="/mnt/user-data/uploads/notes.txt"),
    calling("write_file", description="write the report", path=REPORT, content="# Report\n\nDeer eat leaves.\n"),
    calling("present_files", filepaths=[REPORT]),
    "The report is ready.",
)

with DeerFlowClient(model=model) as client:
    client.chat("Hello", thread_id="forest")
    uploaded = client.uploads.create("forest", ["notes.txt"])["files"][0]
    print("Uploaded:", uploaded["path"])
    print("Answer:", client.chat("Write a report about my notes.", thread_id="forest"))

    changes = client.runs.get_changes("forest")
    print("Changed:", [change["path"] for change in changes["files"]])
    size = client.artifacts.download("forest", REPORT, "report.md")
    print(f"Downloaded {size} bytes:", Path("report.md").read_text().splitlines()[0])

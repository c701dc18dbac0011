"""Export of threads."""

from deerflow.testing import Answer, ScriptedModel, ToolRequest, thinking
from tests.gateway.support import build_run_body
from tests.support import OpenHarness, browse

LIST = ToolRequest("ls", '{"description": "look ``` around", "path": "/mnt/user-data/workspace"}', id="c1")
WRITE = ToolRequest(
    "write_file", '{"description": "keep", "path": "/mnt/user-data/outputs/a.md", "content": "# A"}', id="c2"
)


async def test_markdown_export_folds_tool_calls(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(Answer(calls=(LIST, WRITE)), thinking("Hmm.", then="Done: **all** of it.\n\n中文"))
    async with harness_saying(model) as harness, browse(harness) as http:
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Look <b>around</b>"))
        response = await http.get("/api/threads/t/export")
    text = response.text
    assert response.headers["content-type"].startswith("text/markdown")
    assert response.headers["content-disposition"] == "attachment; filename*=UTF-8''t.md"
    assert text.startswith("# Look <b>around</b>\n") and "## You\n\nLook <b>around</b>\n" in text
    assert "<details><summary>ls</summary>" in text and "````json" in text and "look ``` around" in text
    assert "<details><summary>Thought</summary>\n\nHmm." in text and "Done: **all** of it.\n\n中文" in text
    assert "- `/mnt/user-data/outputs/a.md`, 3 bytes" in text
    assert text.count("<details>") == text.count("</details>") == 3


async def test_json_export_has_all_messages_and_a_version(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(Answer(calls=(LIST,)), "Done.")) as harness, browse(harness) as http:
        await http.post("/api/threads/t/runs/wait", json=build_run_body("Look"))
        whole = (await http.get("/api/threads/t/export", params={"format": "json"})).json()
        said = (await http.get("/api/threads/t/messages")).json()["messages"]
        runs = (await http.get("/api/threads/t/runs")).json()
    assert (whole["format"], whole["version"], whole["thread"]["title"]) == ("deerflow.thread", 1, "Look")
    own = [
        {key: value for key, value in each.items() if key not in ("run_id", "created_at")} for each in whole["messages"]
    ]
    assert own == said and {each["run_id"] for each in whole["messages"]} == {runs[0]["run_id"]}
    assert [(run["run_id"], run["status"], run["total_input_tokens"]) for run in whole["runs"]] == [
        (runs[0]["run_id"], "success", runs[0]["total_input_tokens"])
    ]


async def test_export_omits_abandoned_branches(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("One.", "Two.", "Other.")) as harness, browse(harness) as http:
        await http.post("/api/threads/t/runs/wait", json=build_run_body("first"))
        origin = (await http.get("/api/threads/t/state")).json()["checkpoint_id"]
        await http.post("/api/threads/t/runs/wait", json=build_run_body("second"))
        await http.post("/api/threads/t/runs/wait", json=build_run_body("instead", checkpoint_id=origin))
        text = (await http.get("/api/threads/t/export")).text
    assert "instead" in text and "Other." in text and "second" not in text and "Two." not in text


async def test_export_rejects_missing_threads_and_unknown_formats(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        assert (await http.get("/api/threads/none/export")).status_code == 404
        await http.post("/api/threads", json={"thread_id": "t"})
        assert (await http.get("/api/threads/t/export", params={"format": "pdf"})).status_code == 422
        assert (await http.get("/api/threads/t/export")).text.startswith("# t\n")

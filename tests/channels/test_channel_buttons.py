"""Approvals and questions as buttons, and files both ways."""

import hashlib
from pathlib import Path

from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest
from deerflow.testing import ScriptedModel, calling
from tests.channels.support import OWNER, ConnectedServer, CreateFake, connect, each_app

STRANGER = 66
ASKING = calling(
    "ask_clarification", question="Which colour?", clarification_type="approach_choice", options=["red", "blue"]
)
POLICY = "rules:\n  - name: writes\n    tool: write_file\n    outcome: ask\n    reason: changes a file\n"


async def wait_for_buttons(server: ConnectedServer) -> tuple[int, list[str]]:
    """Wait for a question; return its message and the data of its buttons. Previews have one button."""
    await server.wait(lambda: [message for message in server.fake.in_chat(OWNER) if len(message.buttons) > 1])
    message = next(message for message in server.fake.in_chat(OWNER) if len(message.buttons) > 1)
    return message.message_id, [button["callback_data"] for button in message.buttons]


@each_app
async def test_an_option_is_chosen_once_with_a_button(tmp_path: Path, create_fake: CreateFake) -> None:
    async with (
        create_fake() as fake,
        connect(tmp_path, fake, ScriptedModel.saying(ASKING, "Blue it is")) as server,
    ):
        fake.write("Paint it")
        message_id, (_, blue) = await wait_for_buttons(server)
        fake.press(message_id, blue)
        fake.press(message_id, blue)
        await server.wait(lambda: len(fake.pressed) == 2 and server.texts()[-1] == "Blue it is")
        await server.wait(lambda: not fake.messages[message_id].buttons)
        assert fake.pressed[1][1] == "This has been answered already."
        assert "blue – Person 7" in fake.messages[message_id].text


@each_app
async def test_a_question_that_was_answered_on_the_page_is_closed_in_the_chat(
    tmp_path: Path, create_fake: CreateFake
) -> None:
    async with create_fake() as fake, connect(tmp_path, fake, ScriptedModel.saying(ASKING, "Red")) as server:
        fake.write("Paint it")
        message_id, (red, _) = await wait_for_buttons(server)
        (thread,) = await server.harness.threads.search(LOCAL_USER, 10, 0)
        request = RunRequest(thread.thread_id, [{"type": "human", "content": "red"}])
        run = await server.harness.runs.create_or_reject(request, LOCAL_USER)
        await server.harness.runs.join(thread.thread_id, run.run_id, LOCAL_USER)
        fake.press(message_id, red)
        await server.wait(lambda: fake.pressed)
        assert fake.pressed[0][1] == "This has been answered already."


@each_app
async def test_only_the_owner_decides_and_only_in_their_chat(tmp_path: Path, create_fake: CreateFake) -> None:
    async with create_fake() as fake, connect(tmp_path, fake, ScriptedModel.saying(ASKING, "Red")) as server:
        fake.write("Paint it")
        message_id, (red, _) = await wait_for_buttons(server)
        fake.press(message_id, red, sender=STRANGER, chat=OWNER)
        fake.press(message_id, red, chat=-100)
        fake.press(message_id, red.split(":")[0] + ":7")
        await server.wait(lambda: len(fake.pressed) == 3)
        assert {text for _, text in fake.pressed} == {"Only the person who asked can press this."}
        fake.press(message_id, red)
        await server.wait(lambda: server.texts()[-1] == "Red")


@each_app
async def test_calls_are_approved_and_rejected_with_buttons(tmp_path: Path, create_fake: CreateFake) -> None:
    write = calling("write_file", description="d", path="/mnt/user-data/outputs/a.txt", content="text")
    model = ScriptedModel.saying(write, "Written", write, "Not written")
    (tmp_path / "policy.yaml").write_text(POLICY)
    settings = {"guardrails": {"policy": "policy.yaml"}}
    async with create_fake() as fake, connect(tmp_path, fake, model, **settings) as server:
        fake.write("Write it")
        message_id, (approve, _) = await wait_for_buttons(server)
        assert "write_file" in fake.messages[message_id].text
        fake.press(message_id, approve)
        await server.wait(lambda: "Written" in server.texts())
        await server.wait(lambda: "Allowed by Person 7" in fake.messages[message_id].text)
        fake.write("Again")
        message_id, (_, reject) = await wait_for_buttons(server)
        fake.press(message_id, reject)
        await server.wait(lambda: "Not written" in server.texts())


@each_app
async def test_files_are_the_same_byte_for_byte_both_ways(tmp_path: Path, create_fake: CreateFake) -> None:
    content = hashlib.sha256(b"seed").digest() * 40_000
    present = calling("present_files", filepaths=["/mnt/user-data/outputs/copy.bin"])
    copy = calling(
        "bash", description="copy", command="cp /mnt/user-data/uploads/data.bin /mnt/user-data/outputs/copy.bin"
    )
    async with (
        create_fake() as fake,
        connect(tmp_path, fake, ScriptedModel.saying(copy, present, "Done")) as server,
    ):
        fake.write("Copy it", document=("data.bin", content))
        await server.wait(lambda: [message for message in fake.in_chat(OWNER) if message.file])
        (sent,) = [message for message in fake.in_chat(OWNER) if message.file]
        assert (sent.file_name, sent.file) == ("copy.bin", content)

"""Approvals, questions and Stop as buttons of Slack, people who are not known, and files both ways."""

import hashlib
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from deerflow.channels import queries as rows
from deerflow.channels.adapter import ChannelRefused
from deerflow.channels.slack.api import SlackApi
from deerflow.domain.identity import LOCAL_USER
from deerflow.testing import ScriptedModel, Stall, calling
from deerflow.testing.channels.slack import APP_TOKEN, BOT_TOKEN, CHANNEL, DIRECT, FakeSlack
from deerflow.testing.channels.slack_workspace import SlackMessage
from deerflow.testing.turns import Answer
from tests.channels.attacks import ATTACKS, PRESSES
from tests.channels.support import SlackServer, connect_slack

MENTION, STRANGER = "<@UBOT>", "U66"
NOT_YOURS = "Only the person who asked can press this."
ASKING = calling(
    "ask_clarification", question="Which colour?", clarification_type="approach_choice", options=["red", "blue"]
)
POLICY = "rules:\n  - name: writes\n    tool: write_file\n    outcome: ask\n    reason: changes a file\n"


async def wait_for_question(server: SlackServer, chat: str, count: int = 2) -> tuple[SlackMessage, list[str]]:
    """Wait for a question; return its message and the values of its buttons."""

    def find() -> list[SlackMessage]:
        return [message for message in server.slack.in_chat(chat) if len(message.buttons) == count]

    await server.wait(find)
    return find()[0], [str(button["value"]) for button in find()[0].buttons]


@pytest.mark.parametrize("chat", [DIRECT, CHANNEL])
async def test_an_option_is_chosen_once_with_a_button(tmp_path: Path, chat: str) -> None:
    model = ScriptedModel.saying(ASKING, "Blue it is")
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, model) as server:
        await slack.write(f"{MENTION} Paint it", chat=chat)
        message, (_, blue) = await wait_for_question(server, chat)
        await slack.press(message, blue, sender=STRANGER)
        await slack.press(message, blue, chat="C9")
        await slack.press(message, blue.split(":")[0] + ":7")
        await server.wait(lambda: len(slack.ephemeral) == 3)
        assert {text for _, text in slack.ephemeral} == {NOT_YOURS}
        await slack.press(message, blue)
        await slack.press(message, blue)
        await server.wait(lambda: len(slack.ephemeral) == 5 and "Blue it is" in server.texts(chat))
        await server.wait(lambda: not message.buttons)
        assert slack.ephemeral[-1][1] == "This has been answered already."
        assert "blue – Person U7" in message.text


async def test_calls_are_approved_and_rejected_with_buttons(tmp_path: Path) -> None:
    write = calling("write_file", description="d", path="/mnt/user-data/outputs/a.txt", content="text")
    model = ScriptedModel.saying(write, "Written", write, "Not written")
    (tmp_path / "policy.yaml").write_text(POLICY)
    settings = {"guardrails": {"policy": "policy.yaml"}}
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, model, **settings) as server:
        await slack.write("Write it")
        message, (approve, _) = await wait_for_question(server, DIRECT)
        assert "write_file" in message.text
        await slack.press(message, approve)
        await server.wait(lambda: "Written" in server.texts() and "Allowed by Person U7" in message.text)
        await slack.write("Again")
        message, (_, reject) = await wait_for_question(server, DIRECT)
        await slack.press(message, reject)
        await server.wait(lambda: "Not written" in server.texts())


@pytest.mark.parametrize("chat", [DIRECT, CHANNEL])
async def test_an_answer_is_stopped_with_its_button_by_its_owner(tmp_path: Path, chat: str) -> None:
    model = ScriptedModel.saying(Stall(Answer("Thinking about it")))
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, model) as server:
        await slack.write(f"{MENTION} Hi", chat=chat)
        message, (stop,) = await wait_for_question(server, chat, 1)
        await slack.press(message, stop, sender=STRANGER)
        await server.wait(lambda: slack.ephemeral)
        assert slack.ephemeral == [(STRANGER, NOT_YOURS)]
        await slack.press(message, stop)
        await server.wait(lambda: message.text.endswith("Stopped.") and not message.buttons)


@pytest.mark.parametrize("chat", [f"D{STRANGER}", CHANNEL])
async def test_unknown_people_change_nothing(tmp_path: Path, chat: str) -> None:
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, ScriptedModel.saying("Answer")) as server:
        await server.ask("Hi")
        for text in (*ATTACKS, "!connect WRONGCODE2", "connect WRONGCODE2", "!new", f"{MENTION} Hi"):
            await slack.write(text, sender=STRANGER, chat=chat)
            await slack.write(text, sender=STRANGER, chat=chat, thread="1600000000.000001")
            await slack.command(text or "/", text, sender=STRANGER, chat=chat)
        for data in PRESSES:
            await slack.press(slack.in_chat(DIRECT)[0], data, sender=STRANGER, chat=chat)
        await server.wait(lambda: not slack.unacknowledged)
        assert server.texts() == ["Answer"]
        assert all("private chat" in text or "CODE" in text or "wrong" in text for text in server.texts(chat))
        assert {text for _, text in slack.ephemeral} <= {NOT_YOURS}
        people = await server.harness.core.database.read(partial(rows.list_people, owner=LOCAL_USER.user_id))
        assert people == [] and len(await server.harness.threads.search(LOCAL_USER, 10, 0)) == 1


@pytest.mark.parametrize("chat", [DIRECT, CHANNEL])
async def test_files_are_the_same_byte_for_byte_both_ways(tmp_path: Path, chat: str) -> None:
    content = hashlib.sha256(b"seed").digest() * 40_000
    present = calling("present_files", filepaths=["/mnt/user-data/outputs/copy.bin"])
    copy = calling(
        "bash", description="copy", command="cp /mnt/user-data/uploads/data.bin /mnt/user-data/outputs/copy.bin"
    )
    model = ScriptedModel.saying(copy, present, "Done")
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, model) as server:
        slack.faults.extend(["cut_after"] if chat == CHANNEL else [])
        root = await slack.write(f"{MENTION} Copy it", chat=chat, document=("data.bin", content))
        await server.wait(lambda: [message for message in slack.in_chat(chat) if message.file])
        (sent,) = [message for message in slack.in_chat(chat) if message.file]
        assert (sent.file_name, sent.file) == ("copy.bin", content)
        assert sent.thread == (root if chat == CHANNEL else "")


async def test_the_token_goes_to_servers_of_slack_only() -> None:
    api = SlackApi(BOT_TOKEN, APP_TOKEN)
    for url in ("https://evil.example/a", "http://files.slack.com/a", "https://slack.com.evil.example/a"):
        with pytest.raises(ChannelRefused, match="not on a server of Slack"):
            async for _ in api.download(url):
                pass
    await api.aclose()


async def test_the_official_client_understands_the_fake() -> None:
    """The SDK receives envelopes, streams, edits and uploads with the same server as our client."""
    from slack_sdk.socket_mode.aiohttp import SocketModeClient
    from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest
    from slack_sdk.socket_mode.response import SocketModeResponse
    from slack_sdk.web.async_client import AsyncWebClient

    async with FakeSlack() as slack, aiohttp.ClientSession() as session:
        web = AsyncWebClient(BOT_TOKEN, base_url=slack.base_url, session=session)
        client = SocketModeClient(APP_TOKEN, web_client=web)
        received: list[str] = []

        async def answer(socket: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
            received.append(request.payload["event"]["text"])
            await socket.send_socket_mode_response(SocketModeResponse(request.envelope_id))

        client.socket_mode_request_listeners.append(answer)
        try:
            await slack.write("Hi")
            await client.connect()
            await slack.wait_until(lambda: not slack.unacknowledged)
            stream = await web.chat_stream(
                channel=CHANNEL, thread_ts="1.2", recipient_user_id="U7", recipient_team_id="T1", buffer_size=1
            )
            await stream.append(markdown_text="Hello ")
            await stream.append(markdown_text="world")
            await stream.stop()
            await web.chat_update(channel=CHANNEL, ts=slack.in_chat(CHANNEL)[0].ts, text="Changed")
            await web.files_upload_v2(channel=CHANNEL, filename="a.bin", content=b"bytes")
        finally:
            await client.close()
        shown, uploaded = slack.in_chat(CHANNEL)
        assert received == ["Hi"] and shown.text == "Changed" and "Hello world" in shown.history
        assert (uploaded.file_name, uploaded.file) == ("a.bin", b"bytes")

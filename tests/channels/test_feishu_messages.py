"""Messages of Feishu: acknowledged when they are recorded, answered on cards that are always closed."""

import sys
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.channels import service
from deerflow.channels.adapter import ChatAddress, ChatButton
from deerflow.channels.feishu.api import FeishuApi
from deerflow.channels.feishu.cards import LIMITS, CardStreams, measure, split_text
from deerflow.domain.identity import LOCAL_USER
from deerflow.testing import ScriptedModel, Stall, calling
from deerflow.testing.channels.feishu import APP_ID, APP_SECRET, MAX_CARD_BYTES, FakeFeishu
from deerflow.testing.channels.server import Fault
from deerflow.testing.turns import Answer
from tests.channels.support import OWNER, connect

GROUP = -100
ADDRESS = ChatAddress("feishu", APP_ID, "7")
WORDS = tuple(f"word{at} " for at in range(40))


async def test_an_answer_is_streamed_to_one_card_which_is_closed(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Answer(WORDS, delay_s=0.05))
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, model, limits=LIMITS) as server:
        assert await server.ask("Hi") == ["".join(WORDS)]
        (card,) = feishu.cards.values()
        (message,) = feishu.messages.values()
        assert not card.is_streaming and card.message is message and message.buttons == []
        shown = [text for text in message.history if text != "…"]
        assert len(shown) > 1 and all(later.startswith(text) for text, later in zip(shown, shown[1:], strict=False))
        sequences = [call.parameters["sequence"] for call in feishu.calls if "sequence" in call.parameters]
        assert sequences == list(range(1, len(sequences) + 1))
        assert feishu.violations == []


async def test_a_stream_that_has_ended_after_ten_minutes_is_opened_again() -> None:
    now = 0.0
    async with FakeFeishu(clock=lambda: now) as feishu:
        api = FeishuApi(APP_ID, APP_SECRET, feishu.base_url)
        cards = CardStreams(api)
        try:
            card_id = await cards.create("One", ChatButton("Stop", "stop:1"), ADDRESS)
            content = orjson.dumps({"type": "card", "data": {"card_id": card_id}}).decode()
            body = {"msg_type": "interactive", "content": content, "receive_id": "7"}
            sent = await api.call("POST", "/open-apis/im/v1/messages", body, receive_id_type="chat_id")
            cards.note(sent["message_id"], card_id)
            for at in range(3):
                now += 660.0
                await cards.show(sent["message_id"], f"One two {at}")
                assert feishu.messages[sent["message_id"]].text == f"One two {at}"
                assert feishu.cards[card_id].is_streaming
            now += 660.0
            await cards.close(sent["message_id"], "The end", (), ADDRESS)
            assert feishu.messages[sent["message_id"]].text == "The end" and not feishu.cards[card_id].is_streaming
        finally:
            await api.aclose()


async def test_a_run_of_half_an_hour_with_twelve_minutes_of_silence_arrives_whole(tmp_path: Path) -> None:
    now = [0.0]
    model = ScriptedModel.saying(Answer((*WORDS, "end"), delay_s=0.05))
    fake = FakeFeishu(clock=lambda: now[0])
    async with fake as feishu, connect(tmp_path, feishu, model, limits=LIMITS) as server:
        feishu.write("Hi")
        for word in ("word2", "word12", "word22"):
            await server.wait(lambda word=word: any(word in message.text for message in feishu.in_chat(OWNER)))
            now[0] += 720.0
        await server.wait(lambda: server.texts() == ["".join(WORDS) + "end"])
        reopened = [call for call in feishu.calls if call.method.endswith("/settings")]
        assert reopened and len(feishu.messages) == 1 and feishu.violations == []
        assert not any(card.is_streaming for card in feishu.cards.values())


async def test_an_answer_is_stopped_with_the_button_of_its_card_by_its_owner_only(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Stall(Answer("Thinking about it")))
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, model) as server:
        feishu.write("Hi")
        await server.wait(lambda: any("Thinking" in message.text for message in feishu.in_chat(OWNER)))
        (message,) = feishu.in_chat(OWNER)
        stop = message.buttons[0]["callback_data"]
        feishu.press(message.message_id, stop, sender=66, chat=OWNER)
        await server.wait(lambda: len(feishu.pressed) == 1)
        feishu.press(message.message_id, stop)
        await server.wait(lambda: server.texts() and server.texts()[0].endswith("Stopped."))
        assert [text for _, text in feishu.pressed] == ["Only the person who asked can press this.", "Stopped."]


async def test_a_card_of_a_server_that_has_ended_is_closed_by_the_next(tmp_path: Path) -> None:
    async with FakeFeishu() as feishu:
        async with connect(tmp_path, feishu, ScriptedModel.saying(Stall(Answer("Thinking about it")))):
            feishu.write("Hi")
            await feishu.wait_until(lambda: any("Thinking" in each.text for each in feishu.in_chat(OWNER)))
            (card,) = feishu.cards.values()
            assert card.is_streaming
        async with connect(tmp_path, feishu, ScriptedModel.saying("The answer")) as server:
            await server.wait(lambda: server.texts())
            assert len(feishu.messages) == 1 and not any(each.is_streaming for each in feishu.cards.values())


@pytest.mark.parametrize("fault", ["cut_after", "cut_before", "server_error"])
async def test_a_message_with_an_unknown_outcome_is_sent_again_with_its_key(tmp_path: Path, fault: Fault) -> None:
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, ScriptedModel.saying("Answer", "Other")) as server:
        feishu.faults.append(fault)
        feishu.write("Hi")
        await server.wait(lambda: server.texts() == ["Answer"])
        feishu.faults.append(fault)
        assert "Idle" in (await server.ask("/status"))[-1]
        assert len(feishu.messages) == 2
        shown = [each.card_id for each in feishu.cards.values() if each.message is not None and each.is_streaming]
        assert shown == []


async def test_a_preview_that_was_deleted_is_sent_anew(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Answer((*WORDS, "end"), delay_s=0.05))
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, model) as server:
        feishu.write("Hi")
        await server.wait(lambda: feishu.messages)
        feishu.cards.clear()
        feishu.messages.clear()
        await server.wait(lambda: server.texts() and server.texts()[-1].endswith("end"))
        assert len(feishu.messages) == 1


async def test_events_in_several_frames_are_joined(tmp_path: Path) -> None:
    async with FakeFeishu(split=5) as feishu, connect(tmp_path, feishu, ScriptedModel.saying("Hello")) as server:
        assert await server.ask("你好") == ["Hello"]
        await server.wait(lambda: feishu.unconfirmed == 0)
        (thread,) = await server.harness.threads.search(LOCAL_USER, 10, 0)
        state = await server.harness.threads.state(thread.thread_id, LOCAL_USER)
        assert "你好" in str(orjson.loads(state.values))


async def test_events_that_are_sent_again_before_they_are_acknowledged_are_answered_once(tmp_path: Path) -> None:
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, ScriptedModel.saying("One", "Two")) as server:
        await server.wait(lambda: feishu.open)
        feishu.write("Hi")
        feishu.redeliver()
        feishu.redeliver()
        await server.wait(lambda: server.texts() == ["One"] and feishu.unconfirmed == 0)
        assert await server.ask("Next") == ["One", "Two"]


@pytest.mark.slow
async def test_a_burst_of_200_messages_is_acknowledged(tmp_path: Path) -> None:
    model = ScriptedModel.saying(*["Answer"] * 200)
    allowed = tuple(range(1, 201))
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, model, allowed=allowed, limit_s=250) as server:
        await server.wait(lambda: feishu.open)
        before = time.process_time()
        for sender in allowed:
            feishu.write("Hi", sender=sender)
        await server.wait(lambda: feishu.unconfirmed == 0)
        cpu_s = time.process_time() - before
        waits = sorted(feishu.acknowledged.values())
        sys.stderr.write(
            f"acknowledged {len(waits)}: p50 {waits[100]:.2f} s, p99 {waits[197]:.2f} s, {cpu_s:.2f} CPU s\n"
        )
        assert len(waits) == 200
        await server.wait(lambda: sum(map(len, map(server.texts, allowed))) == 200)


@pytest.mark.parametrize("code", range(1000, 1016))
async def test_the_connection_comes_back_after_every_close_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(service, "FIRST_RETRY_S", 0.01)
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, ScriptedModel.saying("Hello")) as server:
        await server.wait(lambda: feishu.open)
        await feishu.disconnect(code)
        await server.wait(lambda: feishu.connections == 2)
        assert await server.ask("Hi") == ["Hello"]


async def test_a_connection_whose_pings_are_not_answered_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "FIRST_RETRY_S", 0.01)
    async with FakeFeishu(ping_s=0.1) as feishu, connect(tmp_path, feishu, ScriptedModel.saying("Hello")) as server:
        await server.wait(lambda: feishu.pings > 2)
        feishu.is_mute = True
        await server.wait(lambda: feishu.connections > 1)
        assert server.connection.state.last_error == "Feishu does not answer pings"
        feishu.is_mute = False
        assert (await server.ask("Hi"))[-1] == "Hello"


async def test_a_token_that_is_not_accepted_is_replaced(tmp_path: Path) -> None:
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, ScriptedModel.saying("One", "Two")) as server:
        await server.ask("Hi")
        feishu.expire_token()
        assert await server.ask("Hi") == ["One", "Two"]
        assert feishu.tokens == 2


async def test_a_wrong_secret_is_reported_without_the_secret(tmp_path: Path) -> None:
    async with FakeFeishu() as feishu:
        api = FeishuApi(APP_ID, "wrong-secret", feishu.base_url)
        try:
            with pytest.raises(service.ChannelError, match="does not accept app_id and app_secret") as raised:
                await api.call("GET", "/open-apis/bot/v3/info")
            assert "wrong-secret" not in str(raised.value)
            with pytest.raises(service.ChannelError, match="opens no connection for the app") as raised:
                await api.find_endpoint()
            assert "wrong-secret" not in str(raised.value)
        finally:
            await api.aclose()


async def test_groups_are_answered_on_mention_only_and_topics_have_threads_of_their_own(tmp_path: Path) -> None:
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, ScriptedModel.saying("A", "B")) as server:
        feishu.write("Hi everybody", chat=GROUP)
        feishu.write("@deer_bot in the group", chat=GROUP)
        await server.wait(lambda: server.texts(GROUP) == ["A"])
        root = feishu.write("@deer_bot in a topic", chat=GROUP, thread_id="omt_1")
        await server.wait(lambda: server.texts(GROUP) == ["A", "B"])
        assert [message.topic for message in feishu.in_chat(GROUP)] == [None, root]
        assert len(await server.harness.threads.search(LOCAL_USER, 10, 0)) == 2


async def test_buttons_in_a_topic_belong_to_the_thread_of_the_topic(tmp_path: Path) -> None:
    asking = calling(
        "ask_clarification", question="Which?", clarification_type="approach_choice", options=["red", "blue"]
    )
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, ScriptedModel.saying(asking, "Blue")) as server:
        feishu.write("@deer_bot paint it", chat=GROUP, thread_id="omt_1")
        await server.wait(lambda: any(len(message.buttons) == 2 for message in feishu.in_chat(GROUP)))
        (message,) = [message for message in feishu.in_chat(GROUP) if len(message.buttons) == 2]
        feishu.press(message.message_id, message.buttons[1]["callback_data"], chat=GROUP)
        await server.wait(lambda: server.texts(GROUP)[-1] == "Blue")
        assert "blue – Person 7" in feishu.pressed[0][1]


async def test_posts_and_pictures_arrive_and_pictures_are_shown(tmp_path: Path) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
    copy = calling(
        "bash", description="copy", command="cp /mnt/user-data/uploads/photo-*.jpg /mnt/user-data/outputs/a.png"
    )
    present = calling("present_files", filepaths=["/mnt/user-data/outputs/a.png"])
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, ScriptedModel.saying(copy, present, "Done")) as server:
        lines: list[list[dict[str, Any]]] = [
            [{"tag": "text", "text": "Look at "}, {"tag": "a", "text": "this", "href": "https://example.com"}],
            [{"tag": "img", "image_key": "img_12345678"}],
        ]
        feishu.keep("om_9000", "img_12345678", picture)
        content = orjson.dumps({"title": "Title", "content": lines}).decode()
        feishu.write("", update_id=9000, message_type="post", content=content)
        await server.wait(lambda: [message for message in feishu.in_chat(OWNER) if message.file])
        (sent,) = [message for message in feishu.in_chat(OWNER) if message.file]
        assert (sent.file_name, sent.file) == ("a.png", picture)


STRANGE: list[tuple[str, Any]] = [
    ("im.message.receive_v1", {}),
    ("im.message.receive_v1", {"sender": None, "message": []}),
    ("im.message.receive_v1", {"sender": {"sender_type": "app"}, "message": {}}),
    ("card.action.trigger", {"operator": {"open_id": "7"}, "action": {"value": "x"}, "context": {}}),
    ("card.action.trigger", {"operator": {"open_id": "7"}, "action": {"value": {"data": 1}}}),
    ("contact.user.created_v3", {"object": {}}),
    ("im.chat.member.bot.added_v1", []),
]


async def test_events_that_cannot_be_read_are_acknowledged_and_do_nothing(tmp_path: Path) -> None:
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, ScriptedModel.saying("Hello")) as server:
        for kind, event in STRANGE:
            feishu.push(kind, event)
        feishu.write("", message_type="text", content="not JSON")
        await server.wait(lambda: feishu.unconfirmed == 0)
        assert await server.ask("Hi") == ["Hello"]
        assert feishu.connections == 1


async def test_forged_buttons_do_nothing(tmp_path: Path) -> None:
    asking = calling(
        "ask_clarification", question="Which?", clarification_type="approach_choice", options=["red", "blue"]
    )
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, ScriptedModel.saying(asking, "Red")) as server:
        feishu.write("Paint it")
        await server.wait(lambda: any(len(message.buttons) == 2 for message in feishu.in_chat(OWNER)))
        (message,) = [message for message in feishu.in_chat(OWNER) if len(message.buttons) == 2]
        data = message.buttons[0]["callback_data"]
        values = [{"data": data, "topic": "other"}, {"data": "x"}, {"data": ["a"]}, {"data": f"{data}7"}]
        for value in values:
            feishu.press(message.message_id, data, value=value)
        feishu.press(message.message_id, data, sender=66, chat=OWNER)
        feishu.press(message.message_id, data, sender=66, chat=66)
        feishu.press("om_other", data, chat=GROUP)
        await server.wait(lambda: feishu.unconfirmed == 0)
        assert {text for _, text in feishu.pressed} == {"Only the person who asked can press this."}
        assert len(feishu.pressed) == 7
        feishu.press(message.message_id, data)
        await server.wait(lambda: server.texts()[-1] == "Red")


async def test_long_texts_and_many_tables_are_split_into_cards_that_are_not_refused(tmp_path: Path) -> None:
    table = "| a | b |\n|---|:--|\n| 1 | 2 |"
    text = "\n\n".join([*[table] * 6, *['“你好”\\n"quoted" ' * 100] * 6, "```python\n" + "x = '\"'\n" * 1500 + "```"])
    parts = split_text(text)
    assert len(parts) > 3 and all(measure(part) <= 8000 for part in parts)
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, ScriptedModel.saying(text)) as server:
        feishu.write("Hi")
        await server.wait(lambda: len(server.texts()) == len(parts))
        assert [each.strip() for each in server.texts()] == [part.strip() for part in parts]
        assert all(len(orjson.dumps(part)) < MAX_CARD_BYTES for part in parts)


async def test_answers_mention_no_one(tmp_path: Path) -> None:
    text = "<at id=all></at> and <AT id='ou_1'>x</AT> but an <attribute>"
    async with FakeFeishu() as feishu, connect(tmp_path, feishu, ScriptedModel.saying(text)) as server:
        (shown,) = await server.ask("Hi")
        (message,) = feishu.messages.values()
        assert all("<at" not in each.lower().replace("<attr", "") for each in [*message.history, shown])
        assert shown.replace("\u200b", "") == text


async def test_the_measure_of_a_text_does_not_hold_the_server_up() -> None:
    # Each test watches for 100 ms without progress; these took minutes with a pattern that goes back and forth.
    assert measure("-" * 100_000 + "x|") == 100_002
    assert measure("|" + "- " * 50_000 + "x") == 100_002

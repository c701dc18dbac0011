"""A bot made with the official SDK of Feishu: run with its Python, the address of a server, app id and secret."""

import json
import sys

import lark_oapi as lark
from lark_oapi.api.cardkit.v1 import (
    ContentCardElementRequest,
    ContentCardElementRequestBody,
    CreateCardRequest,
    CreateCardRequestBody,
    SettingsCardRequest,
    SettingsCardRequestBody,
)
from lark_oapi.api.im.v1 import (
    CreateMessageRequest,
    CreateMessageRequestBody,
    P2ImMessageReceiveV1,
    ReplyMessageRequest,
    ReplyMessageRequestBody,
)
from lark_oapi.event.callback.model.p2_card_action_trigger import P2CardActionTrigger, P2CardActionTriggerResponse
from lark_oapi.ws.pb.pbbp2_pb2 import Frame

ADDRESS, APP_ID, SECRET = sys.argv[1:4]
DOMAIN = "https://open.feishu.cn" if ADDRESS == "frames" else ADDRESS
CARD = {
    "schema": "2.0",
    "config": {"streaming_mode": True},
    "body": {"elements": [{"tag": "markdown", "content": "", "element_id": "text"}]},
}
client = lark.Client.builder().app_id(APP_ID).app_secret(SECRET).domain(DOMAIN).build()
failed: set[str] = set()


def check(response: object) -> object:
    """Return the data of a response, or end with its error."""
    if not response.success():  # type: ignore[attr-defined]
        raise SystemExit(f"{response.code} {response.msg}")  # type: ignore[attr-defined]
    return getattr(response, "data", None)


def receive(event: P2ImMessageReceiveV1) -> None:
    """Reply, and stream a card; fail once with messages that ask for it."""
    message = event.event.message
    text = json.loads(message.content)["text"]
    if text == "fail" and message.message_id not in failed:
        failed.add(message.message_id)
        raise ValueError("not recorded")
    body = ReplyMessageRequestBody.builder().msg_type("interactive").content(json.dumps(show(f"Echo {text}")))
    request = ReplyMessageRequest.builder().message_id(message.message_id).request_body(body.uuid(text[:50]).build())
    check(client.im.v1.message.reply(request.build()))
    if text == "stream":
        stream(message.chat_id)


def show(text: str) -> dict[str, object]:
    """Return a card with a text."""
    return {"schema": "2.0", "config": {}, "body": {"elements": [{"tag": "markdown", "content": text}]}}


def stream(chat_id: str) -> None:
    """Send a card, change its text three times and close it."""
    body = CreateCardRequestBody.builder().type("card_json").data(json.dumps(CARD)).build()
    card_id = check(client.cardkit.v1.card.create(CreateCardRequest.builder().request_body(body).build())).card_id
    content = json.dumps({"type": "card", "data": {"card_id": card_id}})
    message = CreateMessageRequestBody.builder().receive_id(chat_id).msg_type("interactive").content(content).build()
    sending = CreateMessageRequest.builder().receive_id_type("chat_id").request_body(message).build()
    check(client.im.v1.message.create(sending))
    for at in range(1, 4):
        change = ContentCardElementRequestBody.builder().content("word " * at).sequence(at).build()
        request = ContentCardElementRequest.builder().card_id(card_id).element_id("text").request_body(change).build()
        check(client.cardkit.v1.card_element.content(request))
    closed = SettingsCardRequestBody.builder().settings(json.dumps({"config": {"streaming_mode": False}}))
    request = SettingsCardRequest.builder().card_id(card_id).request_body(closed.sequence(4).build()).build()
    check(client.cardkit.v1.card.settings(request))


def press(event: P2CardActionTrigger) -> P2CardActionTriggerResponse:
    """Answer a pressed button."""
    text = f"Pressed {event.event.action.value['data']}"
    return P2CardActionTriggerResponse({"toast": {"type": "info", "content": text}})


def repeat_frames() -> None:
    """Write each frame of the input as the SDK reads it."""
    for line in sys.stdin:
        frame = Frame()
        frame.ParseFromString(bytes.fromhex(line))
        sys.stdout.write(frame.SerializeToString().hex() + "\n")


if ADDRESS == "frames":
    repeat_frames()
else:
    handler = lark.EventDispatcherHandler.builder("", "").register_p2_im_message_receive_v1(receive)
    events = handler.register_p2_card_action_trigger(press).build()
    lark.ws.Client(APP_ID, SECRET, event_handler=events, domain=ADDRESS).start()

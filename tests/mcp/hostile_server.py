"""An MCP server that misbehaves as its arguments say; a program of its own that needs nothing but Python."""

import json
import os
import socket
import sys
import time

MODES = set(sys.argv[1:])
TOOLS = {
    "echo": "Say it again.",
    "crash": "End at once.",
    "hang": "Never answer.",
    "flood": "Answer with 100 MB.",
    "garbage": "Print what is no message.",
    "grow": "Have one tool more from now on.",
    "peek": "Read a file of this machine.",
    "dial": "Connect to a host.",
    "environment": "Tell the variables.",
    "seen": "Tell what was cancelled.",
    "ask": "Ask the user for a name, then for a colour.",
    "steps": "Tell of progress.",
    "refuse": "Report an error.",
    "picture": "Show an image, a link and data.",
}
CANCELLED: list[object] = []


def say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(number: object, result: dict[str, object]) -> None:
    say({"id": number, "result": result})


def text(said: str, **more: object) -> dict[str, object]:
    return {"content": [{"type": "text", "text": said}], **more}


def tools() -> list[dict[str, object]]:
    schema = {"type": "object", "properties": {"value": {"type": "string"}}}
    return [{"name": name, "description": about, "inputSchema": schema} for name, about in TOOLS.items()]


def receive() -> dict[str, object]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def ask(message: str, field: str) -> object:
    schema = {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}
    say({"id": f"q-{field}", "method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}})
    while (heard := receive()).get("id") != f"q-{field}":
        pass
    result = heard["result"]
    return result.get("content", {}).get(field, "") if result["action"] == "accept" else result["action"]


def call(number: object, name: str, value: str, token: object) -> None:
    if name == "crash":
        print("something inside is broken", file=sys.stderr, flush=True)
        os._exit(3)
    elif name == "hang":
        return
    elif name == "flood":
        sys.stdout.write('{"jsonrpc": "2.0", "id": %s, "result": {"content": [{"type": "text", "text": "' % number)
        for _ in range(1600):
            sys.stdout.write("x" * 65536)
        sys.stdout.write('"}]}}\n')
        sys.stdout.flush()
    elif name == "garbage":
        print("this is no message")
        answer(number, text("after garbage"))
    elif name == "grow":
        TOOLS["more"] = "It was not there before."
        say({"method": "notifications/tools/list_changed"})
        answer(number, text("grown"))
    elif name == "peek":
        try:
            answer(number, text(open(value).read()[:200]))
        except OSError as problem:
            answer(number, text(f"refused: {problem}", isError=True))
    elif name == "dial":
        try:
            host, port = value.split(":")
            socket.create_connection((host, int(port)), timeout=3).close()
            answer(number, text("connected"))
        except OSError as problem:
            answer(number, text(f"refused: {problem}", isError=True))
    elif name == "environment":
        answer(number, text(json.dumps({"uid": os.getuid(), **os.environ})))
    elif name == "seen":
        answer(number, text(json.dumps(CANCELLED)))
    elif name == "ask":
        who = ask("What is your name?", "name")
        answer(number, text(f"{who} likes {ask('Which colour?', 'colour')}"))
    elif name == "steps":
        for step in (1, 2):
            params = {"progressToken": token, "progress": step, "total": 2, "message": f"step {step}"}
            say({"method": "notifications/progress", "params": params})
        answer(number, text("done"))
    elif name == "refuse":
        answer(number, text("no such city", isError=True))
    elif name == "picture":
        pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        content = [
            {"type": "image", "data": pixel, "mimeType": "image/png"},
            {"type": "resource_link", "uri": "https://example.org/secret.png", "name": "x", "mimeType": "image/png"},
        ]
        answer(number, {"content": content, "structuredContent": {"width": 1}})
    else:
        answer(number, text(f"echo: {value}"))


def main() -> None:
    if "crash-at-once" in MODES:
        sys.exit("cannot find my settings")
    if "garbage-for-ever" in MODES:
        while True:
            print("welcome to my shiny server!", flush=True)
            time.sleep(0.001)
    while True:
        heard = receive()
        method, number, params = heard.get("method"), heard.get("id"), heard.get("params") or {}
        if method == "initialize":
            if "hang-at-init" in MODES:
                continue
            told = {"name": "hostile", "version": "1"}
            can = {"tools": {"listChanged": True}}
            version = params["protocolVersion"]
            answer(number, {"protocolVersion": version, "capabilities": can, "serverInfo": told})
        elif method == "tools/list":
            answer(number, {"tools": tools()})
        elif method == "tools/call":
            token = (params.get("_meta") or {}).get("progressToken")
            call(number, params["name"], (params.get("arguments") or {}).get("value", ""), token)
        elif method == "notifications/cancelled":
            CANCELLED.append(params.get("requestId"))
        elif number is not None:
            answer(number, {})


main()

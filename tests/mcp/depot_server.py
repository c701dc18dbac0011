"""MCP server with three hundred tools; a script without dependencies."""

import json
import sys

TOOLS = [f"part_{number:03}" for number in range(300)]
SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer", "description": "How many of them."}}}


def answer(heard: dict[str, object]) -> dict[str, object]:
    method, params = heard["method"], heard.get("params") or {}
    if method == "initialize":
        info = {"name": "depot", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        about = "Fetch this part from the depot, with its weight and the shelf it lies on."
        return {"tools": [{"name": name, "description": about, "inputSchema": SCHEMA} for name in TOOLS]}
    if method == "tools/call":
        amount = (params.get("arguments") or {}).get("amount", 1)
        return {"content": [{"type": "text", "text": f"{amount} of {params['name']}"}]}
    return {}


for line in sys.stdin:
    heard = json.loads(line)
    if "id" in heard and "method" in heard:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": heard["id"], "result": answer(heard)}) + "\n")
        sys.stdout.flush()

"""MCP: configure a server and use its tool. The server runs in a sandbox without network."""

import json
import sys
from pathlib import Path

from deerflow.client import DeerFlowClient
from deerflow.testing import ScriptedModel, calling

SERVER = str(Path(__file__).with_name("mcp_server.py"))

entry = {"command": sys.executable, "args": [SERVER], "paths": [SERVER]}
Path("extensions_config.json").write_text(json.dumps({"mcpServers": {"weather": entry}}))

# Remove `model=` to use the model of your configuration.
model = ScriptedModel.saying(calling("weather_forecast", city="Oslo"), "Take an umbrella.")

with DeerFlowClient(model=model) as client:
    server = client.mcp.reconnect("weather")
    print("Server:", server["state"], [tool["name"] for tool in server["tools"]])
    print("Answer:", client.chat("Do I need an umbrella in Oslo?"))

print("Tool result:", model.requests[1].messages[-1].text)

"""A provider of pictures on this machine, for as long as a command runs: fake_provider.py COMMAND …"""

import base64
import io
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from PIL import Image


class Provider(BaseHTTPRequestHandler):
    """Busy at first, then a picture of the size asked for; the key must be right."""

    busy = [True]  # noqa: RUF012 - shared on purpose: the first request of all is put off

    def do_POST(self) -> None:
        """Answer a request for a picture."""
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers["authorization"] != "Bearer right":
            self.answer(401, {"error": {"message": f"bad key {self.headers['authorization'].split()[-1]}"}})
        elif self.busy:
            self.busy.clear()
            self.answer(429, {"error": {"message": "slow down"}})
        elif self.path == "/v1/images/edits":
            self.answer(200, {"data": [{"b64_json": picture(64, 48, (0, 128, 0)), "form": len(body)}]})
        else:
            request = json.loads(body)
            wide, high = map(int, request.get("size", "64x64").split("x"))
            self.answer(200, {"data": [{"b64_json": picture(wide, high, (200, 30, 30))}] * request["n"]})

    def answer(self, status: int, content: object) -> None:
        """Send JSON."""
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


def picture(wide: int, high: int, colour: tuple[int, int, int]) -> str:
    """A picture as it is sent."""
    buffer = io.BytesIO()
    Image.new("RGB", (wide, high), colour).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def main() -> int:
    """Serve while the command runs; its exit code."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}/v1"
    return subprocess.run(sys.argv[1:], env={**os.environ, "IMAGE_API_BASE_URL": base}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

"""A provider of videos on this machine, for as long as a command runs: fake_provider.py COMMAND …"""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VIDEO = b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom" + b"\x00\x00\x00\x08mdat"


class Provider(BaseHTTPRequestHandler):
    """Each job is queued, then half done, then finished; a prompt that forbids itself fails."""

    looks: dict[str, int] = {}  # noqa: RUF012 - shared on purpose: how often each job was asked for

    def do_POST(self) -> None:
        """Take a job."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers["authorization"] != "Bearer right":
            return self.answer(401, {"error": {"message": f"bad key {self.headers['authorization'].split()[-1]}"}})
        job = "bad" if "forbidden" in request["prompt"] else f"job-{len(self.looks) + 1}"
        self.looks[job] = 0
        return self.answer(200, {"id": job, "status": "queued"})

    def do_GET(self) -> None:
        """Tell how a job is, or give its video."""
        job = self.path.split("/")[3]
        if self.path.endswith("/content"):
            return self.reply(200, VIDEO)
        self.looks[job] = self.looks.get(job, 0) + 1
        if job == "bad":
            return self.answer(200, {"status": "failed", "error": {"message": "the prompt is not allowed"}})
        if self.looks[job] < 3:
            return self.answer(200, {"status": "in_progress", "progress": 50 * (self.looks[job] - 1)})
        return self.answer(200, {"status": "completed"})

    def answer(self, status: int, content: object) -> None:
        """Send JSON."""
        self.reply(status, json.dumps(content).encode())

    def reply(self, status: int, data: bytes) -> None:
        """Send bytes."""
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


def main() -> int:
    """Serve while the command runs; its exit code."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}/v1"
    return subprocess.run(sys.argv[1:], env={**os.environ, "VIDEO_API_BASE_URL": base}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

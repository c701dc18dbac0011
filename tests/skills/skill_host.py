"""Host of Git repositories and archives on this machine, and an egress that resolves every name to it."""

import asyncio
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from deerflow.community.web.http import TlsTrust
from deerflow.sandbox.egress import Egress, IPAddress, Streams
from deerflow.skills.authoring.download import DownloadLimits, SkillDownloader

SKILL = "---\nname: tea\ndescription: Brews tea.\n---\n{body}\n"
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
REPOSITORY, ARCHIVE = "http://git.example.org/tea.git", "http://git.example.org/files/tea.skill"


@dataclass
class SkillHost:
    """Files to serve and the requests so far."""

    root: Path
    port: int = 0
    requests: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)

    def commit(self, files: dict[str, str], name: str = "tea") -> str:
        """Commit files to a repository and return the commit."""
        work = self.root / "work" / name
        work.mkdir(parents=True, exist_ok=True)
        if not (work / ".git").exists():
            self.git(work, "init", "-q")
        for path, content in files.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_text(content)
        self.git(work, "add", "--all")
        self.git(work, "commit", "-q", "-m", "change")
        return self.git(work, "rev-parse", "HEAD").strip()

    def git(self, work: Path, *arguments: str) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.root), "GIT_CONFIG_NOSYSTEM": "1"}  # noqa: TID251
        command = ["git", *IDENTITY, *arguments]
        return subprocess.run(
            command, cwd=work, env=environment, check=True, capture_output=True, text=True, timeout=20
        ).stdout

    def downloader(self, limits: DownloadLimits = DownloadLimits(), certificate: Path | None = None) -> SkillDownloader:
        """Return a downloader for which every host is this one, and which trusts a certificate."""

        async def resolve(host: str) -> Sequence[str]:
            return ["127.0.0.1"]

        async def dial(addresses: Sequence[IPAddress], port: int) -> Streams:
            return await asyncio.open_connection("127.0.0.1", self.port)

        trust = TlsTrust()
        if certificate is not None:
            trust._context = ssl.create_default_context(cafile=str(certificate))
        schemes, trusted = frozenset({"http", "https"}), str(certificate) if certificate else None
        return SkillDownloader(Egress(resolve, lambda _: True, dial), limits, schemes, trust, trusted)


class Handler(BaseHTTPRequestHandler):
    """Serves `git http-backend`, files and redirects."""

    host: ClassVar[SkillHost]

    def do_GET(self) -> None:
        self.serve(b"")

    def do_POST(self) -> None:
        self.serve(self.rfile.read(int(self.headers.get("content-length", 0))))

    def serve(self, body: bytes) -> None:
        url = urlsplit(self.path)
        self.host.requests.append(url.path)
        if target := self.host.redirects.get(url.path):
            self.answer(b"Status: 302 Found\r\nLocation: " + target.encode(), b"")
        elif (content := self.host.files.get(url.path)) is not None:
            self.answer(b"Status: 200 OK", content)
        else:
            head, _, content = self.run_backend(url.path, url.query, body).partition(b"\r\n\r\n")
            self.answer(head, content)

    def run_backend(self, path: str, query: str, body: bytes) -> bytes:
        environment = {
            "PATH": os.environ["PATH"],  # noqa: TID251
            "GIT_PROJECT_ROOT": str(self.host.root / "work"),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path.replace(".git/", "/.git/", 1),
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, env=environment, capture_output=True, timeout=20, check=False
        )
        return done.stdout

    def answer(self, head: bytes, content: bytes) -> None:
        headers = [line.partition(": ") for line in head.decode().splitlines() if line]
        status = next((int(value.split()[0]) for name, _, value in headers if name == "Status"), 200)
        self.send_response(status)
        for name, _, value in headers:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def open_skill_host(
    root: Path, certificate: Path | None = None, address: tuple[str, int] = ("127.0.0.1", 0)
) -> Iterator[SkillHost]:
    """Serve a new host, on a free port unless `address` has one; with a certificate by TLS."""
    host = SkillHost(root)
    server = ThreadingHTTPServer(address, type("BoundHandler", (Handler,), {"host": host}))
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    host.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield host
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()

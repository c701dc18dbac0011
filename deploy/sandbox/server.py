"""The server in a sandbox container: commands and files over HTTP, for whoever knows the token.

It speaks the part of the AIO sandbox API that DeerFlow uses, and a little more below `/v1/deerflow`. Standard library
only. A client that hangs up ends the command it was waiting for.
"""

import asyncio
import base64
import codecs
import errno
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing, suppress
from itertools import islice
from pathlib import Path

import files
from commands import BackgroundCommands, Commands, Order, confine
from egress import Egress, carry
from wire import Answer, Body, Connection, Json, Refused, Request, done, failed

API_VERSION = 1
TOKEN = "DEERFLOW_SANDBOX_TOKEN"
PORT = "DEERFLOW_SANDBOX_PORT"
HOST = "DEERFLOW_SANDBOX_HOST"
FILTERS = "DEERFLOW_SANDBOX_FILTERS"
WORKSPACE = "/mnt/user-data/workspace"
OWN = {
    "HOME": f"{WORKSPACE}/.home",
    "USER": "agent",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "TMPDIR": "/tmp",
}
HIDDEN = (TOKEN, HOST, PORT, FILTERS, "HOSTNAME", "HOME", "TERM", "container")
"""What engines and we tell the server, and commands need not know."""
MAX_RESULTS = 10_000
DEFAULT_TIMEOUT_S = 600.0
DEFAULT_OUTPUT = 256 * 1024
GAP = "\n[… {left_out} bytes left out …]\n"


class Api:
    """What can be asked for."""

    def __init__(self, commands: Commands) -> None:
        self.commands = commands
        self.background = BackgroundCommands(commands)
        self.egress = Egress()
        self.routes: dict[tuple[str, str], Callable[[Request], Awaitable[Answer]]] = {
            ("GET", "/v1/sandbox"): self.describe,
            ("POST", "/v1/shell/exec"): self.shell_exec,
            ("POST", "/v1/bash/exec"): self.bash_exec,
            ("POST", "/v1/file/read"): self.read,
            ("POST", "/v1/file/write"): self.write,
            ("GET", "/v1/file/download"): self.download,
            ("POST", "/v1/file/find"): self.find,
            ("POST", "/v1/file/list"): self.list,
            ("POST", "/v1/file/grep"): self.grep,
            ("POST", "/v1/deerflow/run"): self.run,
            ("POST", "/v1/deerflow/egress"): self.fetch_egress,
            ("GET", "/v1/deerflow/processes"): self.processes,
            ("POST", "/v1/deerflow/processes/start"): self.start_process,
            ("POST", "/v1/deerflow/processes/output"): self.process_output,
            ("POST", "/v1/deerflow/processes/kill"): self.kill_process,
        }

    async def answer(self, request: Request) -> Answer:
        """Do what `request` asks for."""
        handler = self.routes.get((request.method, request.path))
        try:
            if handler is None:
                raise Refused(404, f"there is no {request.method} {request.path}")
            return await handler(request)
        except Refused as refusal:
            return failed(refusal.status, str(refusal))
        except OSError as problem:
            return failed(422, problem.strerror or str(problem), errno=errno.errorcode.get(problem.errno or 0, ""))
        except ValueError as problem:  # a bad pattern, or what cannot be said in a name or an argument
            return failed(422, str(problem))

    async def describe(self, request: Request) -> Answer:
        """That the server is there, and what it is."""
        return done({}, home_dir=WORKSPACE, version="deerflow", deerflow=API_VERSION)

    async def run(self, request: Request) -> Answer:
        """A command whose output is told line by line while it comes."""
        return Answer(self._pieces(read_order(Body(request))), kind="application/x-ndjson")

    async def shell_exec(self, request: Request) -> Answer:
        """A command, told when it has ended."""
        said, ended = await self._run_to_end(request)
        status = "hard_timeout" if ended["timed_out"] else "completed"
        return done({"output": said, "exit_code": ended["exit_code"], "status": status})

    async def bash_exec(self, request: Request) -> Answer:
        """The same with variables; both streams are told as one, in the order they came."""
        said, ended = await self._run_to_end(request)
        status = "timed_out" if ended["timed_out"] else "completed"
        return done({"stdout": said, "stderr": "", "exit_code": ended["exit_code"], "status": status})

    async def _run_to_end(self, request: Request) -> tuple[str, Json]:
        *pieces, last = [piece async for piece in self._pieces(read_order(Body(request)))]
        if "problem" in last:
            raise Refused(422, last["problem"])
        return "".join(GAP.format(**piece) if "left_out" in piece else piece["output"] for piece in pieces), last

    async def _pieces(self, order: Order) -> AsyncGenerator[Json, None]:
        """What a command prints, where something is left out of it, and at last how it ended."""
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        try:
            async with aclosing(self.commands.run(order)) as running:
                async for piece in running:
                    if isinstance(piece, bytes):
                        yield {"output": decode(piece)}
                        continue
                    if piece.left_out:
                        yield {"output": decode(b"", final=True)}
                        yield {"left_out": piece.left_out}
                    yield {"output": decode(piece.tail, final=True)}
                    yield {"exit_code": piece.exit_code, "timed_out": piece.timed_out}
        except (OSError, ValueError) as problem:
            yield {"problem": f"the command could not be started: {problem}"}

    async def read(self, request: Request) -> Answer:
        """Lines of a text file."""
        body = Body(request)
        content = await asyncio.to_thread(files.read, body("file", str))
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise Refused(422, "the file is not UTF-8 text; download it") from None
        start, end = body("start_line", int, None), body("end_line", int, None)
        if start is not None or end is not None:
            text = "".join(text.splitlines(keepends=True)[start:end])
        return done({"content": text, "file": body("file", str)})

    async def write(self, request: Request) -> Answer:
        """Make, replace or lengthen a file."""
        body = Body(request)
        content = body("content", str).encode()
        if body("encoding", str, "utf-8") == "base64":
            try:
                content = base64.b64decode(content, validate=True)
            except ValueError:
                raise Refused(400, "'content' is not base64") from None
        await asyncio.to_thread(files.write, body("file", str), content, body("append", bool, False))
        return done({"file": body("file", str), "bytes_written": len(content)})

    async def download(self, request: Request) -> Answer:
        """The bytes of a file."""
        content = await asyncio.to_thread(files.read, request.query.get("path", ""))
        return Answer(content, kind="application/octet-stream")

    async def list(self, request: Request) -> Answer:
        """What is in a folder."""
        body = Body(request)
        depth = body("max_depth", int, 64) if body("recursive", bool, False) else 1
        limit = min(body("max_results", int, MAX_RESULTS), MAX_RESULTS)
        walked = files.walk(body("path", str), depth)
        found = await asyncio.to_thread(lambda: list(islice(walked, limit + 1)))
        shown = [entry.describe() for entry in found[:limit]]
        return done({"path": body("path", str), "files": shown, "truncated": len(found) > limit})

    async def find(self, request: Request) -> Answer:
        """Files, and folders if so wished, whose path matches a pattern."""
        body = Body(request)
        limit = min(body("max_results", int, MAX_RESULTS), MAX_RESULTS)
        path, folders = body("path", str), body("include_dirs", bool, False)
        found = await files.find(self.commands, path, body("glob", str), folders, limit)
        return done({"path": path, "files": found[:limit], "truncated": len(found) > limit})

    async def grep(self, request: Request) -> Answer:
        """Lines that match a pattern."""
        body = Body(request)
        search = files.Search(
            path=body("path", str),
            pattern=body("pattern", str),
            include=body("include", list, []),
            fixed=body("fixed_strings", bool, False),
            ignore_case=body("case_insensitive", bool, False),
            max_results=min(body("max_results", int, MAX_RESULTS), MAX_RESULTS),
        )
        found, limit = await files.grep(self.commands, search), search.max_results
        return done({"matches": found[:limit], "truncated": len(found) > limit})

    async def fetch_egress(self, request: Request) -> Answer:
        """The next connection that a command makes to the proxy, carried on by this one."""
        command = await self.egress.fetch()
        return Answer(b"", status=101, take_over=lambda outside: carry(command, outside))

    async def processes(self, request: Request) -> Answer:
        """The background processes, oldest first."""
        return done({"processes": [each.describe() for each in self.background.by_name.values()]})

    async def start_process(self, request: Request) -> Answer:
        """Start a background process."""
        body = Body(request)
        env = {name: str(value) for name, value in body("env", dict, {}).items()}
        try:
            problem = await self.background.start(body("name", str), body("command", str), env, body("at_most", int))
        except OSError as failure:
            problem = f"the command could not be started: {failure}"
        if problem:
            raise Refused(409, problem)
        return done({})

    async def process_output(self, request: Request) -> Answer:
        """What a background process has printed since this was last asked."""
        return self._told(Body(request)("name", str))

    async def kill_process(self, request: Request) -> Answer:
        """End a background process."""
        name = Body(request)("name", str)
        if process := self.background.by_name.get(name):
            await self.background.kill(process)
        return self._told(name)

    def _told(self, name: str) -> Answer:
        process = self.background.by_name.get(name)
        if process is None:
            raise Refused(409, f"there is no background process {name!r}")
        left_out, output = process.tail.take()
        return done({**process.describe(), "output": output.decode(errors="replace"), "truncated": left_out > 0})


def read_order(body: Body) -> Order:
    """The command in a request."""
    return Order(
        command=body("command", str),
        env={name: str(value) for name, value in body("env", dict, {}).items()},
        directory=body("exec_dir", str, None),
        timeout_s=body("hard_timeout", float, None) or body("timeout", float, DEFAULT_TIMEOUT_S),
        kept_bytes=body("max_output", int, DEFAULT_OUTPUT),
    )


def without(names: Collection[str], variables: Mapping[str, str]) -> dict[str, str]:
    """All variables but these."""
    return {name: value for name, value in variables.items() if name not in names}


async def main(environment: Mapping[str, str]) -> None:
    """Serve until the container is stopped."""
    settings = {TOKEN: "", HOST: "127.0.0.1", PORT: "8080", FILTERS: "", **environment}
    if not settings[TOKEN]:
        sys.exit(f"{TOKEN} has to be set: whoever knows it may run commands here")
    with suppress(OSError):  # whoever mounts the workspace may have made it, or not want it
        os.makedirs(OWN["HOME"], exist_ok=True)  # noqa: PTH103 - nobody is waiting yet
    commands = Commands(Path(WORKSPACE), {**OWN, **without(HIDDEN, environment)})
    commands.watch()
    confine([bytes.fromhex(each) for each in settings[FILTERS].split(",") if each])
    api = Api(commands)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, sys.exit, 0)
    await api.egress.listen()
    server = await loop.create_server(
        lambda: Connection(api.answer, settings[TOKEN]), settings[HOST], int(settings[PORT])
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(dict(os.environ)))  # noqa: TID251 - nothing of the project's configuration is in this container

"""Escape attempts that involve the server: file tools, limits, proxy, and remaining processes."""

# ruff: noqa: E501 (tables of command lines)

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from secrets import token_hex

from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.files import OUTPUTS, WORKSPACE
from deerflow.domain.sandbox import Sandbox
from tests.sandbox.escape_attempts import py
from tests.sandbox.escape_environment import EscapeEnvironment, HostAttempt, Verdict, main
from tests.sandbox.processes import find_processes, find_survivors, make_marker, wait_for_processes

LIMIT_S = 15.0


async def refused(world: EscapeEnvironment, *attempts: Awaitable[object]) -> str:
    """Return what was reached if one of these host accesses succeeded or revealed the secret."""
    reached = []
    for attempt in attempts:
        try:
            async with asyncio.timeout(10):
                reached.append(f"went through: {str(await attempt)[:200]!r}")
        except (FileProblem, SandboxError) as problem:
            reached.append(world.harm(str(problem)))
    return ", ".join(filter(None, reached))


async def run_shell(sandbox: Sandbox, command: str, timeout_s: float = LIMIT_S) -> str:
    result = await sandbox.execute_command(command, timeout_s=timeout_s)
    return f"{result.output[-1000:]}[{result.exit_code}]"


# Links and other things that are no plain files, put where tools of the host will look.


async def link_to(target: str, world: EscapeEnvironment) -> Verdict:
    """A link is not read, written, listed or searched through."""
    sandbox = await world.sandbox("links")
    target = world.fill(target)
    path = f"{WORKSPACE}/link"
    await run_shell(sandbox, f"rm -rf link inside.py; ln -s {target} link; ln -sf mine.txt inner")
    reached = await refused(
        world,
        sandbox.read_file(path),
        sandbox.download(path),
        sandbox.write_file(path, "overwritten"),
        sandbox.write_file(path, "appended", append=True),
        sandbox.read_file(f"{path}/deerflow.db"),
        sandbox.write_file(f"{path}/new.txt", "x"),
        sandbox.list_dir(path),
        sandbox.grep(path, "."),
        sandbox.glob(path, "*"),
    )
    searches = (sandbox.grep(WORKSPACE, "."), sandbox.glob(WORKSPACE, "**"), sandbox.list_dir(WORKSPACE))
    seen = str([await search for search in searches])
    works = await sandbox.read_file(f"{WORKSPACE}/inner") == "mine alone\n"
    return Verdict(reached or world.harm(seen), works and not (world.home / "new.txt").exists(), seen[-500:])


async def odd_file(make: str, world: EscapeEnvironment) -> Verdict:
    """Special files are not read or written, and do not block."""
    sandbox = await world.sandbox("odd")
    path = f"{WORKSPACE}/odd"
    made = await run_shell(sandbox, f"rm -rf odd; {make}")
    reached = await refused(
        world,
        sandbox.read_file(path),
        sandbox.download(path),
        sandbox.write_file(path, "overwritten"),
        sandbox.write_file(path, "appended", append=True),
    )
    async with asyncio.timeout(10):
        await sandbox.grep(WORKSPACE, "anything")
    works = await sandbox.read_file(f"{WORKSPACE}/mine.txt") == "mine alone\n"
    return Verdict(reached, works and made.endswith("[0]"), made)


async def swapped_folder(world: EscapeEnvironment) -> Verdict:
    """A folder swapped for a link after a write is not written again."""
    sandbox = await world.sandbox("swapped")
    await sandbox.write_file(f"{OUTPUTS}/folder/file.txt", "one")
    await run_shell(sandbox, f"cd {OUTPUTS} && rm -r folder && ln -s {world.home} folder")
    reached = await refused(
        world,
        sandbox.write_file(f"{OUTPUTS}/folder/file.txt", "two"),
        sandbox.update_file(f"{OUTPUTS}/folder/a/b", b"x"),
    )
    outside = [name for name in ("file.txt", "a") if (world.home / name).exists()]
    await run_shell(sandbox, f"cd {OUTPUTS} && rm folder")
    await sandbox.write_file(f"{OUTPUTS}/folder/file.txt", "three")
    return Verdict(
        reached or ", ".join(outside), await run_shell(sandbox, f"cat {OUTPUTS}/folder/file.txt") == "three[0]"
    )


async def root_program(world: EscapeEnvironment) -> Verdict:
    """A program written by host tools does not belong to root."""
    sandbox = await world.sandbox("owner")
    await sandbox.update_file(f"{WORKSPACE}/program", b"#!/bin/sh\necho OK\n")
    message = await run_shell(sandbox, "[ $(stat -c %u program) = 0 ] && echo ESCAPED; chmod 755 program && ./program")
    return Verdict(world.harm(message), "OK" in message, message)


async def replaced_home(world: EscapeEnvironment) -> Verdict:
    """A link in place of the home is not followed by the server, and the thread still works."""
    sandbox = await world.sandbox("home")
    target = world.home / "shown"
    before = target.stat()
    await run_shell(sandbox, f"rm -rf .home && ln -s {target} .home")
    await world.provider.discard("home", "local")
    sandbox = await world.sandbox("home")
    is_changed = (target.stat().st_uid, target.stat().st_mode) != (before.st_uid, before.st_mode)
    return Verdict("it was changed" if is_changed else "", "OK" in await run_shell(sandbox, "echo OK"))


async def locked_workspace(world: EscapeEnvironment) -> Verdict:
    """A workspace without permissions is made accessible by the next run."""
    sandbox = await world.sandbox("locked")
    await run_shell(sandbox, "chmod 000 . /tmp /mnt/user-data/outputs")
    await world.provider.discard("locked", "local")
    sandbox = await world.sandbox("locked")
    return Verdict("", "OK" in await run_shell(sandbox, "cat mine.txt && touch /tmp/x && echo OK"))


# What a command leaves behind.


async def left_behind(command: str, world: EscapeEnvironment) -> Verdict:
    """No process survives a command; a background process runs until it is killed."""
    sandbox = await world.sandbox("survivors")
    marker = make_marker()
    message = await run_shell(sandbox, command.replace("@sleep@", f"sleep {marker}"))
    left = await find_survivors(marker)
    await sandbox.start_process("job", f"sleep {marker}")
    await wait_for_processes(marker)
    await sandbox.kill_process("job")
    return Verdict(f"alive: {left}" if left else "", not await find_survivors(marker), message)


# Too much of something.


async def bomb(command: str, allowed: str, is_too_much: Callable[[str], bool], world: EscapeEnvironment) -> Verdict:
    """Too much is refused or killed, a little works, and other threads are not affected."""
    name = f"bomb-{token_hex(4)}"
    sandbox, other = await world.sandbox(name, world.small), await world.sandbox("calm", world.small)
    exploding = asyncio.create_task(run_shell(sandbox, command))
    calm = await run_shell(other, "echo calm")
    message = await exploding
    await run_shell(sandbox, "chmod -R u+rwx . ; rm -rf [!im]*", 30)
    small = await run_shell(sandbox, allowed)
    await world.small.discard(name, "local")
    return Verdict("too much" if is_too_much(message) else "", "OK" in small and "calm" in calm, f"{message} | {small}")


async def fork_bomb(world: EscapeEnvironment) -> Verdict:
    """It is limited, and no process survives."""
    sandbox, other = await world.sandbox("forks", world.small), await world.sandbox("calm", world.small)
    marker = make_marker()
    bombing = asyncio.create_task(run_shell(sandbox, f"f() {{ f | f & sleep {marker}; }}; f; wait", 1.5))
    counts = []
    while not bombing.done():
        counts.append(len(await asyncio.to_thread(find_processes, marker)))
    calm = await run_shell(other, "echo calm")
    too_many = [count for count in counts if count > 40]
    left = await find_survivors(marker)
    again = await run_shell(sandbox, "echo OK")
    return Verdict(f"{too_many} {left}" if too_many or left else "", "calm" in calm and "OK" in again, str(max(counts)))


async def many_in_memory(world: EscapeEnvironment) -> Verdict:
    """The memory of many processes is counted together, by the kernel or by polling."""
    too_much = await bomb(
        py("take_memory_in_many 8 40"), py("take_memory 20") + " && echo OK", contains("ESCAPED"), world
    )
    in_files = await bomb(
        py("take_memory_files 30 10"), py("take_memory_files 2 5") + " && echo OK", contains("GOT 300"), world
    )
    return Verdict(too_much.escaped or in_files.escaped, too_much.works and in_files.works, f"{too_much} {in_files}")


async def output_bomb(world: EscapeEnvironment) -> Verdict:
    """A flood of output uses little memory of the server."""
    sandbox, other = await world.sandbox("flood", world.small), await world.sandbox("calm", world.small)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    flooding = asyncio.create_task(sandbox.execute_command("yes", timeout_s=1.5))
    calm = await run_shell(other, "echo calm")
    result = await flooding
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    is_bounded = grown < 64 * 1024 and len(result.output) < 25_000 and result.truncated
    return Verdict("" if is_bounded else f"{grown} KB", "calm" in calm, f"{grown} KB, {len(result.output)} characters")


async def background_disk_bomb(world: EscapeEnvironment) -> Verdict:
    """A background process obeys the disk limit too."""
    sandbox = await world.sandbox("background-disk", world.small)
    await sandbox.start_process("bomb", "for n in $(seq 20); do head -c 8M /dev/zero > big$n; done; sleep 1000")
    is_ended = await wait_until_ended(sandbox, "bomb")
    await sandbox.kill_process("bomb")
    await sandbox.start_process("small", "head -c 1M /dev/zero > small; echo OK")
    await wait_until_ended(sandbox, "small")
    message = await sandbox.process_output("small")
    used = await run_shell(sandbox, "du -sm . | cut -f1; rm -f big*")
    return Verdict("" if is_ended else f"it went on, {used} MB", "OK" in message.output, used)


async def wait_until_ended(sandbox: Sandbox, name: str) -> bool:
    for _ in range(600):  # a busy machine may be slow
        if any(each.name == name and each.exit_code is not None for each in await sandbox.list_processes()):
            return True
        await run_shell(sandbox, "sleep 0.05")
    return False


def contains(word: str) -> Callable[[str], bool]:
    return lambda message: word in message


def exceeds(word: str, limit: int) -> Callable[[str], bool]:
    def is_more(message: str) -> bool:
        words = message.replace("[", " ").split()
        return any(before == word and int(number) > limit for before, number in zip(words, words[1:], strict=False))

    return is_more


# The network in allow-list mode.


async def by_proxy(command: str, world: EscapeEnvironment) -> Verdict:
    """Only allowed hosts are reached, and only under their own names."""
    sandbox = await world.sandbox("proxy", world.allowlist)
    world.origin.received.clear()
    message = await run_shell(sandbox, world.fill(command))
    met = [received for received in world.origin.received if b"evil" in received.lower()]
    reached = world.harm(message) or (str(met) if met else "") or ("origin" if "origin" in message else "")
    twin = await run_shell(sandbox, "curl -sm 10 http://allowed.example/")
    return Verdict(reached, twin == "origin[0]", f"{message} | {twin}")


def request(line: str, host: str = "allowed.example", more: str = "") -> str:
    return py("through_proxy", f"'{line}\\r\\nHost: {host}\\r\\n{more}\\r\\n'")


LINKS = {
    "links to the database": "@home@/deerflow.db",
    "links to the state directory": "@home@",
    "links to the server's variables": "/proc/self/environ",
    "links to the server's folder": "/proc/self/cwd",
    "links to the server's root": "/proc/self/root@home@",
    "links to a file of the host": "@home@/shown/file",
    "links to another thread's file": "@other_file@",
    "links upwards": "../../../../../../deerflow.db",
    "links to itself": "link",
}
ODD_FILES = {
    "makes a pipe for the server to wait for": "mkfifo odd",
    "makes a socket for the server to read": "python3 -c 'import socket; socket.socket(1).bind(\"odd\")'",
    "makes a second name for a file": "echo x > first && rm -f second && ln first odd",
    "links to a device": "ln -s /dev/zero odd",
    "links to its own pipe": "rm -f fifo; mkfifo fifo; ln -s fifo odd",
}
LEFT_BEHIND = {
    "leaves a process behind": "@sleep@ & disown; echo left",
    "leaves a process of another session": "setsid @sleep@ & echo left",
    "leaves a process that ignores the hangup": "nohup @sleep@ >/dev/null 2>&1 & echo left",
    "forks twice": "(setsid bash -c '(@sleep@ &) &' &); echo left",
    "leaves a process that ignores signals": "(trap '' TERM INT HUP QUIT; setsid @sleep@ </dev/null >/dev/null 2>&1 &); echo left",
    "leaves a stopped process": "setsid bash -c 'kill -STOP $$; @sleep@' & echo left",
}
BOMBS: dict[str, tuple[str, str, Callable[[str], bool]]] = {
    "makes too many processes": (py("many_processes 200"), py("fork"), exceeds("MADE", 32)),
    "makes too many threads": (py("many_threads 200"), py("many_threads 5") + " && echo OK", exceeds("MADE", 32)),
    "takes too much memory": (py("take_memory 400"), py("take_memory 20") + " && echo OK", contains("GOT")),
    "makes too large a file": ("head -c 40M /dev/zero > big; stat -c 'MADE %s' big", "head -c 1M /dev/zero > ok && echo OK", exceeds("MADE", 16 << 20)),
    "writes too many files": ("for n in $(seq 40); do head -c 8M /dev/zero > big$n; done; sleep 5; echo ESCAPED", "head -c 1M /dev/zero > ok && echo OK", contains("ESCAPED")),
    "writes too many temporary files": ("for n in $(seq 40); do head -c 8M /dev/zero > /tmp/big$n; done; sleep 5; echo ESCAPED", "rm /tmp/big*; echo x > /tmp/ok && echo OK", contains("ESCAPED")),
    "takes the disk without writing": (py("allocated_files 40 10"), "head -c 1M /dev/zero > ok && echo OK", exceeds("USED", 64)),
    "makes a file of holes that looks large": ("truncate -s 900M holes; stat -c 'MADE %s' holes", "truncate -s 9M holes2 && echo OK", exceeds("MADE", 16 << 20)),
    "hides files in deep folders": (py("deep_files 160"), "mkdir -p a/b/c && echo x > a/b/c/ok && echo OK", contains("ESCAPED")),
    "hides files in a closed folder": (py("hidden_files 160 hidden"), "mkdir -p open && echo x > open/ok && echo OK", contains("ESCAPED")),
    "hides files in a closed workspace": (py("hidden_files 160 ."), "chmod 755 . && echo x > ok && echo OK", contains("ESCAPED")),
    "makes too many empty files": (py("empty_files 12000"), py("empty_files 3 & sleep 0.3; echo OK"), contains("ESCAPED")),
    "fills the shared memory": ("for n in $(seq 60); do head -c 8M /dev/zero > /dev/shm/big$n || break; done; du -sm /dev/shm | sed 's/^/MADE /'", "echo x > /dev/shm/ok && echo OK", exceeds("MADE", 256)),
}  # fmt: skip
PROXY = {
    "connects past the proxy": py("connect tcp 127.0.0.1 @tcp_port@"),
    "connects to a public address past the proxy": py("connect tcp 1.1.1.1 80") + ";" + py("resolve allowed.example"),
    "asks for a host that is not on the list": "curl -sm 10 http://evil.example/",
    "asks for a host by another scheme": "curl -sm 10 ftp://allowed.example/ -x http://127.0.0.1:3128",
    "asks for an allowed host on another port": "curl -sm 10 http://allowed.example:@tcp_port@/",
    "tunnels to another port": request("CONNECT allowed.example:@tcp_port@ HTTP/1.1"),
    "tunnels to plain HTTP": request("CONNECT allowed.example:80 HTTP/1.1", more="\\r\\nGET / HTTP/1.1\\r\\n"),
    "tunnels to a host that is not on the list": request("CONNECT evil.example:443 HTTP/1.1"),
    "tunnels something that is no TLS": request("CONNECT allowed.example:443 HTTP/1.1", more="\\r\\nevil"),
    "asks for the server by its address": "curl -sm 10 -x http://127.0.0.1:3128 --noproxy '' http://127.0.0.1:@tcp_port@/",
    "asks for the server by a number": request("GET http://2130706433:@tcp_port@/ HTTP/1.1"),
    "asks for the metadata of a cloud": "curl -sm 10 http://169.254.169.254/latest/meta-data/",
    "asks for a name that leads inside": "curl -sm 10 http://rebound.example/",
    "asks for a name that leads nowhere": "curl -sm 10 http://nowhere.example/",
    "asks for one host and names another": request("GET http://allowed.example/ HTTP/1.1", "evil.example") + "| grep -v origin",
    "asks for one host behind another": request("GET http://allowed.example@evil.example/ HTTP/1.1"),
    "asks for a host with a strange end": request("GET http://allowed.example.evil.example/ HTTP/1.1", "x"),
    "hides a second request in the first": request("GET http://evil.example/ HTTP/1.1\\r\\nX: y\\r\\n\\r\\nGET http://evil.example/ HTTP/1.1"),
    "asks the proxy for itself": "curl -sm 10 -x http://127.0.0.1:3128 http://127.0.0.1:3128/",
}  # fmt: skip

BY_HOST: dict[str, HostAttempt] = {
    **{name: partial(link_to, target) for name, target in LINKS.items()},
    **{name: partial(odd_file, make) for name, make in ODD_FILES.items()},
    "swaps a folder for a link": swapped_folder,
    "swaps its home for a link": replaced_home,
    "locks its workspace": locked_workspace,
    "gets a program of root's from the server": root_program,
    **{name: partial(left_behind, command) for name, command in LEFT_BEHIND.items()},
    **{name: partial(bomb, *words) for name, words in BOMBS.items()},
    "multiplies for ever": fork_bomb,
    "takes memory in many processes": many_in_memory,
    "prints for ever": output_bomb,
    "fills the disk in the background": background_disk_bomb,
    **{name: partial(by_proxy, command) for name, command in PROXY.items()},
}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), BY_HOST)

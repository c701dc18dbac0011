"""Program that runs inside a sandbox with the system's Python: `python3 inside.py NAME ARGUMENT...` tries one thing.

It prints ESCAPED if something forbidden was possible, and OK if something allowed was.
"""

# ruff: noqa: T201, PTH101, PTH102, PTH103, PTH115, PTH116, PTH123, PTH208 (a program on its own, close to the system)

import contextlib
import ctypes
import mmap
import os
import platform
import select
import signal
import socket
import struct
import sys
import threading

CALLS = {
    "x86_64": {
        "ptrace": 101, "process_vm_readv": 310, "clone": 56, "unshare": 272, "setns": 308, "mount": 165, "umount2": 166,
        "pivot_root": 155, "chroot": 161, "add_key": 248, "request_key": 249, "keyctl": 250, "bpf": 321,
        "perf_event_open": 298, "userfaultfd": 323, "init_module": 175, "kexec_load": 246, "reboot": 169,
        "swapon": 167, "settimeofday": 164, "sethostname": 170, "acct": 163, "syslog": 103, "quotactl": 179,
        "name_to_handle_at": 303, "kcmp": 312, "fanotify_init": 300, "getpid": 39,
    },
    "aarch64": {
        "ptrace": 117, "process_vm_readv": 270, "clone": 220, "unshare": 97, "setns": 268, "mount": 40, "umount2": 39,
        "pivot_root": 41, "chroot": 51, "add_key": 217, "request_key": 218, "keyctl": 219, "bpf": 280,
        "perf_event_open": 241, "userfaultfd": 282, "init_module": 105, "kexec_load": 104, "reboot": 142,
        "swapon": 224, "settimeofday": 170, "sethostname": 161, "acct": 89, "syslog": 116, "quotactl": 60,
        "name_to_handle_at": 264, "kcmp": 272, "fanotify_init": 262, "getpid": 172,
    },
}[platform.machine()]  # fmt: skip
CALLS |= {"io_uring_setup": 425, "open_tree": 428, "fsopen": 430, "clone3": 435, "mount_setattr": 442}
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000
PTRACE_ATTACH, TIOCSTI = 16, 0x5412
X32 = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> int:
    """Return the result of a system call, or the negative error."""
    result = libc.syscall(CALLS[name], *arguments)
    return int(result) if result >= 0 else -ctypes.get_errno()


def tell(escaped: bool) -> None:
    print("ESCAPED" if escaped else "refused")


def ok(works: bool = True) -> None:
    print("OK" if works else "broken")


def refused_call(name: str) -> None:
    """Report if a call is let through: then it fails on its arguments or succeeds."""
    zeros = [ctypes.c_void_p(0)] * 5
    tell(call(name, *zeros) not in (-1, -38))  # EPERM, ENOSYS


def clone_user() -> None:
    pid = call("clone", ctypes.c_ulong(CLONE_NEWUSER | signal.SIGCHLD), *[ctypes.c_void_p(0)] * 4)
    if pid == 0:
        os._exit(0)
    tell(pid > 0)


def clone3_user() -> None:
    arguments = struct.pack("8Q", CLONE_NEWUSER | CLONE_NEWNS, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    pid = call("clone3", ctypes.c_char_p(arguments), ctypes.c_ulong(len(arguments)))
    if pid == 0:
        os._exit(0)
    tell(pid > 0)


def fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    ok(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7)


def enter_namespaces() -> None:
    entered = []
    for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
        descriptor = os.open(f"/proc/1/ns/{kind}", os.O_RDONLY)
        entered.append(call("setns", descriptor, 0) >= 0)
    tell(any(entered))


def ptrace_first() -> None:
    tell(call("ptrace", PTRACE_ATTACH, 1, None, None) >= 0)


def read_other_process() -> None:
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("QQ", ctypes.addressof(buffer), 8)
    remote = struct.pack("QQ", ctypes.addressof(buffer), 8)
    tell(call("process_vm_readv", 1, local, ctypes.c_ulong(1), remote, ctypes.c_ulong(1), ctypes.c_ulong(0)) >= 0)


def search_memory(pid: str, *reversed_words: str) -> None:
    """Report if the memory of a process holds one of the words, which are passed reversed to keep them out of ours."""
    words = [word[::-1].encode() for word in reversed_words]
    found = False
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            span, rights, *_ = line.split()
            begin, end = (int(place, 16) for place in span.split("-"))
            if rights.startswith("r") and end - begin < 1 << 28:
                with contextlib.suppress(OSError, OverflowError, ValueError):
                    memory.seek(begin)
                    content = memory.read(end - begin)
                    found = found or any(word in content for word in words)
    tell(found)


def search_own_memory() -> None:
    marker = ctypes.create_string_buffer(b"my own marker")
    with open("/proc/self/mem", "rb") as memory:
        memory.seek(ctypes.addressof(marker))
        ok(memory.read(13) == b"my own marker")


def inherited_files() -> None:
    extra = []
    for number in range(3, 4096):
        with contextlib.suppress(OSError):
            os.fstat(number)
            extra.append(number)
    print(extra)
    tell(bool(extra))


def standard_files() -> None:
    ok(all(os.fstat(number) for number in (0, 1, 2)))


def files_of_first() -> None:
    """Report the open files of the first process of the sandbox: only its standard streams."""
    held = {}
    for number in os.listdir("/proc/1/fd"):
        with contextlib.suppress(OSError):
            held[number] = os.readlink(f"/proc/1/fd/{number}")
    print(held)
    tell(any("socket" in target or "memfd" in target or "ns" in target.split(":")[0] for target in held.values()))


def become_root() -> None:
    for change, *ids in ((os.setuid, 0), (os.setresuid, 0, 0, 0), (os.setgid, 0), (os.setgroups, [0])):
        with contextlib.suppress(OSError):
            change(*ids)
            tell(True)
    tell(os.geteuid() == 0)


def push_terminal_input() -> None:
    pushed = []
    for number in (0, 1, 2):
        pushed.append(libc.ioctl(number, TIOCSTI, b"x") == 0)
    with contextlib.suppress(OSError):
        pushed.append(libc.ioctl(os.open("/dev/tty", os.O_RDWR), TIOCSTI, b"x") == 0)
    tell(any(pushed))


def own_terminal() -> None:
    ours, theirs = os.openpty()
    os.write(theirs, b"hello\n")
    ok(os.read(ours, 100).startswith(b"hello"))


def other_numbers() -> None:
    """Try the second set of system calls of x86-64."""
    if platform.machine() == "x86_64":
        tell(libc.syscall(X32 | CALLS["getpid"]) > 0)


def old_calls() -> None:
    """Try the system calls of 32-bit programs, which have other numbers."""
    if platform.machine() != "x86_64":
        return
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
    run = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    tell(run() > 0)


def raise_limits() -> None:
    import resource

    raised = []
    for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (resource.getrlimit(kind)[1], resource.getrlimit(kind)[1] + 1))
            raised.append(kind)
    tell(bool(raised))


def lower_limits() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    ok()


def connect(kind: str, host: str, port: str) -> None:
    """Send data by TCP or UDP; its arrival is observed outside."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as any_socket:
        any_socket.settimeout(2)
        try:
            any_socket.connect((host, int(port)))
            any_socket.send(b"hello")
        except OSError as problem:
            print("refused", problem)
        else:
            tell(kind == "tcp")


def talk_to_myself(kind: str, host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    way = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
    with socket.socket(family, way) as server, socket.socket(family, way) as client:
        server.bind((host, 0))
        if kind == "tcp":
            server.listen()
        client.connect(server.getsockname())
        client.send(b"hello")
        received = server.accept()[0].recv(5) if kind == "tcp" else server.recv(5)
        ok(received == b"hello")


def connect_abstract(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(f"\0{name}")
        except OSError as problem:
            print("refused", problem)
        else:
            tell(True)


def connect_path(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
        except OSError as problem:
            print("refused", problem)
        else:
            tell(True)


def unix_to_myself() -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("\0my-own")
        server.listen()
        client.connect("\0my-own")
        ok()


def family(number: str, kind: str = "3") -> None:
    """Report if a socket of a family can be created."""
    for way in {int(kind), 1, 2, 3, 5}:
        with contextlib.suppress(OSError):
            socket.socket(int(number), way, 0).close()
            tell(True)
            return
    tell(False)


def raw_icmp() -> None:
    for kind, protocol in ((socket.SOCK_RAW, socket.IPPROTO_ICMP), (socket.SOCK_RAW, socket.IPPROTO_RAW)):
        with contextlib.suppress(OSError):
            socket.socket(socket.AF_INET, kind, protocol).close()
            tell(True)
            return
    tell(False)


def change_network() -> None:
    """Ask the kernel by netlink for a new interface (RTM_NEWLINK, a dummy one)."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + struct.pack("HH", 6 + 4, 3) + b"dummy\0\0\0"
        kind = struct.pack("HH", 4 + 6, 1) + b"dummy\0\0\0"
        body += struct.pack("HH", 4 + len(kind), 18) + kind
        netlink.send(struct.pack("IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)
        answer = netlink.recv(4096)
        error = struct.unpack_from("i", answer, 16)[0]
        tell(struct.unpack_from("H", answer, 4)[0] == 2 and error == 0)


def interfaces() -> None:
    names = [name for _, name in socket.if_nameindex()]
    print(names)
    tell(set(names) - {"lo"} != set())


def resolve(name: str) -> None:
    try:
        print(socket.getaddrinfo(name, 80))
    except OSError as problem:
        print("refused", problem)
    else:
        tell(True)


def ask_name_server(address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(1)
        try:
            client.sendto(bytes.fromhex("123401000001000000000000076578616d706c6503636f6d0000010001"), (address, 53))
            client.recv(512)
        except OSError as problem:
            print("refused", problem)
        else:
            tell(True)


def through_proxy(request: str) -> None:
    """Send a request to the proxy of the sandbox and print its response."""
    with socket.create_connection(("127.0.0.1", 3128), timeout=10) as proxy:
        proxy.settimeout(10)
        proxy.sendall(request.encode().decode("unicode_escape").encode("latin-1"))
        with contextlib.suppress(OSError):
            while received := proxy.recv(65536):
                print(received.decode("latin-1"))


def take_memory(megabytes: str) -> None:
    """Use memory page by page."""
    try:
        taken = bytearray(int(megabytes) << 20)
        for place in range(0, len(taken), 4096):
            taken[place] = 1
    except MemoryError:
        print("refused")
    else:
        print("GOT", megabytes)


def take_memory_in_many(count: str, megabytes: str) -> None:
    """Use memory in many processes at once and print how many got it."""
    read_end, write_end = os.pipe()
    for _ in range(int(count)):
        if os.fork() == 0:
            with contextlib.suppress(MemoryError):
                taken = bytearray(int(megabytes) << 20)
                for place in range(0, len(taken), 4096):
                    taken[place] = 1
                os.write(write_end, b"x")
                signal.pause()
            os._exit(0)
    os.close(write_end)
    timer = threading.Timer(2, os._exit, [0])
    timer.start()
    got = 0
    while got < int(count) and os.read(read_end, 1):
        got += 1
    timer.cancel()
    hold()
    tell(got == int(count))
    sys.stdout.flush()
    os._exit(0)


def hold() -> None:
    """Keep the memory for a while: without cgroups the server polls every second."""
    select.select([], [], [], 4)


def take_memory_files(count: str, megabytes: str) -> None:
    """Use memory as unnamed files."""
    files = []
    for _ in range(int(count)):
        files.append(os.memfd_create("x"))
        for _ in range(int(megabytes)):
            os.write(files[-1], bytes(1 << 20))
    hold()
    print("GOT", int(count) * int(megabytes))


def many_processes(count: str) -> None:
    made = 0
    for _ in range(int(count)):
        try:
            if os.fork() == 0:
                signal.pause()
        except OSError:
            break
        made += 1
    print("MADE", made)
    sys.stdout.flush()
    os.kill(-1, signal.SIGKILL)


def many_threads(count: str) -> None:
    made, wait = 0, threading.Event()
    for _ in range(int(count)):
        try:
            threading.Thread(target=wait.wait, daemon=True).start()
        except RuntimeError:
            break
        made += 1
    print("MADE", made)
    sys.stdout.flush()
    os._exit(0)


def deep_files(total: str) -> None:
    """Fill the disk below very deep folders."""
    for _ in range(200):
        os.mkdir("d")
        os.chdir("d")
    for number in range(int(total) // 8):
        with open(f"file{number}", "wb", buffering=0) as file:
            for _ in range(8):
                file.write(bytes(1 << 20))
    threading.Event().wait(4)
    print("ESCAPED")


def hidden_files(total: str, folder: str) -> None:
    """Fill the disk in a folder without read permission."""
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    os.chmod(".", 0o300)
    for number in range(int(total) // 8):
        with open(f"file{number}", "wb", buffering=0) as file:
            for _ in range(8):
                file.write(bytes(1 << 20))
    threading.Event().wait(4)
    print("ESCAPED")


def allocated_files(count: str, megabytes: str) -> None:
    """Allocate disk space without writing."""
    for number in range(int(count)):
        with open(f"allocated{number}", "wb") as file:
            libc.fallocate64(file.fileno(), 0, ctypes.c_long(0), ctypes.c_long(int(megabytes) << 20))
    used = sum(os.stat(name).st_blocks * 512 for name in os.listdir(".") if name.startswith("allocated"))
    print("USED", used >> 20)


def empty_files(count: str) -> None:
    """Use up the inodes of the disk."""
    for number in range(int(count)):
        os.close(os.open(f"e{number}", os.O_CREAT | os.O_WRONLY))
    threading.Event().wait(4)
    print("ESCAPED")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

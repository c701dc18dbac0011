"""The system calls that commands in a sandbox cannot make, as a program for the kernel.

Namespaces and missing capabilities refuse most of these already. The filter keeps the parts of the kernel out of reach
where mistakes are found most often, and the address families that no network namespace holds back.
"""

import errno
import platform
import struct
from collections.abc import Iterable

X86_64, AARCH64 = 0xC000003E, 0xC00000B7
ARCHITECTURES = {"x86_64": X86_64, "aarch64": AARCH64}
X32_BIT = 0x40000000

LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
FAMILIES = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
SOCKET = {"x86_64": 41, "aarch64": 198}
FALLOCATE = {"x86_64": 285, "aarch64": 47}

REFUSED = {
    "x86_64": {
        "acct": 163, "add_key": 248, "adjtimex": 159, "bpf": 321, "clock_adjtime": 305, "clock_settime": 227,
        "delete_module": 176, "fanotify_init": 300, "finit_module": 313, "fsconfig": 431, "fsmount": 432,
        "fsopen": 430, "fspick": 433, "init_module": 175, "io_uring_enter": 426, "io_uring_register": 427,
        "io_uring_setup": 425, "ioperm": 173, "iopl": 172, "kcmp": 312, "kexec_file_load": 320, "kexec_load": 246,
        "keyctl": 250, "lookup_dcookie": 212, "mount": 165, "mount_setattr": 442, "move_mount": 429,
        "move_pages": 279, "name_to_handle_at": 303, "nfsservctl": 180, "open_by_handle_at": 304, "open_tree": 428,
        "perf_event_open": 298, "pivot_root": 155, "process_vm_readv": 310, "process_vm_writev": 311, "ptrace": 101,
        "quotactl": 179, "quotactl_fd": 443, "reboot": 169, "request_key": 249, "setdomainname": 171,
        "sethostname": 170, "setns": 308, "settimeofday": 164, "swapoff": 168, "swapon": 167, "syslog": 103,
        "umount2": 166, "unshare": 272, "uselib": 134, "userfaultfd": 323, "vhangup": 153,
    },
    "aarch64": {
        "acct": 89, "add_key": 217, "adjtimex": 171, "bpf": 280, "clock_adjtime": 266, "clock_settime": 112,
        "delete_module": 106, "fanotify_init": 262, "finit_module": 273, "fsconfig": 431, "fsmount": 432,
        "fsopen": 430, "fspick": 433, "init_module": 105, "io_uring_enter": 426, "io_uring_register": 427,
        "io_uring_setup": 425, "kcmp": 272, "kexec_file_load": 294, "kexec_load": 104, "keyctl": 219,
        "lookup_dcookie": 18, "mount": 40, "mount_setattr": 442, "move_mount": 429, "move_pages": 239,
        "name_to_handle_at": 264, "nfsservctl": 42, "open_by_handle_at": 265, "open_tree": 428,
        "perf_event_open": 241, "pivot_root": 41, "process_vm_readv": 270, "process_vm_writev": 271, "ptrace": 117,
        "quotactl": 60, "quotactl_fd": 443, "reboot": 142, "request_key": 218, "setdomainname": 162,
        "sethostname": 161, "setns": 268, "settimeofday": 170, "swapoff": 225, "swapon": 224, "syslog": 116,
        "umount2": 39, "unshare": 97, "userfaultfd": 282, "vhangup": 58,
    },
}  # fmt: skip


def seccomp_filter(machine: str | None = None) -> bytes:
    """The filter for this machine's system calls.

    Raises:
        LookupError: The numbers of this kind of machine are not known here.
    """
    machine = machine or platform.machine()
    checks = [
        step(LOAD, ARCHITECTURE),
        step(EQUAL, ARCHITECTURES[machine], 1, 0),
        step(RETURN, KILL),  # a second set of system calls would have other numbers
        step(LOAD, NUMBER),
    ]
    if machine == "x86_64":
        checks += [step(AT_LEAST, X32_BIT, 0, 1), step(RETURN, FAIL | errno.ENOSYS)]
    for number in sorted(REFUSED[machine].values()):
        checks += [step(EQUAL, number, 0, 1), step(RETURN, FAIL | errno.EPERM)]
    # Takes any amount of the disk in no time, sooner than anybody looks; everybody can do without.
    checks += [step(EQUAL, FALLOCATE[machine], 0, 1), step(RETURN, FAIL | errno.EOPNOTSUPP)]
    return b"".join([*checks, *only_families(SOCKET[machine], FAMILIES), step(RETURN, ALLOW)])


def only_families(socket_call: int, families: Iterable[int]) -> list[bytes]:
    """Steps that refuse sockets of all families but these."""
    known = list(families)
    passes = [step(EQUAL, family, len(known) - place, 0) for place, family in enumerate(known)]
    refuse = step(RETURN, FAIL | errno.EAFNOSUPPORT)
    return [step(EQUAL, socket_call, 0, len(known) + 2), step(LOAD, FIRST_ARGUMENT), *passes, refuse]


def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction of the kernel's filter language."""
    return struct.pack("=HBBI", code, if_true, if_false, value)

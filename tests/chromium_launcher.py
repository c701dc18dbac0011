#!/usr/bin/env python3
"""Start Chromium without netlink sockets, so that it never learns of changes of the network.

Containers of other tests add and remove interfaces of this machine. Chromium reacts by aborting all
requests in flight (`ERR_NETWORK_CHANGED`), which leaves a page without one of its scripts.
"""

import ctypes
import os
import platform
import struct
import sys

AF_NETLINK = 16
EAFNOSUPPORT = 97
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
SECCOMP_MODE_FILTER = 2
RETURN_ERROR, ALLOW = 0x00050000, 0x7FFF0000
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
SOCKET_NUMBER = {"x86_64": 41, "aarch64": 198}
"""Number of the system call `socket` by architecture; 64-bit ones have no other way to open one."""


class Program(ctypes.Structure):
    """`struct sock_fprog` of the kernel."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def deny_netlink(socket_number: int) -> None:
    """Let `socket(AF_NETLINK, …)` fail in this process and its children."""
    instructions = [
        (LOAD_WORD, 0, 0, 0),  # the number of the system call
        (JUMP_IF_EQUAL, 0, 3, socket_number),
        (LOAD_WORD, 0, 0, 16),  # its first argument
        (JUMP_IF_EQUAL, 0, 1, AF_NETLINK),
        (RETURN, 0, 0, RETURN_ERROR | EAFNOSUPPORT),
        (RETURN, 0, 0, ALLOW),
    ]
    program = Program(len(instructions), b"".join(struct.pack("HBBI", *each) for each in instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "the filter of system calls was refused")


if __name__ == "__main__":
    if platform.machine() in SOCKET_NUMBER:
        deny_netlink(SOCKET_NUMBER[platform.machine()])
    os.execv(os.environ["CHROMIUM"], [os.environ["CHROMIUM"], *sys.argv[1:]])  # noqa: TID251

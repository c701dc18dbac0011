"""Escape attempts by commands, each with a twin: a similar, harmless command that must work.

An attempt must not print ESCAPED or a secret of the host, and must not be noticed outside. Its twin must print OK.
Placeholders like @home@ are filled in by `escape_environment.py`; `py` is `inside_programs.py`, run by the system's Python.
"""

# ruff: noqa: E501 (a table of command lines)

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attempt:
    name: str
    command: str
    twin: str


def py(*words: str) -> str:
    return " ".join(["python3 -IS inside.py", *words])


def calls(*names: str) -> list[Attempt]:
    return [Attempt(f"calls {name}", py("refused_call", name), "(exit 0) && echo OK") for name in names]


FILES = [
    Attempt("reads the passwords of the host", "cat /etc/shadow && echo ESCAPED", "cat /etc/passwd && echo OK"),
    Attempt("lists the home of root", "ls -A /root && echo ESCAPED", 'ls -A "$HOME" && echo OK'),
    Attempt("lists the homes of others", "ls /home && echo ESCAPED", "ls /mnt/user-data && echo OK"),
    Attempt("lists the state directory", "ls @home@ && echo ESCAPED", "ls /mnt/user-data/workspace && echo OK"),
    Attempt("reads the database", "cat @home@/deerflow.db", "cat mine.txt && echo OK"),
    Attempt("looks for the database", "find / -name deerflow.db 2>/dev/null | grep . && echo ESCAPED", "find / -name mine.txt 2>/dev/null | grep -q . && echo OK"),
    Attempt("looks for the secret everywhere", "grep -rslF @terces@ /etc /mnt /opt /tmp /var /run /srv /home 2>/dev/null | grep . && echo ESCAPED", "grep -rsqF 'mine alone' /mnt && echo OK"),
    Attempt("reads another thread's file", "cat @other_file@; find / -name 'others.txt' 2>/dev/null | grep . && echo ESCAPED", "find / -name 'mine.txt' 2>/dev/null | grep -q . && echo OK"),
    Attempt("reads another user's file", "cat @stranger_file@", "cat mine.txt && echo OK"),
    Attempt("climbs out of the workspace", "cd /mnt/user-data/workspace && cat ../../../../../../../..@home@/deerflow.db", "cat ../workspace/mine.txt && echo OK"),
    Attempt("lists the host's temporary files", "ls -d /tmp/@tmp_name@* && echo ESCAPED", "touch /tmp/own && ls /tmp/own && echo OK"),
    Attempt("lists what else the host has", "ls -d /var/* /run/* /srv/* /boot/* /media/* /lost+found 2>/dev/null | grep . && echo ESCAPED", "ls -d /usr/* | grep -q bin && echo OK"),
    Attempt("reads through a link it made", "ln -sf @home@ out && cat out/deerflow.db", "ln -sf mine.txt in && cat in && echo OK"),
    Attempt("links a file of the host hard", "ln /etc/ld.so.cache hard && echo ESCAPED", "ln mine.txt hard2 && rm hard2 && echo OK"),
]  # fmt: skip

READ_ONLY = [
    Attempt("writes to /usr", "touch /usr/x && echo ESCAPED", "touch /mnt/user-data/workspace/x && echo OK"),
    Attempt("writes to /usr/bin", "cp /bin/true /usr/bin/bash; touch /usr/bin/x && echo ESCAPED", "cp /bin/true ./bash && ./bash && echo OK"),
    Attempt("writes to /etc", "echo x >> /etc/passwd && echo ESCAPED", "echo x >> mine2.txt && echo OK"),
    Attempt("writes a skill", "echo x >> /mnt/skills/greeting/SKILL.md && echo ESCAPED", "grep -q hello /mnt/skills/greeting/SKILL.md && echo OK"),
    Attempt("makes a skill", "mkdir /mnt/skills/mine && echo ESCAPED", "mkdir -p /mnt/user-data/outputs/mine && echo OK"),
    Attempt("writes to the workspace of other agents", "touch /mnt/acp-workspace/x && echo ESCAPED", "ls /mnt/acp-workspace && echo OK"),
    Attempt("writes to a mount that is read-only", "touch /mnt/shown/x && echo ESCAPED", "grep -q shown /mnt/shown/file && echo OK"),
    Attempt("writes to the root folder", "mkdir /x && echo ESCAPED", "mkdir -p /tmp/x && echo OK"),
    Attempt("writes to /dev", "touch /dev/x && echo ESCAPED", "echo x > /dev/null && echo OK"),
    Attempt("replaces our tools", "cp /bin/true /opt/deerflow/rg && echo ESCAPED", "/opt/deerflow/rg --version && echo OK"),
    Attempt("writes to the program that isolates it", "cp /bin/true /proc/1/exe && echo ESCAPED; (exec 3>>/proc/1/exe) && echo ESCAPED", "head -c 4 /proc/self/exe && echo OK"),
    Attempt("mounts /usr anew", "mount -o remount,rw /usr && echo ESCAPED; mount --bind /tmp /usr && echo ESCAPED", "grep -q ' /usr ' /proc/mounts && echo OK"),
]  # fmt: skip

PROC = [
    Attempt("sets who handles crashes", "echo '|/tmp/x' > /proc/sys/kernel/core_pattern && echo ESCAPED", "cat /proc/sys/kernel/core_pattern && echo OK"),
    Attempt("presses the magic key", "echo h > /proc/sysrq-trigger && echo ESCAPED", "cat /proc/uptime && echo OK"),
    Attempt("sets a variable of the kernel", "for v in kernel/hostname kernel/modprobe vm/drop_caches fs/binfmt_misc/register net/ipv4/ip_forward kernel/ns_last_pid; do echo 1 > /proc/sys/$v && echo ESCAPED; done 2>&1", "cat /proc/sys/kernel/hostname && echo OK"),
    Attempt("allows itself namespaces", "for v in user mnt net pid; do echo 100 > /proc/sys/user/max_${v}_namespaces && unshare -U true && echo ESCAPED; done 2>&1", "cat /proc/sys/user/max_user_namespaces && echo OK"),
    Attempt("reads the variables of the first process", "cat /proc/1/environ | grep -a . && echo ESCAPED", "cat /proc/self/environ | grep -aq HOME && echo OK"),
    Attempt("goes through the root of the first process", "cat /proc/1/root@home@/deerflow.db; ls /proc/1/root/root && echo ESCAPED", "ls /proc/self/root/usr && echo OK"),
    Attempt("goes through the folder of the first process", "ls /proc/1/cwd/../../../../root && echo ESCAPED; cat /proc/1/cwd/..@home@/deerflow.db", "ls /proc/self/cwd/mine.txt && echo OK"),
    Attempt("searches the memory of the first process", py("search_memory 1 @terces@"), py("search_own_memory")),
    Attempt("reads the memory of the machine", "for f in /proc/kcore /proc/kmsg /dev/mem /dev/kmem /dev/port; do head -c 1 $f && echo ESCAPED; done 2>&1", "head -c 1 /proc/self/status && echo OK"),
    Attempt("finds where the kernel is", "grep -v '^0000000000000000' /proc/kallsyms | grep -q . && echo ESCAPED", "head -1 /proc/cpuinfo && echo OK"),
    Attempt("lists keys of others", "grep -v '_ses\\|_uid' /proc/keys | grep . && echo ESCAPED", "cat /proc/self/cgroup && echo OK"),
    Attempt("sees processes of the host", "[ $(ls -d /proc/[0-9]* | wc -l) -gt 12 ] && echo ESCAPED; cat /proc/[0-9]*/cmdline | grep -aE '[l]auncher.py|[h]ost_escapes' && echo ESCAPED", "ls /proc/self/task && echo OK"),
    Attempt("makes itself the last to be killed", "echo -1000 > /proc/self/oom_score_adj && echo ESCAPED", "echo 1000 > /proc/self/oom_score_adj && echo OK"),
    Attempt("writes its own map of users", "echo '0 0 1' > /proc/self/uid_map && echo ESCAPED; echo '0 0 4294967295' > /proc/1/uid_map && echo ESCAPED", "cat /proc/self/uid_map && echo OK"),
    Attempt("looks into /sys", "ls -A /sys 2>/dev/null | grep . && echo ESCAPED; ls /sys/fs/cgroup /sys/kernel/debug && echo ESCAPED", "ls -A /proc | grep -q self && echo OK"),
    Attempt("leaves its control group", "for f in $(find / -name cgroup.procs 2>/dev/null); do echo 0 > $f && echo ESCAPED; done", "grep -q : /proc/self/cgroup && echo OK"),
]  # fmt: skip

DEVICES = [
    Attempt("makes a device", "mknod d b 254 0 && echo ESCAPED; mknod c c 1 1 && echo ESCAPED", "mkfifo pipe && rm pipe && echo OK"),
    Attempt("finds a disk or another device", "for d in /dev/sd* /dev/vd* /dev/nvme* /dev/mem /dev/kmsg /dev/fuse /dev/kvm /dev/loop* /dev/net /dev/vsock /dev/input /dev/mapper /dev/disk; do [ -e $d ] && echo ESCAPED $d; done", "for d in null zero full random urandom; do [ -c /dev/$d ] || exit 1; done; head -c 8 /dev/urandom | wc -c && echo OK"),
    Attempt("mounts a disk", "mount -t ext4 /dev/vda /tmp && echo ESCAPED; mount -t devtmpfs none /tmp && echo ESCAPED; mount -t proc none /tmp && echo ESCAPED", "df /tmp && echo OK"),
    Attempt("pushes input into a terminal", py("push_terminal_input"), py("own_terminal")),
]  # fmt: skip

PROCESSES = [
    Attempt("traces the first process", py("ptrace_first"), "sleep 9 & kill -0 $! && kill $! && echo OK"),
    Attempt("reads the memory of another process", py("read_other_process"), py("search_own_memory")),
    Attempt("kills a process of the host", "kill -9 @victim@ 2>/dev/null; for n in $(seq 2 40); do kill -9 $((@victim@ - n)) 2>/dev/null; done; true", "sleep 99 & kill -9 $! && echo OK"),
    Attempt("kills everything it can", "kill -9 -1; kill -TERM -1", "(sleep 99 & kill -9 $!) && echo OK"),
    Attempt("kills the first process", "kill -9 1; kill -0 1 || echo ESCAPED", "sleep 99 & kill $! && echo OK"),
    Attempt("has files of the server open", py("inherited_files"), py("standard_files")),
    Attempt("finds files of the server in the first process", py("files_of_first"), "ls /proc/self/fd && echo OK"),
    Attempt("sees the server's variables", "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'", 'echo "$SHOWN" | grep -q shown && echo OK'),
    Attempt("raises its limits", py("raise_limits"), py("lower_limits")),
]  # fmt: skip

PRIVILEGES = [
    Attempt("becomes root", py("become_root"), "[ $(id -u) -ne 0 ] && echo OK"),
    Attempt("uses su and sudo", "for c in 'su -c id' 'sudo -n id' 'pkexec id' 'newgrp root' 'mount /tmp'; do timeout 2 $c </dev/null 2>&1 | grep -q 'uid=0' && echo ESCAPED; done", "id && echo OK"),
    Attempt("makes a program of root's", "cp /usr/bin/id own-id && chmod 6755 own-id && [ \"$(./own-id -u)\" = 0 ] && echo ESCAPED", "cp /usr/bin/id own-id2 && ./own-id2 -u && echo OK"),
    Attempt("runs any program of root's", "for p in $(find /usr -perm -4000 2>/dev/null); do grep -E ' /usr .*nosuid|/ .*nosuid' -q /proc/mounts || echo ESCAPED $p; done", "grep -q nosuid /proc/mounts && echo OK"),
    Attempt("has capabilities", "grep -E '^Cap' /proc/self/status /proc/1/status | grep -v 0000000000000000 && echo ESCAPED", "grep -c '^Cap' /proc/self/status && echo OK"),
    Attempt("may gain privileges", "grep -E 'NoNewPrivs:\\s*0' /proc/self/status /proc/1/status && echo ESCAPED", "grep -E 'NoNewPrivs:\\s*1' /proc/self/status && echo OK"),
    Attempt("is filtered by nothing", "grep -E 'Seccomp:\\s*[01]' /proc/self/status /proc/1/status && echo ESCAPED", "grep -E 'Seccomp:\\s*2' /proc/self/status && echo OK"),
    Attempt("gives a file away", "touch own && chown 0:0 own && echo ESCAPED", "touch own && chmod 600 own && echo OK"),
    Attempt("gives a file capabilities", "cp /bin/true own-true && setcap cap_sys_admin+ep own-true && echo ESCAPED", "cp /bin/true own-true2 && ./own-true2 && echo OK"),
]  # fmt: skip

NAMESPACES = [
    Attempt("makes a user namespace", "unshare -U true && echo ESCAPED; unshare -r true && echo ESCAPED; unshare -Urmpf true && echo ESCAPED", "(exit 0) && echo OK"),
    Attempt("makes a user namespace by clone", py("clone_user"), py("fork")),
    Attempt("makes a user namespace by clone3", py("clone3_user"), py("fork")),
    Attempt("enters namespaces", py("enter_namespaces"), "readlink /proc/self/ns/user && echo OK"),
    Attempt("enters namespaces of the first process", "nsenter -t 1 -a true && echo ESCAPED; nsenter -t 1 -m -U true && echo ESCAPED", "readlink /proc/1/ns/mnt && echo OK"),
    Attempt("isolates once more", "bwrap --ro-bind / / --dev /dev true && echo ESCAPED", "bash -c true && echo OK"),
    Attempt("mounts a file system", "mount -t tmpfs none /tmp && echo ESCAPED; mount --bind / /tmp && echo ESCAPED", "mkdir -p m && echo OK"),
    Attempt("unmounts what hides the host", "umount /proc && echo ESCAPED; umount -l / && echo ESCAPED; umount -l /mnt/user-data/workspace && echo ESCAPED", "grep -q ' /proc ' /proc/mounts && echo OK"),
    Attempt("changes its root", "chroot / true && echo ESCAPED; chroot . true && echo ESCAPED", "cd / && echo OK"),
]  # fmt: skip

KERNEL = [
    *calls("mount", "umount2", "pivot_root", "setns", "open_tree", "fsopen", "mount_setattr", "add_key", "request_key"),
    *calls("keyctl", "io_uring_setup", "bpf", "perf_event_open", "userfaultfd", "init_module", "kexec_load", "reboot"),
    *calls("swapon", "settimeofday", "sethostname", "acct", "syslog", "quotactl", "name_to_handle_at", "kcmp"),
    *calls("fanotify_init"),
    Attempt("calls the kernel by other numbers", py("other_numbers"), py("fork")),
    Attempt("calls the kernel as a 32-bit program", py("old_calls"), py("fork")),
]

NETWORK = [
    Attempt("reaches the server by TCP", py("connect tcp 127.0.0.1 @tcp_port@"), py("talk_to_myself tcp 127.0.0.1")),
    Attempt("reaches the server by TCP on IPv6", py("connect tcp ::1 @tcp6_port@"), py("talk_to_myself tcp ::1")),
    Attempt("reaches the server by UDP", py("connect udp 127.0.0.1 @udp_port@"), py("talk_to_myself udp 127.0.0.1")),
    Attempt("reaches the machine's own address", py("connect tcp @own_address@ @tcp_port@"), py("talk_to_myself tcp 127.0.0.1")),
    Attempt("reaches a public address", py("connect tcp 1.1.1.1 80"), py("talk_to_myself tcp 127.0.0.1")),
    Attempt("reaches a public address by IPv6", py("connect tcp 2606:4700:4700::1111 80"), py("talk_to_myself udp ::1")),
    Attempt("reaches the metadata of a cloud", py("connect tcp 169.254.169.254 80"), py("talk_to_myself tcp 127.0.0.1")),
    Attempt("uses bash to connect", "exec 3<>/dev/tcp/127.0.0.1/@tcp_port@ && echo ESCAPED", py("talk_to_myself tcp 127.0.0.1")),
    Attempt("uses curl to connect", "curl -sm 3 http://127.0.0.1:@tcp_port@/ && echo ESCAPED; curl -sm 3 http://1.1.1.1/ && echo ESCAPED", "curl --version && echo OK"),
    Attempt("resolves a name", py("resolve example.com"), "getent hosts localhost && echo OK"),
    Attempt("asks a name server", py("ask_name_server 8.8.8.8") + ";" + py("ask_name_server 127.0.0.53"), py("talk_to_myself udp 127.0.0.1")),
    Attempt("reaches an abstract socket", py("connect_abstract @abstract@"), py("unix_to_myself")),
    Attempt("reaches a socket in a folder", py("connect_path @socket_path@"), py("unix_to_myself")),
    Attempt("sends raw packets", py("raw_icmp"), py("talk_to_myself udp 127.0.0.1")),
    Attempt("listens to all packets", py("family 17 3"), py("talk_to_myself udp 127.0.0.1")),
    Attempt("talks to the hypervisor", py("family 40 1"), py("unix_to_myself")),
    Attempt("uses the kernel's ciphers", py("family 38 5"), py("unix_to_myself")),
    *(Attempt(f"opens a socket of the family {name}", py(f"family {number}"), py("unix_to_myself")) for name, number in
      {"AX25": 3, "KEY": 15, "RDS": 21, "CAN": 29, "TIPC": 30, "BLUETOOTH": 31, "NFC": 39, "SMC": 43, "XDP": 44}.items()),
    Attempt("makes a network interface", py("change_network"), py("interfaces") + " && echo OK"),
    Attempt("finds a network interface", py("interfaces"), "grep -q lo: /proc/net/dev && echo OK"),
    Attempt("sees connections of the host", "grep -i ' @tcp_port_hex@ \\|:@tcp_port_hex@ ' /proc/net/tcp /proc/net/unix && echo ESCAPED; grep -a @abstract@ /proc/net/unix && echo ESCAPED", "cat /proc/net/tcp && echo OK"),
]  # fmt: skip

BY_COMMAND = [*FILES, *READ_ONLY, *PROC, *DEVICES, *PROCESSES, *PRIVILEGES, *NAMESPACES, *KERNEL, *NETWORK]

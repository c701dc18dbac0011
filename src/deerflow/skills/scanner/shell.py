"""Rules for shell commands: in scripts, in Markdown and in calls from other languages.

Commands are matched by patterns, not parsed as a shell would, so an obfuscated attack is not detected. These rules find
what is openly malicious; the sandbox protects against the rest.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deerflow.skills.scanner.rules import METADATA_HOST, SENSITIVE_PATH, Finding, make_finding

MAX_COMMAND = 20_000
MAX_TAINTED = 500
SHELLS = r"(?:/usr)?(?:/s?bin/)?(?:env )?(?:ba|z|k|da|a|c|tc)?sh\b"
REVERSE_SHELLS = (
    re.compile(rf"(?:{SHELLS}|exec)[^|;\n]{{0,200}}-i[^|;\n]{{0,200}}/dev/(?:tcp|udp)/"),
    re.compile(r"/dev/(?:tcp|udp)/[^\s;|]{1,200}[^\n]{0,100}0(?:>|<)&1"),
    re.compile(rf"0<&\d{{1,3}}[^\n]{{0,200}}/dev/(?:tcp|udp)/[^\n]{{0,200}}{SHELLS}"),
    re.compile(
        r"\b(?:nc|ncat|netcat)(?:\.\w{1,12})?\s[^|;\n]{0,200}"
        r"(?:-[a-z]{0,6}[ec]\s{1,4}|--(?:sh-)?exec[ =])\S{0,40}(?:sh|cmd)"
    ),
    re.compile(r"mkfifo\b[^\n]{0,300}\b(?:nc|ncat|netcat|telnet|openssl)\b"),
    re.compile(r"\bsocat\b[^\n]{0,300}exec:[^\n]{0,60}(?:sh|cmd)", re.I),
    re.compile(r"\bsocket\b[^\n]{0,600}(?:dup2|fdopen|open\(STDIN)[^\n]{0,600}(?:sh\b|exec)"),
    re.compile(r"\bfsockopen\([^\n]{0,300}(?:exec|proc_open|system|passthru)\("),
    re.compile(r"TCPSocket\.(?:new|open)[^\n]{0,400}(?:exec|popen|`)"),
    re.compile(rf"\b(?:openssl\s{{1,4}}s_client|telnet)\b[^\n]{{0,300}}\|\s{{0,4}}{SHELLS}"),
    re.compile(r"System\.Net\.Sockets\.TCPClient[^\n]{0,1500}(?:iex|Invoke-Expression|cmd)", re.I),
    re.compile(r"net\.(?:Socket|connect|createConnection)\b[^\n]{0,600}spawn\([\"'][^\n]{0,20}(?:sh|cmd)"),
)  # fmt: skip
REVERSE_SHELL_HINTS = (
    re.compile(r"/dev/(?:tcp|udp)/"),
    re.compile(r"\b(?:nc|ncat|netcat)\s[^|;\n]{0,100}-[a-z]{0,6}l"),
    re.compile(r"\bsocat\b[^\n]{0,200}tcp", re.I),
)
FORK_BOMBS = (
    re.compile(r"(?P<name>[\w:.]{1,40})\s{0,4}\(\)\s{0,4}\{\s{0,4}(?P=name)\s{0,4}\|\s{0,4}(?P=name)\s{0,4}&"),
    re.compile(r"fork\s{1,4}while\s{1,4}(?:fork|1|true)\b"),
    re.compile(r"%0\s{0,2}\|\s{0,2}%0"),
    re.compile(r"while\s{1,4}(?:true|:|1)\s{0,2};\s{0,4}do\s{1,4}(?:\"?\$0\"?|bash\s{1,4}\"?\$0\"?)\s{0,2}&"),
)
CONNECTION = re.compile(r"\d{1,3}<>\s{0,2}/dev/(?:tcp|udp)/[^\s;|&]{1,200}")
CONNECTED_SHELL = re.compile(
    r"(?:^|[;&|]|\bdo|\bthen)\s{0,4}(?:\"?\$\{?\w{1,40}\}?\"?|eval\b[^\n;|]{0,200}|(?:ba|z|da)?sh\b)[^\n;|]{0,100}[<>]&\s{0,2}\d",
    re.M,
)
"""A shell, or a command from a variable, with a connection as input or output."""
PIPED_DOWNLOAD = (
    re.compile(rf"\b(?:curl|wget|fetch)\b[^|;\n]{{0,600}}\|\s{{0,4}}(?:sudo\s{{1,4}}(?:-\w{{1,4}}\s{{1,4}})?)?(?:{SHELLS}|python3?\b|perl\b|node\b|ruby\b)"),
    re.compile(rf"(?:{SHELLS}|\beval|\bsource|(?:^|\s)\.)\s{{1,4}}[^|;\n]{{0,60}}(?:<\(|\$\(|`)\s{{0,4}}(?:curl|wget)\b"),
    re.compile(rf"\bbase64\s{{1,4}}(?:-d|-D|--decode)\b[^|;\n]{{0,60}}\|\s{{0,4}}(?:{SHELLS}|python3?\b|perl\b)"),
    re.compile(r"\beval\b[^\n]{0,200}\bbase64\s{1,4}(?:-d|-D|--decode)"),
    re.compile(r"\b(?:iex|Invoke-Expression)\b[^\n]{0,200}(?:DownloadString|Invoke-WebRequest|iwr)\b", re.I),
)  # fmt: skip
DESTRUCTIVE = (
    re.compile(r"\brm\s{1,4}(?:-{1,2}[\w-]{1,24}\s{1,4}){1,6}[\"']?(?:/|~/?|\$\{?HOME\}?/?|/\*|~/\*|/(?:etc|usr|var|home|bin|boot|lib)/?\*?)[\"']?(?=\s|$|;|&|\|)"),
    re.compile(r"\bmkfs(?:\.\w{1,8})?\s"),
    re.compile(r"\bdd\b[^|;\n]{0,200}\bof=/dev/(?:sd|nvme|vd|hd|disk|mmcblk)"),
    re.compile(r">\s{0,4}/dev/(?:sd|nvme|vd|hd|disk)\w"),
    re.compile(r"\bchmod\s{1,4}-R\s{1,4}(?:777|a\+rwx|000)\s{1,4}/(?=\s|$)"),
    re.compile(r"\bwipefs\s{1,4}-a|\bshred\s[^|;\n]{0,100}/dev/"),
)  # fmt: skip
ENV_DUMP = re.compile(
    r"(?:^|[;&|(`]\s{0,4})(?:printenv|env|export\s{1,2}-p|declare\s{1,2}-x|set)\s{0,4}(?:$|[|>;)&`])"
    r"|/proc/(?:self|\d{1,7}|1)/environ"
)
NETWORK = re.compile(
    r"(?:^|[\s;&|(`$/])(?:curl|wget|nc|ncat|netcat|scp|sftp|ftp|rsync|socat|telnet|ssh|aws\s{1,4}s3\s{1,4}(?:cp|sync|mv)"
    r"|gsutil\s{1,4}cp|rclone|mail|sendmail|mutt|nslookup|dig|Invoke-WebRequest|Invoke-RestMethod)(?=\s)"
)  # fmt: skip
IDENTITY_OPTION = re.compile(
    r"(?:(?<=\s)-i|--netrc-file|--key|--cert|--cacert|--kubeconfig|IdentityFile[= ]|--identity(?:-file)?)"
    r"[ =]{0,4}\S{1,200}"
)
"""Options that use a credential for its purpose."""
ASSIGNED = re.compile(
    r"(?:^|[\s;])(?:(?:export|local|readonly)\s{1,4})?(?:for\s{1,4})?([A-Za-z_]\w{0,60})(?==|\s{1,4}in\s)"
)
WRITTEN = re.compile(r"(?:>{1,2}\s{0,4}|-o\s{1,4}|-[a-zA-Z]{0,6}f\s{1,4}|--file[= ])([\"']?)([\w./~${}-]{3,120})\1")
COPIED = re.compile(r"(?:^|[\s;&|])(?:cp|mv|install|tar|zip|7z|gpg|openssl|base64|xxd|gzip)\s")
WORD = re.compile(r"[\w./~${}@-]{3,120}")


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command, possibly continued over several lines."""

    text: str
    line: int


def check_shell(text: str, file: str, first_line: int = 1) -> Iterator[Finding]:
    """Yield findings in a script that starts at `first_line` of a file."""
    commands = list(split_commands(text, first_line))
    for command in commands:
        yield from check_command(command, file)
    yield from check_multiline(text, file, first_line)
    yield from check_exfiltration(commands, file)


def check_multiline(text: str, file: str, first_line: int) -> Iterator[Finding]:
    """Yield findings that span several lines."""
    bomb = FORK_BOMBS[0].search(text)
    if bomb and "\n" in bomb[0]:
        yield make_finding("resource-fork-bomb", file, first_line + text.count("\n", 0, bomb.start()), bomb[0])
    opened = CONNECTION.search(text)
    if opened and CONNECTED_SHELL.search(text):
        yield make_finding("shell-reverse-shell", file, first_line + text.count("\n", 0, opened.start()), opened[0])


def check_command(command: ShellCommand, file: str) -> Iterator[Finding]:
    """Yield findings in a single command."""
    text = command.text
    if any(pattern.search(text) for pattern in REVERSE_SHELLS):
        yield make_finding("shell-reverse-shell", file, command.line, text)
    elif any(pattern.search(text) for pattern in REVERSE_SHELL_HINTS):
        yield make_finding("shell-reverse-shell-heuristic", file, command.line, text)
    if any(pattern.search(text) for pattern in FORK_BOMBS):
        yield make_finding("resource-fork-bomb", file, command.line, text)
    if any(pattern.search(text) for pattern in PIPED_DOWNLOAD):
        yield make_finding("shell-curl-pipe-shell", file, command.line, text)
    if any(pattern.search(text) for pattern in DESTRUCTIVE):
        yield make_finding("shell-destructive-command", file, command.line, text)
    if METADATA_HOST.search(text):
        yield make_finding("network-cloud-metadata", file, command.line, text)
    if ENV_DUMP.search(text):
        yield make_finding("shell-env-dump", file, command.line)


def split_commands(text: str, first_line: int) -> Iterator[ShellCommand]:
    """Yield the commands of a script. Continued lines are joined, comments removed."""
    command, start = "", first_line
    for number, line in enumerate(text.split("\n"), first_line):
        stripped = strip_comment(line[:MAX_COMMAND]).rstrip()
        if not command:
            start = number
        continues = stripped.endswith(("\\", "|", "&&")) and len(command) < MAX_COMMAND
        command += stripped[:-1] + " " if stripped.endswith("\\") else stripped
        if continues:
            continue
        if command.strip():
            yield ShellCommand(command, start)
        command = ""
    if command.strip():
        yield ShellCommand(command, start)


def strip_comment(line: str) -> str:
    """Return a line without its comment. A `#` inside a word or quotes does not start one."""
    if "#" not in line:
        return line
    quote = ""
    for index, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "#" and (index == 0 or line[index - 1] in " \t;"):
            return line[:index]
    return line


def check_exfiltration(commands: Sequence[ShellCommand], file: str) -> Iterator[Finding]:
    """Yield commands that send credentials or the environment, directly or through variables and files."""
    tainted: set[str] = set()
    for command in commands:
        text = IDENTITY_OPTION.sub(" ", command.text)
        is_secret = bool(SENSITIVE_PATH.search(text)) or is_env_dump(text) or uses_any(text, tainted)
        if not is_secret:
            continue
        if NETWORK.search(text):
            yield make_finding("shell-sensitive-exfil", file, command.line, command.text)
        if len(tainted) > MAX_TAINTED:
            continue
        tainted.update(ASSIGNED.findall(text))
        tainted.update(name for _, name in WRITTEN.findall(text) if not name.startswith("/dev/"))
        if COPIED.search(text):
            tainted.update(word for word in WORD.findall(text) if "/" in word and not SENSITIVE_PATH.search(word))


def is_env_dump(text: str) -> bool:
    """Return True if a command prints the whole environment."""
    return bool(ENV_DUMP.search(text)) and not re.match(r"\s{0,40}set\s{0,4}$", text)


def uses_any(text: str, names: set[str]) -> bool:
    """Return True if a command uses one of the variables or files."""
    return any((f"${name}" in text or f"${{{name}" in text) if name.isidentifier() else name in text for name in names)

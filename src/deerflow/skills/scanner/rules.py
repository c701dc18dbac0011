"""Scan rules and findings, shared patterns, and the rules for files as a whole."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Literal

SENSITIVE_PATH = re.compile(
    r"(?:"
    r"(?:^|[/\"'=@~\s(])\.ssh(?:/?(?=$|[\"'\s;|&)*])|/\*|/(?!(?:known_hosts|config|authorized_keys)\b)[\w.-]{1,60}(?<!\.pub)(?![\w.-]))"
    r"|\bid_(?:rsa|dsa|ecdsa|ed25519)(?![\w.])"
    r"|\.aws/(?:credentials|config)\b|(?:^|[/~\s])\.aws/?(?=$|[\"'\s;|&)])"
    r"|/etc/(?:shadow|gshadow|sudoers)\b"
    r"|\.git-credentials\b|(?:^|[/~\"'\s])\.netrc\b|(?:^|[/~\"'\s])\.pgpass\b|(?:^|[/~\"'\s])\.pypirc\b"
    r"|\.docker/config\.json\b|\.kube/config\b|\.azure/(?:accessTokens|msal_token)"
    r"|\.config/gcloud(?:/|\b)|application_default_credentials\.json\b"
    r"|\.gnupg(?:/|\b)|\.password-store(?:/|\b)"
    r"|/proc/(?:self|\d{1,7}|\*|1)/environ\b"
    r"|Login Data\b|Cookies\.sqlite\b|cookies\.sqlite\b|logins\.json\b|key4\.db\b|login\.keychain"
    r"|wallet\.dat\b|\.bash_history\b|\.zsh_history\b"
    r"|/var/run/secrets/kubernetes\.io"
    r")"
)
METADATA_HOST = re.compile(
    r"(?<![\d.])(?:169\.254\.169\.254|169\.254\.170\.2|100\.100\.100\.200|2852039166|0xa9fea9fe|0251\.0376\.0251\.0376)(?![\d])"
    r"|metadata\.google\.internal|\[?fd00:ec2::254\]?|metadata\.tencentyun\.com",
    re.I,
)
CLEARTEXT_URL = re.compile(r"\bhttp://([A-Za-z0-9.\-\[\]:]{1,255})", re.I)
LOCAL_HOST = re.compile(
    r"(?:localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|0\.0\.0\.0|\[::1\]|10\.\d{1,3}\.\d{1,3}\.\d{1,3}"
    r"|192\.168\.\d{1,3}\.\d{1,3}|172\.(?:1[6-9]|2\d|3[01])\.\d{1,3}\.\d{1,3}|host\.docker\.internal)(?::\d{1,5})?$",
    re.I,
)
NAMESPACE_HOSTS = (
    "www.w3.org", "schemas.", "purl.org", "xmlns.", "ns.adobe.com", "json-schema.org", "www.sitemaps.org", "example.",
    "www.example.", "www.opengis.net", "dublincore.org", "xml.org", "docs.oasis-open.org", "relaxng.org",
)  # fmt: skip
"""Hosts of XML namespaces and examples, which are not contacted."""
EXFILTRATION_HOSTS = re.compile(
    r"\b(?:webhook\.site|requestbin\.\w{2,4}|[\w-]{1,40}\.ngrok(?:-free)?\.(?:io|app|dev)|pastebin\.com|transfer\.sh"
    r"|[\w-]{1,40}\.oastify\.com|interact\.sh|[\w-]{1,40}\.pipedream\.net|discord(?:app)?\.com/api/webhooks"
    r"|api\.telegram\.org/bot|hooks\.slack\.com/services|file\.io|0x0\.st|burpcollaborator\.net)",
    re.I,
)


Severity = Literal["CRITICAL", "HIGH", "MEDIUM", "LOW"]
MAX_EVIDENCE = 120


@dataclass(frozen=True, slots=True)
class ScanRule:
    """A rule with its severity, message and remedy."""

    severity: Severity
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A match of a rule in a skill."""

    rule_id: str
    severity: Severity
    file: str
    line: int | None
    message: str
    remediation: str
    evidence: str = ""
    """Shortened line without secrets."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{place}: {self.message} ({self.rule_id})"

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as JSON data."""
        return asdict(self)


RULES: Mapping[str, ScanRule] = MappingProxyType(
    {
        "package-path-traversal": ScanRule("CRITICAL", "path is outside the skill", "use paths below the skill"),
        "package-absolute-path": ScanRule("CRITICAL", "path is absolute", "use paths relative to the skill"),
        "package-symlink": ScanRule("HIGH", "symbolic link", "add the file itself"),
        "package-nested-skill-md": ScanRule("CRITICAL", "nested skill", "split it into two skills"),
        "package-oversized-total": ScanRule("CRITICAL", "skill is too large to scan", "make it smaller"),
        "package-too-many-members": ScanRule("CRITICAL", "too many files", "remove some of them"),
        "package-oversized-file": ScanRule("CRITICAL", "file is too large to scan", "split or shorten it"),
        "package-executable-binary": ScanRule("CRITICAL", "compiled program", "include the source instead"),
        "package-nested-archive": ScanRule("HIGH", "nested archive, which is not scanned", "unpack it into the skill"),
        "package-hidden-sensitive-file": ScanRule("HIGH", "file name used for credentials", "remove it"),
        "package-git-directory": ScanRule("MEDIUM", "git repository", "remove the .git folder"),
        "secret-private-key": ScanRule("CRITICAL", "contains a private key", "remove it and replace the key"),
        "secret-cloud-token": ScanRule("CRITICAL", "contains an access token", "remove it and revoke the token"),
        "secret-env-assignment": ScanRule("HIGH", "seems to contain a secret", "read it from the environment"),
        "declaration-prompt-override": ScanRule(
            "HIGH", "overrides the agent's rules or hides text", "state openly what to do"
        ),
        "declaration-sensitive-capability": ScanRule(
            "HIGH", "asks for a capability that a skill does not need", "remove it, or leave it to a person"
        ),
        "declaration-sensitive-path": ScanRule("HIGH", "mentions a credential path", "do not use that file"),
        "declaration-external-endpoint": ScanRule(
            "MEDIUM", "mentions a host that is often used for exfiltration", "use the service itself"
        ),
        "python-dynamic-exec": ScanRule("CRITICAL", "executes code computed at run time", "write the code out"),
        "python-shell-exec": ScanRule("CRITICAL", "passes a string to a shell", "call subprocess.run with a list"),
        "python-sensitive-exfil": ScanRule(
            "CRITICAL", "sends credentials over the network", "do not read or send them"
        ),
        "python-env-dump-exfil": ScanRule(
            "CRITICAL", "sends all environment variables over the network", "send only what is needed"
        ),
        "python-reverse-shell": ScanRule("CRITICAL", "opens a reverse shell", "remove it"),
        "python-dynamic-import": ScanRule(
            "HIGH", "imports modules by names computed at run time", "import them by name"
        ),
        "python-subprocess": ScanRule(
            "HIGH", "starts other programs", "make sure that no untrusted text is passed to them"
        ),
        "python-sensitive-path-read": ScanRule("HIGH", "reads a credential path", "do not read that file"),
        "python-unsafe-deserialization": ScanRule(
            "MEDIUM", "loads data that can execute code", "use JSON or a safe loader"
        ),
        "shell-reverse-shell": ScanRule("CRITICAL", "opens a reverse shell", "remove it"),
        "shell-reverse-shell-heuristic": ScanRule(
            "HIGH", "opens connections in a way typical of reverse shells", "use curl or a program for it"
        ),
        "shell-sensitive-exfil": ScanRule("CRITICAL", "sends credentials over the network", "do not read or send them"),
        "shell-curl-pipe-shell": ScanRule("HIGH", "executes downloaded or decoded code", "include the script"),
        "shell-destructive-command": ScanRule(
            "HIGH", "destroys files or disks", "delete only files created by the skill"
        ),
        "shell-env-dump": ScanRule("MEDIUM", "prints all environment variables", "print only what is needed"),
        "network-cloud-metadata": ScanRule(
            "CRITICAL", "requests the machine's credentials from the cloud", "remove it"
        ),
        "resource-fork-bomb": ScanRule("CRITICAL", "starts processes without limit", "remove it"),
        "network-cleartext-http": ScanRule("MEDIUM", "uses unencrypted http", "use https"),
        "network-local-http": ScanRule(
            "LOW", "connects to a server on this machine or network", "mention it in SKILL.md"
        ),
    }
)  # fmt: skip
"""All rules by id."""


def make_finding(rule_id: str, file: str, line: int | None = None, evidence: str = "", detail: str = "") -> Finding:
    """Return a finding for a rule. `detail` is added to its message."""
    rule = RULES[rule_id]
    message = f"{rule.message}: {detail}" if detail else rule.message
    return Finding(rule_id, rule.severity, file, line, message, rule.remedy, shorten(evidence))


def select_blocking(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings that block a skill."""
    return tuple(finding for finding in findings if finding.severity == "CRITICAL")


def shorten(line: str) -> str:
    """Return a line for display: single line, limited length, printable characters only."""
    text = "".join(each if each.isprintable() else " " for each in line.strip()[: 4 * MAX_EVIDENCE])
    text = " ".join(text.split())
    return text if len(text) <= MAX_EVIDENCE else f"{text[: MAX_EVIDENCE - 1]}…"


MAX_TOTAL = 512 * 1024**2
MAX_FILES = 4096
MAX_FILE = 64 * 1024**2
MAX_TEXT = 1024**2
"""Maximum scanned size of a text, and maximum size of a script."""
MAX_ALL_TEXT = 32 * 1024**2
HEAD_BYTES = 4096
SKILL_FILE = "SKILL.md"

BINARY_MAGIC = (
    b"\x7fELF",
    b"MZ",
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",  # Mach-O for several machines, and Java
    b"\xbe\xba\xfe\xca",
    b"\x00asm",
    b"dex\n",
)
BINARY_SUFFIXES = (
    ".exe", ".dll", ".so", ".dylib", ".pyc", ".pyo", ".pyd", ".class", ".jar", ".msi", ".scr", ".com", ".o", ".a",
    ".node", ".wasm",
)  # fmt: skip
ARCHIVE_MAGIC = (
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ",
    b"7z\xbc\xaf",
    b"Rar!",
    b"\x28\xb5\x2f\xfd",
)
ARCHIVE_SUFFIXES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst", ".skill", ".whl", ".egg")
DOCUMENT_SUFFIXES = (".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub", ".dotx", ".xltx", ".potx", ".vsdx")
"""Documents that are zip files internally."""
SCRIPT_SUFFIXES = (
    ".py", ".pyw", ".sh", ".bash", ".zsh", ".ksh", ".fish", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua",
    ".ps1", ".bat", ".cmd", ".awk", ".r", ".jl", ".tcl",
)  # fmt: skip
SENSITIVE_NAMES = (
    ".env", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass", ".htpasswd", "id_rsa", "id_dsa", "id_ecdsa",
    "id_ed25519", ".dockercfg", ".vault-token", ".my.cnf", ".s3cfg", ".boto", "credentials.json",
)  # fmt: skip
KEY_STORES = (".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk")
BINARY_KEYS, DER_SEQUENCE = (".key", ".p8", ".pk8"), (b"\x30\x81", b"\x30\x82", b"\x30\x2e")
SENSITIVE_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure"})
EXAMPLE_ENV_FILES = (".env.example", ".env.sample", ".env.template")


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file of a skill, with the content to scan."""

    path: str
    size: int
    content: bytes = b""
    """Content of a text up to `MAX_TEXT`, or the first bytes of a binary file."""
    is_link: bool = False

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.path).suffix.lower()

    @property
    def is_script(self) -> bool:
        """True if an agent might run the file."""
        return self.suffix in SCRIPT_SUFFIXES or self.content.startswith(b"#!")

    @property
    def is_text(self) -> bool:
        return b"\0" not in self.content[:HEAD_BYTES]


def check_package(files: Sequence[ScannedFile]) -> Iterator[Finding]:
    """Yield findings about the files of a skill, regardless of their content."""
    if len(files) > MAX_FILES:
        yield make_finding("package-too-many-members", SKILL_FILE, detail=f"{len(files):,}, at most {MAX_FILES:,}")
    if (total := sum(file.size for file in files)) > MAX_TOTAL:
        yield make_finding(
            "package-oversized-total", SKILL_FILE, detail=f"at most {MAX_TOTAL // 1024**2} MB, not {total:,} B"
        )
    if sum(len(file.content) for file in files) > MAX_ALL_TEXT:
        yield make_finding(
            "package-oversized-total", SKILL_FILE, detail=f"at most {MAX_ALL_TEXT // 1024**2} MB of text"
        )
    yield from check_git_folders(files)
    for file in files:
        yield from check_path(file.path)
        yield from check_type(file)


def check_path(path: str) -> Iterator[Finding]:
    """Yield a finding if a path is outside the skill on any system."""
    parts = path.replace("\\", "/").split("/")
    if path.startswith(("/", "\\", "~")) or path[1:2] == ":":
        yield make_finding("package-absolute-path", path)
    elif ".." in (unicodedata.normalize("NFKC", part).strip() for part in parts):
        yield make_finding("package-path-traversal", path)


def check_type(file: ScannedFile) -> Iterator[Finding]:
    """Yield findings about the type and size of a file."""
    if file.is_link:
        yield make_finding("package-symlink", file.path)
        return
    name = PurePosixPath(file.path).name
    if name.casefold() == SKILL_FILE.casefold() and file.path != SKILL_FILE:
        yield make_finding("package-nested-skill-md", file.path)
    if file.size > MAX_FILE:
        yield make_finding("package-oversized-file", file.path, detail=f"at most {MAX_FILE // 1024**2} MB")
    elif file.is_script and file.size > MAX_TEXT:
        yield make_finding("package-oversized-file", file.path, detail=f"a script has at most {MAX_TEXT // 1024**2} MB")
    if is_binary(file):
        yield make_finding("package-executable-binary", file.path)
    elif is_archive(file):
        yield make_finding("package-nested-archive", file.path)
    if file.suffix in KEY_STORES or (file.suffix in BINARY_KEYS and file.content.startswith(DER_SEQUENCE)):
        yield make_finding("secret-private-key", file.path)
    if is_sensitive(file.path):
        yield make_finding("package-hidden-sensitive-file", file.path)


def is_binary(file: ScannedFile) -> bool:
    """Return True for compiled code, detected by its first bytes or suffix."""
    if file.content.startswith(b"MZ") and file.is_text and file.suffix not in BINARY_SUFFIXES:
        return False  # a text may begin with these letters
    return file.content.startswith(BINARY_MAGIC) or (file.suffix in BINARY_SUFFIXES and not file.is_text)


def is_archive(file: ScannedFile) -> bool:
    """Return True for archives."""
    if file.suffix in DOCUMENT_SUFFIXES:
        return False
    is_tar = file.content[257:262] == b"ustar"
    return file.content.startswith(ARCHIVE_MAGIC) or is_tar or (file.suffix in ARCHIVE_SUFFIXES and not file.is_text)


def is_sensitive(path: str) -> bool:
    """Return True if files of that name hold credentials."""
    *folders, name = path.split("/")
    if name in EXAMPLE_ENV_FILES:
        return False
    return name in SENSITIVE_NAMES or name.startswith(".env.") or not SENSITIVE_FOLDERS.isdisjoint(folders)


def check_git_folders(files: Iterable[ScannedFile]) -> Iterator[Finding]:
    """Yield one finding per git repository."""
    folders = {
        "/".join(parts[: parts.index(".git") + 1])
        for file in files
        if ".git" in (parts := file.path.split("/"))
    }  # fmt: skip
    yield from (make_finding("package-git-directory", folder) for folder in sorted(folders))

"""Rules about the files of a skill as such: where they are, how large, and of what kind."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from deerflow.skills.scanner.rules import Finding, found

MAX_TOTAL = 512 * 1024**2
MAX_FILES = 4096
MAX_FILE = 64 * 1024**2
MAX_TEXT = 1024**2
"""Of a text so much is looked at; a script must not be longer."""
MAX_ALL_TEXT = 32 * 1024**2
HEAD = 4096
SKILL_FILE = "SKILL.md"

PROGRAMS = (
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
PROGRAM_ENDINGS = (
    ".exe", ".dll", ".so", ".dylib", ".pyc", ".pyo", ".pyd", ".class", ".jar", ".msi", ".scr", ".com", ".o", ".a",
    ".node", ".wasm",
)  # fmt: skip
ARCHIVES = (b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!", b"\x28\xb5\x2f\xfd")
ARCHIVE_ENDINGS = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst", ".skill", ".whl", ".egg")
DOCUMENTS = (".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub", ".dotx", ".xltx", ".potx", ".vsdx")
"""Zip files that are no archives for the people who use them."""
SCRIPT_ENDINGS = (
    ".py", ".pyw", ".sh", ".bash", ".zsh", ".ksh", ".fish", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua",
    ".ps1", ".bat", ".cmd", ".awk", ".r", ".jl", ".tcl",
)  # fmt: skip
SENSITIVE_NAMES = (
    ".env", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass", ".htpasswd", "id_rsa", "id_dsa", "id_ecdsa",
    "id_ed25519", ".dockercfg", ".vault-token", ".my.cnf", ".s3cfg", ".boto", "credentials.json",
)  # fmt: skip
SENSITIVE_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure"})
HARMLESS_ENV = (".env.example", ".env.sample", ".env.template")


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file of a skill, as far as it is looked at."""

    path: str
    size: int
    content: bytes = b""
    """A text up to `MAX_TEXT`; of anything else only the beginning."""
    is_link: bool = False

    @property
    def ending(self) -> str:
        return PurePosixPath(self.path).suffix.lower()

    @property
    def is_script(self) -> bool:
        """Whether an agent might run it."""
        return self.ending in SCRIPT_ENDINGS or self.content.startswith(b"#!")

    @property
    def is_text(self) -> bool:
        return b"\0" not in self.content[:HEAD]


def check_package(files: Sequence[SkillFile]) -> Iterator[Finding]:
    """What is wrong with the files of a skill, whatever is said in them."""
    if len(files) > MAX_FILES:
        yield found("package-too-many-members", SKILL_FILE, detail=f"{len(files):,}, at most {MAX_FILES:,}")
    if (total := sum(file.size for file in files)) > MAX_TOTAL:
        yield found("package-oversized-total", SKILL_FILE, detail=f"at most {MAX_TOTAL // 1024**2} MB, not {total:,} B")
    if sum(len(file.content) for file in files) > MAX_ALL_TEXT:
        yield found("package-oversized-total", SKILL_FILE, detail=f"at most {MAX_ALL_TEXT // 1024**2} MB of text")
    yield from git_folders(files)
    for file in files:
        yield from check_path(file.path)
        yield from check_kind(file)


def check_path(path: str) -> Iterator[Finding]:
    """Whether a path stays in the skill, on any system."""
    parts = path.replace("\\", "/").split("/")
    if path.startswith(("/", "\\", "~")) or path[1:2] == ":":
        yield found("package-absolute-path", path)
    elif ".." in (unicodedata.normalize("NFKC", part).strip() for part in parts):
        yield found("package-path-traversal", path)


def check_kind(file: SkillFile) -> Iterator[Finding]:
    """What a file is, and whether it belongs into a skill."""
    if file.is_link:
        yield found("package-symlink", file.path)
        return
    name = PurePosixPath(file.path).name
    if name.casefold() == SKILL_FILE.casefold() and file.path != SKILL_FILE:
        yield found("package-nested-skill-md", file.path)
    if file.size > MAX_FILE:
        yield found("package-oversized-file", file.path, detail=f"at most {MAX_FILE // 1024**2} MB")
    elif file.is_script and file.size > MAX_TEXT:
        yield found("package-oversized-file", file.path, detail=f"a script has at most {MAX_TEXT // 1024**2} MB")
    if is_program(file):
        yield found("package-executable-binary", file.path)
    elif is_archive(file):
        yield found("package-nested-archive", file.path)
    if is_sensitive(file.path):
        yield found("package-hidden-sensitive-file", file.path)


def is_program(file: SkillFile) -> bool:
    """Whether it is compiled code; its first bytes tell, and its name where they do not."""
    if file.content.startswith(b"MZ") and file.is_text and file.ending not in PROGRAM_ENDINGS:
        return False  # a text may begin so
    return file.content.startswith(PROGRAMS) or (file.ending in PROGRAM_ENDINGS and not file.is_text)


def is_archive(file: SkillFile) -> bool:
    """Whether other files are packed into it."""
    if file.ending in DOCUMENTS:
        return False
    is_tar = file.content[257:262] == b"ustar"
    return file.content.startswith(ARCHIVES) or is_tar or (file.ending in ARCHIVE_ENDINGS and not file.is_text)


def is_sensitive(path: str) -> bool:
    """Whether files that are called so hold credentials."""
    *folders, name = path.split("/")
    if name in HARMLESS_ENV:
        return False
    return name in SENSITIVE_NAMES or name.startswith(".env.") or not SENSITIVE_FOLDERS.isdisjoint(folders)


def git_folders(files: Iterable[SkillFile]) -> Iterator[Finding]:
    """Each repository is told of once."""
    folders = {
        "/".join(parts[: parts.index(".git") + 1])
        for file in files
        if ".git" in (parts := file.path.split("/"))
    }  # fmt: skip
    yield from (found("package-git-directory", folder) for folder in sorted(folders))

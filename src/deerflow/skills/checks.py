"""What can be said of a change of a skill before anybody looks at its content."""

import hashlib
import re
from collections.abc import Sequence

from deerflow.domain.errors import Conflict, InvalidRequest, NotFound, SkillInvalid, TooLarge
from deerflow.skills.format import SKILL_FILE, parse_skill
from deerflow.skills.history import AuthorKind
from deerflow.skills.scanner.package import MAX_TEXT, SCRIPT_ENDINGS, SkillFile
from deerflow.skills.store import text_of

SUPPORT_FOLDERS = ("references", "templates", "scripts", "assets")
TESTS, CONTRACT = "tests", "skill.toml"
SUPPORT_PATH = re.compile(r"[A-Za-z0-9_][\w.-]{0,99}(?:/[A-Za-z0-9_][\w.-]{0,99}){1,6}")


def check_support_path(path: str, author: AuthorKind) -> str:
    """Return `path`, if a file beside SKILL.md can be there.

    An agent writes neither the contract nor the tests of a skill: they are what its changes are measured by.

    Raises:
        InvalidRequest: It cannot.
    """
    folders = SUPPORT_FOLDERS if author == "agent" else (*SUPPORT_FOLDERS, TESTS)
    if author != "agent" and path == CONTRACT:
        return path
    if not SUPPORT_PATH.fullmatch(path) or path.split("/")[0] not in folders:
        places = ", ".join(f"{folder}/" for folder in folders)
        raise InvalidRequest(f"{path[:200]!r}: files of a skill are in one of {places} and have plain names")
    return path


def check_path(path: str) -> str:
    """Return `path`, if it leads to something in a skill; else there is nothing."""
    if any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path:
        raise NotFound(f"there is no file {path[:200]!r} in a skill")
    return path


def check_header(name: str, content: bytes | None) -> None:
    """Refuse a SKILL.md that cannot be used, or is another skill's."""
    text = text_of(content)
    if text is None:
        raise SkillInvalid(f"{SKILL_FILE}: is no text, or not there")
    header = parse_skill(text)
    if header.name != name:
        raise InvalidRequest(f"the skill {name!r} cannot be called {header.name!r} from now on: make a new one")


def check_hash(name: str, content: bytes | None, expected: str | None) -> None:
    """Refuse to change what is not what somebody has seen."""
    if expected is None:
        return
    found = None if content is None else hashlib.sha256(content).hexdigest()
    if found != expected:
        raise Conflict(f"the skill {name!r} was changed meanwhile (its hash is {found}); load it again")


def encode(content: str) -> bytes:
    """A text as the bytes of a file."""
    try:
        encoded = content.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("content: half of a surrogate pair is not a character") from None
    if len(encoded) > MAX_TEXT:
        raise TooLarge(f"content: a file of a skill has at most {MAX_TEXT // 1024**2} MB, not {len(encoded)} bytes")
    return encoded


def encoded_or_none(text: str | None) -> bytes | None:
    """A text of the history as it was in its file."""
    return None if text is None else text.encode()


def read_by_models(files: Sequence[SkillFile]) -> Sequence[SkillFile]:
    """What a model reads of a skill: what agents follow and what they run."""
    return [file for file in files if file.is_script or file.path.endswith((".md", *SCRIPT_ENDINGS, ".toml", ".yaml"))]

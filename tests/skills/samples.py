"""Sample files that the scanner must block or accept. None of the secrets is real."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KEY = "\n".join(
    [
        "MIIEpAIBAAKCAQEA3Tz2mr7SZiAMfQyuvBjM9Oi8hG7sWz1RkXpQvYcL4nUeJwTd",
        "9Kf2LmZxVbNqRtYuIoPaSdFgHjKlZxCvBnMqWeRtYuIoPlKjHgFdSaMnBvCxZqWe",
        "Xc8VbN3mQ1wErTy7UiOp2aSdFg6HjKl4ZxCvB5nMqWeRt9YuIoP0lKjHgFdSaZx1",
    ]
)
PLACEHOLDERS = {
    "{TOKEN}": "gh" + "p_" + "R7xKq2ZbW9mTn4VcYd8LsJf3HgAe6PuQ1oXi",
    "{AWS}": "AK" + "IA" + "Q3EGRT7XWLM2ZPKV",
    "{OPENAI}": "sk-" + "proj-" + "h8Kz2Qw9Lx4Vb7Nm1Rt6Yp3Sd5Fg0Jc",
    "{PRIVATE}": "PRIVATE" + " KEY",
    "{SHORT_KEY}": "MC4CAQAwBQYDK2VwBCIEIJBXJEhRVuaqv0k1UcBiPHaTnsxVEvmy4vbs3KazEBUt",
    "{KEY}": KEY,
    "{KEY_IN_JSON}": KEY.replace("\n", "\\n"),
    "{ZWJ}": "\u200d",
    "{ZWNJ}": "\u200c",
}
"""Secrets are assembled here, so that secret scanners do not flag the sample files."""
HEADERS = {
    "SKILL.md": "---\nname: sample\ndescription: A sample.\n---\n",
    "scripts/tool.sh": "#!/bin/bash\n",
}


@dataclass(frozen=True)
class Sample:
    """One file of a skill, and the blocking rule that applies to it."""

    about: str
    path: str
    text: str
    rule: str | None = None


def read_samples(name: str) -> Iterator[Sample]:
    """Yield the samples of a file, each below a line `==== path | rule | description`."""
    for part in Path(__file__).with_name(name).read_text(encoding="utf-8").split("==== ")[1:]:
        header, _, text = part.partition("\n")
        path, rule, about = (each.strip() for each in header.split("|"))
        for placeholder, real in PLACEHOLDERS.items():
            text = text.replace(placeholder, real)
        yield Sample(about, path, HEADERS.get(path, "") + text, None if rule == "-" else rule)


MALICIOUS = tuple(read_samples("samples_malicious.txt"))
HARMLESS = tuple(read_samples("samples_harmless.txt"))

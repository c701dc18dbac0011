"""Lay out a new skill that already passes its own test."""

import argparse
import re
import sys
from pathlib import Path

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_NAME, MIN_DESCRIPTION, MAX_DESCRIPTION = 64, 40, 1024

SKILL = """---
name: {name}
description: {description}
license: MIT
allowed-tools: {tools}
metadata:
  version: "0.1"
---

# {title}

{description}

## When not to use it
Name the neighbouring task here, and what to do instead.

## Steps
1. Look at the input: `ls /mnt/user-data/uploads`. If nothing is there, ask for it with `ask_clarification`.
2. Run `python /mnt/skills/*/{name}/scripts/run.py INPUT --out /mnt/user-data/outputs/result.md`.
   Exit code 2 means that the input cannot be used; the sentence says why.
3. Compare the result with `references/quality.md`, correct it, and present it with `present_files`.

## Quality bar
- The result names its input and what was left out.

## What goes wrong
| symptom | cause | remedy |
|---|---|---|
| empty result | the file has no text | say so instead of presenting it |
"""

SCRIPT = '''"""Write the number of lines and words of a text to a Markdown file."""

import argparse
import sys
from pathlib import Path


def main() -> int:
    """Do it for one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    try:
        text = options.input.read_text(encoding="utf-8")
        if not text.strip():
            raise ValueError(f"{options.input} is empty")
        lines, words = len(text.splitlines()), len(text.split())
        options.out.write_text(f"# {options.input.name}\\n\\n{lines} lines, {words} words\\n", encoding="utf-8")
    except (OSError, ValueError) as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    print(f"{lines} lines, {words} words, in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
'''

QUALITY = """# What a good result looks like

Write down, for one real example, what an expert would check before handing it over.
"""

CONTRACT = """[needs]
tools = [{tools}]
paths = ["/mnt/user-data/workspace", "/mnt/user-data/outputs"]
hosts = [{hosts}]
environment = []
packages = []

[budget]
seconds = 600
max_tool_calls = 60
"""

TEST = """description: A text is counted, and an empty one refused.
prompt: /{name} Please do it for this file.
uploads:
  input.txt: {{text: "one two\\nthree\\n"}}
  empty.txt: {{text: " \\n"}}
steps:
  - calls:
      - tool: bash
        args:
          description: run it
          command: >-
            python /mnt/skills/*/{name}/scripts/run.py /mnt/user-data/uploads/input.txt
            --out /mnt/user-data/outputs/result.md
  - calls:
      - tool: bash
        args:
          description: an empty file
          command: >-
            python /mnt/skills/*/{name}/scripts/run.py /mnt/user-data/uploads/empty.txt
            --out /mnt/user-data/outputs/none.md
  - say: Done.
expect:
  answer: [Done]
  tools:
    - {{tool: bash, contains: ["2 lines, 3 words"], fails: false}}
    - {{tool: bash, contains: ["is empty"], fails: true}}
  files:
    /mnt/user-data/outputs/result.md: {{kind: md, contains: ["3 words"]}}
  absent: [/mnt/user-data/outputs/none.md]
limits: {{seconds: 60}}
"""

ALWAYS = ("bash", "read_file", "write_file", "str_replace", "ls", "present_files", "ask_clarification", "write_todos")


def main() -> int:
    """Make one folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="small letters, digits and hyphens")
    parser.add_argument("--description", required=True, help="what it does, when to use it, when not")
    parser.add_argument("--into", type=Path, required=True, help="the folder in which the skill's folder is made")
    parser.add_argument("--tools", nargs="*", default=[], help="tools it needs beside the usual ones")
    parser.add_argument("--hosts", nargs="*", default=[], help="hosts its scripts must reach")
    options = parser.parse_args()
    if problem := objection(options):
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    folder = options.into / options.name
    tools = list(dict.fromkeys([*ALWAYS, *options.tools]))
    words = {"name": options.name, "title": options.name.replace("-", " ").capitalize()}
    words["tools"] = " ".join(tools)
    # A description may hold colons and marks, which YAML would take for its own: write it as a block.
    block = ">-\n  " + " ".join(options.description.split())
    files = {
        "SKILL.md": SKILL.format(**words, description="\0").replace("\0", block, 1).replace("\0", options.description),
        "skill.toml": CONTRACT.format(tools=quoted(tools), hosts=quoted(options.hosts)),
        "scripts/run.py": SCRIPT,
        "references/quality.md": QUALITY,
        "tests/first.yaml": TEST.format(**words),
    }
    try:
        for path, content in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
    except OSError as problem:
        print(f"Error: {folder} cannot be written: {problem}", file=sys.stderr)
        return 2
    print(f"Made {folder}:")
    print("\n".join(f"  {path}" for path in files))
    return 0


def objection(options: argparse.Namespace) -> str | None:
    """Why no skill can be made so."""
    if len(options.name) > MAX_NAME or not NAME.fullmatch(options.name):
        return f"a name is 1 to {MAX_NAME} small letters, digits and single hyphens between them, not {options.name!r}"
    if not MIN_DESCRIPTION <= len(options.description) <= MAX_DESCRIPTION:
        wanted = f"{MIN_DESCRIPTION} to {MAX_DESCRIPTION} say what, when and when not"
        return f"the description has {len(options.description)} characters; {wanted}"
    if re.search(r"[<>]", options.description):
        return "a description has no angle brackets"
    if (options.into / options.name).exists():
        return f"{options.into / options.name} exists; choose another name or change what is there"
    return None


def quoted(names: list[str]) -> str:
    """Names as TOML writes them."""
    return ", ".join(f'"{name}"' for name in names)


if __name__ == "__main__":
    sys.exit(main())

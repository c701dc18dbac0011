"""Reads and changes PDF files."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from changes import fill, merge, number, pages, protect, rotate, split, watermark
from readings import form, images, info, render, tables, text

COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "info": info, "text": text, "tables": tables, "images": images, "form": form, "render": render,
    "merge": merge, "split": split, "pages": pages, "rotate": rotate, "watermark": watermark, "number": number,
    "fill": fill, "protect": protect,
}  # fmt: skip
WRITES_FOLDER = {"tables", "images", "render", "split"}

OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "text": {"--layout": {"action": "store_true", "help": "keep columns where they are"}},
    "tables": {"--lines": {"action": argparse.BooleanOptionalAction, "default": True, "help": "tables have rules"}},
    "render": {"--dpi": {"type": int, "default": 110}},
    "split": {
        "--every": {"type": int, "default": 1, "help": "so many pages per file"},
        "--parts": {"help": "choices of pages with semicolons between: 1-3;4-last"},
    },
    "pages": {"--remove": {"action": "store_true", "help": "leave these pages out instead"}},
    "rotate": {"--by": {"type": int, "choices": [90, 180, 270], "required": True, "help": "degrees, clockwise"}},
    "watermark": {
        "--text": {"help": "words across the page"},
        "--stamp": {"type": Path, "help": "a PDF whose first page is laid over"},
        "--under": {"action": "store_true", "help": "below the content instead of above"},
    },
    "number": {
        "--first": {"type": int, "default": 1, "help": "the number of the first page"},
        "--format": {"default": "{page} / {pages}"},
    },
    "fill": {
        "--values": {"type": Path, "required": True, "help": "JSON or YAML: field: value"},
        "--flatten": {"action": "store_true", "help": "nobody can change the fields afterwards"},
    },
    "protect": {
        "--new-password": {"help": "the password to set"},
        "--open": {"action": "store_true", "help": "take the protection away"},
    },
}
"""What only one command takes."""


def main() -> None:
    """Read the command line and do the one thing it asks."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, does in COMMANDS.items():
        command = commands.add_parser(name, help=does.__doc__)
        command.set_defaults(does=does)
        command.add_argument("--password", default="", help="of an encrypted file")
        if name == "merge":
            command.add_argument("files", nargs="+", help="files in order, each optionally with pages: a.pdf:1-3")
        else:
            command.add_argument("file", type=Path)
        if name not in {"info", "form"}:
            place = "a folder" if name in WRITES_FOLDER else "a file"
            command.add_argument("--out", type=Path, required=name != "text", help=f"where to write: {place}")
        if name in {"text", "tables", "images", "render", "pages", "rotate", "watermark"}:
            command.add_argument("--pages", required=name == "pages", help="for instance 1-3,7,9-last")
        for flag, settings in OPTIONS.get(name, {}).items():
            command.add_argument(flag, **settings)
    arguments = parser.parse_args()
    arguments.does(arguments)


if __name__ == "__main__":
    main()

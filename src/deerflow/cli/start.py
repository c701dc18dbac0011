"""Where the `deerflow` command begins: everything is imported before the garbage collector looks at any of it."""

import gc
import sys
from importlib import import_module


def main() -> None:
    """Run the command. What is imported stays, so looking for garbage in it is a tenth of the start for nothing."""
    gc.disable()
    program = import_module("deerflow.cli.main")
    command = program.command_for(sys.argv[1:])
    gc.freeze()
    gc.enable()
    program.run(command)

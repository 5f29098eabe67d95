"""The command line: `gswm COMMAND ...`.

A command is a frozen dataclass whose fields are its settings and whose `run` does it. Only the
module of the command that was asked for is imported: `gswm --help` does not wait for torch.
"""

import contextlib
import importlib
import io
import re
import sys
import traceback
from dataclasses import dataclass

from gswm.errors import UserError


@dataclass(frozen=True)
class Command:
    """Where a command lives, and what it does."""

    module: str
    name: str
    line: str


COMMANDS = {
    "demo": Command(
        "gswm.commands.demo", "Demo", "Make episodes of every world, and pictures of them."
    ),
    "data make": Command("gswm.commands.data", "Make", "Make a world's data set as an HDF5 file."),
    "data show": Command("gswm.commands.data", "Show", "Draw an episode with boxes and ids."),
    "bench data": Command("gswm.commands.bench", "Data", "Measure how fast data is made."),
}


def main(args: list[str] | None = None) -> int:
    """Run the command that `args` names; its exit code."""
    args = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in args
    args = [a for a in args if a != "--debug"]
    try:
        name, rest = find(args)
        if name is None:
            print(overview(" ".join(args[:1]) if args and not args[0].startswith("-") else ""))
            return 0
        return parse(name, rest).run() or 0
    except UserError as error:
        if debug:
            traceback.print_exc()
        print(f"gswm: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("gswm: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # whoever read us has gone: there is nobody to tell
        return 141


def find(args: list[str]) -> tuple[str | None, list[str]]:
    """The command that `args` begin with, and the rest; no command where help is wanted."""
    words = args[:2] if len(args) > 1 and not args[1].startswith("-") else args[:1]
    for n in (2, 1):
        if " ".join(words[:n]) in COMMANDS and len(words) >= n:
            return " ".join(words[:n]), args[n:]
    groups = {name.split()[0] for name in COMMANDS}
    if not args or args[0] in ("-h", "--help") or (words[0] in groups and len(words) == 1):
        return None, args
    raise UserError(f"there is no command '{' '.join(words)}'; `gswm --help` lists all commands")


def overview(group: str) -> str:
    """Every command with its one line."""
    rows = [(n, c.line) for n, c in COMMANDS.items() if n.split()[0] == group or not group]
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name:<{width}}  {line}" for name, line in rows]
    tail = "`gswm COMMAND --help` shows a command's settings; --debug shows where an error is from."
    return "\n".join(["usage: gswm COMMAND [settings]", "", *lines, "", tail])


def parse(name: str, args: list[str]):
    """The command with its settings, from the command line."""
    command = COMMANDS[name]
    cls = getattr(importlib.import_module(command.module), command.name)
    if hasattr(cls, "from_args"):
        return cls.from_args(args)
    return tyro_cli(cls, args, prog=f"gswm {name}", description=command.line)


def tyro_cli(cls, args: list[str], **settings):
    """Parse with tyro, with its box of an error message as one line."""
    import tyro

    caught = io.StringIO()
    try:
        with contextlib.redirect_stderr(caught):
            return tyro.cli(cls, args=args, **settings)
    except SystemExit as stop:
        if stop.code:
            raise UserError(one_line(caught.getvalue())) from stop
        raise


def one_line(box: str) -> str:
    """The text of one of tyro's error boxes."""
    lines = [re.sub(r"[│╭╮╰╯]", " ", line).strip() for line in box.splitlines()]
    kept = [line for line in lines if line and not re.search(r"─{4,}", line)]
    text = re.sub(r"\s+", " ", " ".join(kept))
    return re.sub(r" For full helptext, run (.*?--help)", r"; `\1` shows all settings", text)

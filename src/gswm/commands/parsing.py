"""Parse the command line with tyro, and report errors in one line."""

import contextlib
import io
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

import tyro

from gswm.commands.help import HELP, epilog
from gswm.core.errors import UserError
from gswm.core.files import check_output
from gswm.core.words import closest, printable
from gswm.data.importing.sources import is_name_of_video

PRINTED = Path("-")
"""Stands for standard output."""
ALIKE = 0.5
"""Least similarity of an option to the one that is suggested instead."""


class UnknownOptionsError(UserError):
    """Options that a command does not have.

    Args:
        options: the options.
        known: options of the command that are similar to some of them.
        commands: the commands whose help lists all options.
    """

    def __init__(self, options: Sequence[str], known: Sequence[str], *commands: str) -> None:
        self.options, self.known, self.commands = options, known, commands
        found = (closest(option, known, ALIKE) for option in options)
        close = list(dict.fromkeys(name for name in found if name is not None))
        meant = f": did you mean {' and '.join(close)}?" if close else ";"
        helps = " and ".join(f"`{command} --help`" for command in commands)
        lists = "list" if len(commands) > 1 else "lists"
        all_of = f"{', '.join(options)}{meant} {helps} {lists} all options"
        super().__init__(f"Unrecognized option{'s' * (len(options) > 1)}: {all_of}")


def tyro_cli(cls: Any, args: list[str], **settings: Any) -> Any:
    """Parse with tyro; an error is one line, and --json without a name means standard output."""
    caught = io.StringIO()
    full: list[str] = []
    for word, after in pairwise([*args, "--"]):
        alone = word == "--json" and after.startswith("--")
        full += [word, str(PRINTED)] if alone else [word]
    try:
        with contextlib.redirect_stderr(caught):
            return tyro.cli(cls, args=full, registry=HELP, **settings)
    except SystemExit as stop:
        if stop.code:
            check_region_in_one(full)
            check_options(caught.getvalue(), settings["prog"])
            check_videos(caught.getvalue(), full, cls, settings["prog"])
            raise UserError(one_line(caught.getvalue(), metavars(cls))) from stop
        print(epilog(cls), end="")
        raise


def check_region_in_one(args: list[str]) -> None:
    """Raise a UserError if the numbers of --region are separate arguments."""
    _, _, after = " ".join(args).partition("--region ")
    numbers = re.match(r"-?\d+,?(?: -?\d+,?)+(?= |$)", after)
    if numbers is not None:
        given = ",".join(re.findall(r"-?\d+", numbers[0]))
        raise UserError(
            f"--region is one argument with commas, --region x,y,width,height: use --region {given}"
        )


def check_options(box: str, command: str) -> None:
    """Raise UnknownOptionsError if one of tyro's error boxes is about options."""
    lines = unframed(box)
    listed = re.search(
        r"Unrecognized options: (.*?)(?= Perhaps you| Arguments similar| For full|$)",
        " ".join(lines),
    )
    words = [] if listed is None else listed[1].split(", ")
    options = [word.partition("=")[0] for word in words if re.match(r"--?[A-Za-z]", word)]
    if options:
        known = [line.split()[0].rstrip(",") for line in lines if line.startswith("--")]
        raise UnknownOptionsError(options, known, command)


def check_videos(box: str, args: Sequence[str], cls: Any, command: str) -> None:
    """Raise a UserError if one of tyro's error boxes is about a video that has no place."""
    _, _, unknown = "".join(unframed(box)).replace(" ", "").partition("Unrecognizedoptions:")
    words = filter(is_name_of_video, args)
    spare = next((word for word in reversed([*words]) if word.replace(" ", "") in unknown), None)
    if spare is None:
        return
    name, places = printable(spare), metavars(cls)
    if "video" in get_type_hints(cls) and "video" not in places:
        raise UserError(f"unexpected argument {name}: use `--video {shlex.quote(name)}`")
    if any("VIDEO" in place for place in places.values()):
        raise UserError(f"`{command}` takes one video: run it again for {name}")


def check_json(path: Path | None, *, force: bool = False) -> None:
    """Raise a UserError early if the file of --json cannot be written, exists, or is not .json."""
    if path is not None and path != PRINTED:
        check_output(path, (".json",), force=force)


def metavars(cls: Any) -> dict[str, str]:
    """The names of positional arguments in the help, by field."""
    found = {}
    for name, hint in get_type_hints(cls, include_extras=True).items():
        for metavar in (getattr(each, "metavar", None) for each in get_args(hint)[1:]):
            found |= {} if metavar is None else {name: metavar}
    return found


def one_line(box: str, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """The text of one of tyro's error boxes; `names` are those of positional arguments."""
    text = re.sub(r"\s+", " ", " ".join(unframed(box)))
    text = re.sub(r"^(?:Unrecognized options:? )+", "Unexpected argument: ", text)
    text = re.sub(r"^Invalid choice (?=invalid)", "", text)  # the title of the box
    text = re.sub(
        r"Missing value for argument '(.*?)'\. Expected 1 values\.?",
        lambda said: f"{names.get(said[1], said[1])} needs a value",
        text,
    )
    typed = (
        r"(?:Value error )?Error parsing (\S+): (.*?) Argument helptext: \S+ (.*?)(?= For full|$)"
    )
    text = re.sub(typed, unread, text)
    text = re.sub(r"(?:Required options )?Missing from .*?: (.*) \(required\)", missing, text)
    text = re.sub(r"\.? Expected one of \((.*?)\)", choices, text)
    return re.sub(
        r"\.? For full helptext, (?:run|see):? (.*?--help)", r"; `\1` lists all options", text
    )


def unframed(box: str) -> list[str]:
    """The lines of one of tyro's error boxes, without its frame."""
    lines = [re.sub(r"[│╭╮╰╯]|^\||\|$", " ", line).strip() for line in box.splitlines()]
    return [line for line in lines if line and not re.search(r"[─-]{4,}", line)]


def unread(said: re.Match[str]) -> str:
    """Name the kind of number that an option needs, instead of Python's reason."""
    option, why, metavar = said.groups()
    given = re.search(r"\['.*?'\]|'[^']*'$", why)
    kind = {"INT": "whole number", "FLOAT": "number"}.get(metavar.split()[0].strip("[]"))
    if given is None or kind is None:
        return f"{option}: {why}"
    must_be = f"must be {kind}s" if metavar.startswith("[") else f"must be a {kind}"
    return f"{option} {must_be}, not {given[0].strip('[]')}"


def missing(said: re.Match[str]) -> str:
    """The names of required arguments, without their descriptions."""
    names = [each.split()[0] for each in said[1].split("(required)")]
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} missing"


def choices(said: re.Match[str]) -> str:
    """The choices in alphabetical order, without None."""
    names = re.findall(r"'(.*?)'", said[1])
    return f"; it must be one of {', '.join(sorted(set(names) - {'None'}))}"

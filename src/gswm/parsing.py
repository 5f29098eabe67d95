"""Settings from the command line, by tyro, with errors of one line."""

import contextlib
import io
import re
from typing import Any

import tyro

from gswm.errors import UserError


def tyro_cli(cls: Any, args: list[str], **settings: Any) -> Any:
    """Parse with tyro, with its box of an error message as one line."""
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
    lines = [re.sub(r"[│╭╮╰╯]|^\||\|$", " ", line).strip() for line in box.splitlines()]
    kept = [line for line in lines if line and not re.search(r"[─-]{4,}", line)]
    text = re.sub(r"\s+", " ", " ".join(kept))
    return re.sub(
        r" For full helptext, (?:run|see) (.*?--help)", r"; `\1` shows all settings", text
    )

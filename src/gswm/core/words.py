"""Format names, numbers, sizes and durations."""

from collections.abc import Iterable
from difflib import get_close_matches

STRAY = 0xDC00
"""Base of the code points with which Python represents undecodable bytes of a file name."""

MODELS = {"GSWM": "G-SWM"} | {name: name for name in ("OP3", "SCALOR", "SILOT", "SQAIR", "STOVE")}
"""The names of models in their papers, by that of the class or the kind in capitals."""
COUNTS = ("misses", "false_alarms", "switches", "center_unmatched", "true_boxes_")
"""Beginnings of the names of scores that are sums over all episodes."""


def model_name(kind: str) -> str:
    """The name of a model in its paper, by its class or kind; others keep their own."""
    return MODELS.get(kind.upper(), kind)


def printable(text: str) -> str:
    """The text in one line, without control characters."""
    return "".join(char if char.isprintable() else escaped(char) for char in text)


def escaped(char: str) -> str:
    """Escape a control character or an undecodable byte."""
    if 0x80 <= ord(char) - STRAY <= 0xFF:
        return f"\\x{ord(char) - STRAY:02x}"
    return char.encode("unicode_escape").decode()


def plain(value: int | float) -> str:
    """A number in a table: all digits of an integer, six significant ones of others."""
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def with_article(noun: str) -> str:
    """A noun after "a" or "an"."""
    return f"{'an' if noun.lower().startswith(('a', 'e', 'i', 'o', 'nd')) else 'a'} {noun}"


def score(name: str, value: float) -> str:
    """The value of a score: an integer for a count, four decimals for others."""
    return f"{value:,.0f}" if name.startswith(COUNTS) else f"{value:.4f}"


def counted(number: int, name: str) -> str:
    """A number and its noun: "1 video", "2,000 videos"."""
    return f"{number:,} {name}{'s' * (number != 1)}"


def install(extra: str) -> str:
    """The commands that install an extra: from a clone, or from a wheel, as no index has gswm."""
    return (
        f"in a clone of gswm, run `pip install -c constraints.txt -e '.[{extra}]'`; elsewhere, "
        f"`pip install 'FILE.whl[{extra}]'` with the wheel of gswm"
    )


def listed(names: Iterable[str]) -> str:
    """Alternatives: "a", "a or b", "a, b or c"."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def ordinal(number: int) -> str:
    """An ordinal number: 1st, 2nd, 3rd, 4th, 11th."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number // 10 % 10 == 1 else ending}"


def no_such(kind: str, name: str, known: Iterable[str]) -> str:
    """The message for an unknown name: suggests a similar one, or lists all."""
    known = list(known)
    if close := closest(name, known):
        return f"there is no {kind} '{name}': did you mean {close}?"
    return f"there is no {kind} '{name}'; choose from {', '.join(known) or 'none'}"


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that is spelled most like this one, if any is similar."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def in_bytes(size: int | float) -> str:
    """A number of bytes in a suitable unit."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:  # else it would be rounded to 1e+03
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB" if size < 999.5 else f"{size:,.0f} TB"


def duration(seconds: float | int) -> str:
    """A time in a suitable unit: seconds, minutes, hours or days."""
    for unit, size, most in (("s", 1, 60), ("min", 60, 90), ("h", 3600, 48)):
        if seconds / size < most:
            return f"{seconds / size:.0f} s" if unit == "s" else f"{seconds / size:.1f} {unit}"
    return f"{seconds / 86400:.1f} days"

"""Help texts: tyro's, without its line breaks, repeated defaults and `None`, and with examples."""

import shutil
import textwrap
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from tyro.conf import FlagCreatePairsOff, arg
from tyro.constructors import (
    ConstructorRegistry,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

HELP = ConstructorRegistry()
"""The registry for `tyro.cli` with the rule below."""
DEFAULT = "Default: "
"""Begins the sentence in which a description states its own default."""
WIDEST = 100
"""Columns of notes in wide terminals."""


class HelpRule:
    """A rule that describes dataclasses as tyro does, and then improves the help of each field."""

    def __init__(self) -> None:
        self.entered = False  # whether to leave a class to the rules of tyro

    def __call__(self, info: StructTypeInfo) -> StructConstructorSpec | None:
        """Return the fields of a dataclass; None for other types."""
        if self.entered or not is_dataclass(info.type):
            return None
        self.entered = True
        try:
            spec = ConstructorRegistry.get_struct_spec(info)
        finally:
            self.entered = False
        if not isinstance(spec, StructConstructorSpec):
            return None
        own = {field.name: field.default for field in fields(info.type)}
        is_command = info.type.__module__.startswith("gswm.commands.")
        improved = (
            improve(field, own.get(field.name, MISSING), is_command=is_command)
            for field in spec.fields
        )
        return replace(spec, fields=tuple(improved))


HELP.struct_rule(HelpRule())


def improve(field: StructFieldSpec, own: Any, *, is_command: bool) -> StructFieldSpec:
    """A field with its help in one paragraph, its default stated once, and a short metavar.

    `own` is the default in the class, which may differ from that of a recipe. A command's switches
    that are off have no `--no-` form; those of recipes do, since a sweep may need it.
    """
    kind, extras = field.type, ()
    if get_origin(kind) is Annotated:
        kind, *extras = get_args(kind)
    if is_dataclass(kind) or is_dataclass(field.default):
        return field
    text = (lambda: one_paragraph(field.helptext)) if field.helptext else None
    hint = hint_for(field.helptext, changed=own is not MISSING and field.default != own)
    named = any(getattr(each, "metavar", None) for each in extras)
    metavar = None if named else metavar_of(kind)
    more: list[Any] = [arg(metavar=metavar, help_behavior_hint=hint)]
    if is_command and field.default is False:
        more.append(FlagCreatePairsOff)
    for each in more:
        field = replace(field, type=Annotated[field.type, each])
    return replace(field, helptext=text)


def one_paragraph(text: str | Callable[[], str | None] | None) -> str | None:
    """A description without the line breaks of the source."""
    found = text() if callable(text) else text
    return None if found is None else " ".join(found.split())


def hint_for(text: str | Callable[[], str | None] | None, *, changed: bool) -> Callable[[str], str]:
    """The default after a description, unless the description states it or there is none."""

    def hint(value: str) -> str:
        stated = DEFAULT in (one_paragraph(text) or "")
        if stated and changed:
            return f"(this recipe: {value})"
        return "" if stated or value in ("", "None", "False") else f"(default: {value})"

    return hint


def metavar_of(kind: Any) -> str | None:
    """The metavar of an optional value without `None`; None where tyro's own is good."""
    if get_origin(kind) not in (Union, UnionType):
        return None
    kinds = [each for each in get_args(kind) if each is not NoneType]
    if all(get_origin(each) is Literal for each in kinds):
        return f"{{{','.join(str(choice) for each in kinds for choice in get_args(each))}}}"
    names = {int: "INT", float: "FLOAT", str: "STR", Path: "PATH"}
    return names.get(kinds[0]) if len(kinds) == 1 else None


def epilog(cls: Any) -> str:
    """The text below the options: notes and examples of a command."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    parts = [
        textwrap.fill(note, width, break_on_hyphens=False) for note in getattr(cls, "NOTES", ())
    ]
    if examples := getattr(cls, "EXAMPLES", ()):
        parts.append("\n".join(["examples:", *(f"  {line}" for line in examples)]))
    return "".join(f"\n{part}\n" for part in parts)

"""Settings: frozen dataclasses of numbers, strings, tuples and other settings, as JSON."""

import json
import math
import types
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from gswm.core.errors import UserError

Settings = TypeVar("Settings")
NOTHING = "nothing"
"""Stands for a missing setting in a comparison."""


def to_dict(settings: Any) -> dict[str, Any]:
    """Convert settings to JSON values, including the `kind` of settings that have several kinds."""
    values = {f.name: plain(getattr(settings, f.name)) for f in fields(settings)}
    return {"kind": settings.kind, **values} if has_kinds(settings) else values


def plain(value: Any) -> Any:
    """Convert a value to JSON."""
    if is_dataclass(value):
        return to_dict(value)
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def has_kinds(settings: Any) -> bool:
    """Whether settings come in several kinds; `of_values` then finds the class."""
    return hasattr(settings, "of_values")


def from_dict(cls: type[Settings], values: Any, where: str = "") -> Settings:
    """The inverse of `to_dict`; unknown names and wrong types raise a UserError.

    Fields missing from older files take their defaults.
    """
    return build(cls, values, where or cls.__name__)


def round_trips(settings: Any) -> bool:
    """Whether settings can be read back from JSON."""
    saved = json.loads(json.dumps(to_dict(settings)))
    saved.pop("kind", None)
    return build_fields(type(settings), saved, type(settings).__name__) == settings


def build(kind: Any, value: Any, where: str) -> Any:
    """Build a value of type `kind` from JSON."""
    origin, args = get_origin(kind), get_args(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, dict):
            raise UserError(f"{where} must be an object, not {value!r}")
        if has_kinds(kind):
            kind = find_kind(kind, value)
            value = {name: v for name, v in value.items() if name != "kind"}
        value = upgraded(kind, value)
        return build_fields(kind, value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise UserError(f"{where} must be a list, not {value!r}")
        kinds = [args[0]] * len(value) if args[-1] is ... else args
        if len(kinds) != len(value):
            raise UserError(f"{where} must have {len(kinds)} values, not {len(value)}")
        return tuple(
            build(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True))
        )
    if origin is Literal:
        if value not in args:
            raise UserError(f"{where} must be one of {', '.join(map(repr, args))}, not {value!r}")
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        return build(next(a for a in args if a is not type(None)), value, where)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise UserError(f"{where} must be {getattr(kind, '__name__', kind)}, not {value!r}")
    return value


def build_fields(kind: Any, value: dict[str, Any], where: str) -> Any:
    """Build settings of one class from JSON."""
    hints, names = get_type_hints(kind), names_of(kind)
    needed = {f.name for f in fields(kind) if f.default is f.default_factory is MISSING}
    if wrong := sorted((needed - set(value)) | (set(value) - names)):
        which = "lacks" if wrong[0] in names else "has an unknown"
        raise UserError(f"{where} {which} setting '{wrong[0]}'")
    return kind(**{n: build(hints[n], v, f"{where}.{n}") for n, v in value.items()})


def upgraded(kind: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Upgrade settings saved by an earlier version."""
    return kind.upgraded(values) if hasattr(kind, "upgraded") else values


def find_kind(base: Any, values: dict[str, Any]) -> Any:
    """The class of saved settings that come in several kinds."""
    return base.of_values(values)


def names_of(kind: Any) -> set[str]:
    """The field names of a kind of settings."""
    return {f.name for f in fields(kind)}


def differing(ours: Any, theirs: Any, where: str = "") -> dict[str, tuple[Any, Any]]:
    """The values that differ between two dictionaries of settings, by name: ours and theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found: dict[str, tuple[Any, Any]] = {}
        for key in dict.fromkeys([*ours, *theirs]):
            both = (ours.get(key, NOTHING), theirs.get(key, NOTHING))
            found |= differing(*both, f"{where}.{key}".lstrip("."))
        return found
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        same = list(map(repr, flat(ours))) == list(map(repr, flat(theirs)))
    else:
        same = ours == theirs
    return {} if same else {where: (ours, theirs)}


def flat(values: Any) -> list[Any]:
    """Flatten nested lists, keeping brackets as items."""
    if not isinstance(values, list | tuple):
        return [values]
    return ["[", *(x for v in values for x in flat(v)), "]"]


def check_numbers(settings: Any, where: str) -> None:
    """Raise a UserError for negative integers and non-finite numbers anywhere in settings.

    A schedule may start before step 0.
    """
    for field in fields(settings):
        flag = f"{where}.{field.name.replace('_', '-')}"
        value = getattr(settings, field.name)
        if is_dataclass(value) and field.name != "schedule":
            check_numbers(value, flag)
        for number in flat(value):
            if isinstance(number, int) and number < 0:
                raise UserError(f"{flag} is {value}; it must not be negative")
            if isinstance(number, float) and not math.isfinite(number):
                raise UserError(f"{flag} is {value}; it must be a finite number")


def check_sizes(sizes: Any, where: str, optional: tuple[str, ...] = ()) -> None:
    """Raise a UserError for a size below 1, or below 0 for an optional part."""
    for field in fields(sizes):
        least = 0 if field.name in optional else 1
        if (size := getattr(sizes, field.name)) < least:
            flag = f"{where}.{field.name.replace('_', '-')}"
            raise UserError(f"{flag} is {size}; it must be at least {least}")

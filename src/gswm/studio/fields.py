"""Values of JSON objects that came from anywhere: each is what it must be, or a one-line error."""

from collections.abc import Mapping
from typing import Any

from gswm.core.errors import UserError

XY = tuple[float, float]


def integer(
    data: Mapping[str, Any], name: str, low: int, high: int, usual: int | None = None
) -> int:
    """A whole number from `low` to `high`."""
    value = data.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise UserError(f"{name} must be a whole number from {low} to {high}")
    return value


def number(data: Mapping[str, Any], name: str, low: int | float, high: int | float) -> float:
    """A number from `low` to `high`."""
    return as_number(data.get(name), name, low, high)


def as_number(value: Any, name: str, low: int | float, high: int | float) -> float:
    """`value` as a float, if it is from `low` to `high`."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or not low <= value <= high:  # a long integer overflows a float: compare it first
        raise UserError(f"{name} must be a number from {low:g} to {high:g}")
    return float(value)


def pair(data: Mapping[str, Any], name: str, low: int | float, high: int | float) -> XY:
    """Two numbers from `low` to `high`."""
    value = data.get(name)
    if not isinstance(value, list) or len(value) != 2:
        raise UserError(f"{name} must be a list of two numbers")
    return as_number(value[0], name, low, high), as_number(value[1], name, low, high)


def flag(data: Mapping[str, Any], name: str, usual: bool) -> bool:
    """True or false."""
    value = data.get(name, usual)
    if not isinstance(value, bool):
        raise UserError(f"{name} must be true or false")
    return value


def text(data: Mapping[str, Any], name: str) -> str:
    """A short name."""
    value = data.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= 200:
        raise UserError(f"{name} must be a name")
    return value


def choice(data: Mapping[str, Any], name: str, allowed: tuple[Any, ...]) -> Any:
    """One of some words."""
    value = data.get(name)
    if not isinstance(value, str) or value not in allowed:
        raise UserError(f"{name} must be one of {', '.join(allowed)}")
    return value


def mapping(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A JSON object within another."""
    return as_mapping(data.get(name, {}), name)


def as_mapping(value: Any, name: str) -> Mapping[str, Any]:
    """`value`, if it is a JSON object."""
    if not isinstance(value, dict):
        raise UserError(f"{name} must be a JSON object")
    return value

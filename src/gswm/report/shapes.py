"""The structure of result files, which people may have edited."""

import re
from collections.abc import Iterator
from itertools import chain, repeat
from types import UnionType
from typing import Any, get_args

from gswm.core.limits import is_number
from gswm.eval.stills import from_text

Shape = type | UnionType | list[Any] | tuple[Any, ...] | dict[str, Any]
"""Types, a list of any length, a list of this length, or an object with these keys.

Keys that end in "?" may be missing, and "*" stands for all other keys.
"""
SCORE = float | None
PLACES: Shape = [[(SCORE, SCORE)]]
"""x and y of each object in each frame."""
BOXES: Shape = [(int, float, float, float, float)]
"""Id, x, y, width and height of each object."""
EXAMPLE: Shape = {
    "episode": int,
    "given": int,
    "true": PLACES,
    "futures": [PLACES],
    "sizes": [float],
    "colors": [str],
    "corridor": [[int]],
    "tracked": [{"frame": int, "boxes": BOXES}],
    "stills?": {
        "steps": [int],
        "true": str,
        "true_boxes": [BOXES],
        "imagined": str,
        "boxes": [BOXES],
    },
}
ABOUT: Shape = {
    "step?": int,
    "minutes?": float,
    "seed?": int,
    "runs?": str,
    "curve?": [(float, float, SCORE)],
    "began?": {"step?": int, "minutes?": float, "runs?": [{"command": str, "step": int}]},
}
RESULT: Shape = {
    "model": {
        "baseline?": str,
        "kind?": str,
        "recipe?": str,
        "world?": str,
        "train?": str,
        "file?": str,
        "seed?": int,
        "about?": ABOUT,
    },
    "data": {"world": str, "of?": str, "split": str},
    "protocol": {"name": str, "given": int, "posterior?": str},
    "command": str,
    "commit": str | None,
    "device": str,
    "episodes": int,
    "seed": int,
    "scores": {"*": SCORE},
    "per_episode?": {"*": [SCORE]},
    "curves": {"*": [SCORE]},
    "examples": [EXAMPLE],
    "boxes_from?": str,
}
"""A file of `gswm eval --json`."""
STEPS: Shape = {
    "machine": {"device": str},
    "steps": [
        {"recipe": str, "path": str, "batch": int, "length": int, "objects": int, "ms": float}
    ],
}
"""A file of `gswm bench train --json`."""


def misfits(value: Any, shape: Shape, name: str = "") -> Iterator[str]:
    """Say what is wrong with each part of a value that has another shape."""
    called = name or "it"
    if isinstance(shape, dict):
        yield from misfits_of_object(value, shape, name)
    elif not isinstance(shape, list | tuple):
        if not is_of(value, shape):
            yield f"{called} is {value!r:.40}"
    elif not isinstance(value, list):
        yield f"{called} is no list"
    elif isinstance(shape, tuple) and len(value) != len(shape):
        yield f"{called} has {len(value)} values instead of {len(shape)}"
    else:
        kinds = shape if isinstance(shape, tuple) else repeat(shape[0])
        for i, (part, kind) in enumerate(zip(value, kinds, strict=False)):
            yield from misfits(part, kind, f"{name}[{i}]")


def misfits_of_object(value: Any, shape: dict[str, Any], name: str) -> Iterator[str]:
    """The same for an object."""
    if not isinstance(value, dict):
        yield f"{name or 'it'} is no object"
        return
    for key in shape:
        if key != "*" and not key.endswith("?") and key not in value:
            yield f"{name or 'it'} has no {key!r}"
    for key, part in value.items():
        kind = shape.get(key, shape.get(f"{key}?", shape.get("*")))
        if kind is not None:
            yield from misfits(part, kind, f"{name}.{key}" if name else key)


def odd_examples(result: Any) -> Iterator[str]:
    """Say what no evaluation writes into examples of the right shape."""
    for i, example in enumerate(result["examples"]):
        futures = example["futures"]
        frames = chain(example["true"], *futures)
        if example["given"] < 1 or not futures:
            yield f"examples[{i}] needs given frames and futures"
        if not 0 <= example["episode"] < result["episodes"]:
            yield f"examples[{i}] is of episode {example['episode']} of {result['episodes']}"
        if len({len(each) for each in (example["sizes"], example["colors"], *frames)}) > 1:
            yield f"examples[{i}] has different numbers of objects"
        if not all(re.fullmatch("#[0-9a-f]{6}", color) for color in example["colors"]):
            yield f"examples[{i}] has unknown colors"
        if "stills" in example:
            yield from odd_stills(example["stills"], f"examples[{i}].stills")


def odd_stills(stills: Any, name: str) -> Iterator[str]:
    """Say which pictures of an example are damaged or belong to other steps."""
    steps = len(stills["steps"])
    for part, boxes in (("true", "true_boxes"), ("imagined", "boxes")):
        try:
            frames = len(from_text(stills[part]))
        except ValueError as error:
            yield f"{name}.{part} cannot be read: {error}"
            continue
        if not steps == frames == len(stills[boxes]):
            told = f"{frames} frames and boxes of {len(stills[boxes])}"
            yield f"{name}.{part} has {told} for {steps} steps"


def is_of(value: Any, kind: type | UnionType) -> bool:
    """Whether a value is of this type, or one of these; integers are numbers, bools are not."""
    kinds = get_args(kind) or (kind,)
    if isinstance(value, int | float):
        return is_number(value) and (float in kinds or type(value) in kinds)
    return isinstance(value, kinds)

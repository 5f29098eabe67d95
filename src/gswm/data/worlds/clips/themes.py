"""Themes: combinations of objects, ground and motion in a clip."""

from dataclasses import dataclass

import torch
from torch import Tensor

KINDS = (
    *("disc", "slab", "polygon", "ell", "blob", "fish"),
    *("car_above", "robot", "insect", "person_above"),
    *("car_ahead", "person", "bottle"),
)
"""Kinds of objects; `looks` draws them."""
UPRIGHT = frozenset(("car_ahead", "person", "bottle"))
"""Kinds that are seen from the side, and so do not rotate with their direction."""
GROUNDS = ("plain", "tiles", "stripes", "checks", "road", "dish", "patches", "wall")
Weights = dict[str, float]


@dataclass(frozen=True)
class Theme:
    """Probabilities for one sort of clip."""

    share: float
    """Relative frequency among all clips."""
    kinds: Weights
    grounds: Weights
    perspective: float = 0.0
    """Probability that the ground is seen in perspective."""
    lanes: float = 0.0
    """Probability that objects keep to one direction or its opposite, on a road if there is one."""
    bounce: float = 0.0
    """Probability that objects turn back at the borders instead of leaving."""
    thrown: float = 0.0
    """Probability that a constant acceleration bends all paths."""
    turn: float = 0.05
    """Drift of directions, in radians per frame."""
    saccade: float = 0.0
    """Probability that an object suddenly turns in a frame."""
    stops: float = 0.03
    """Probability that an object stops or starts in a frame."""
    spin: float = 0.2
    """Share of objects that rotate independently of their direction."""
    sizes: tuple[float, float] = (0.0, 1.0)
    """The part of the range of usual sizes, on a log scale."""


ANY_KIND: Weights = {**dict.fromkeys(KINDS, 1.0), "blob": 2.0, "slab": 2.0, "polygon": 1.5}
ANY_GROUND: Weights = {**dict.fromkeys(GROUNDS, 1.0), "plain": 3.0}
THEMES = (
    Theme(
        0.28,
        ANY_KIND,
        ANY_GROUND,
        perspective=0.25,
        lanes=0.15,
        bounce=0.35,
        thrown=0.15,
        turn=0.12,
        saccade=0.02,
        stops=0.05,
        spin=0.4,
    ),
    Theme(
        0.16,
        {"insect": 6.0, "blob": 1.0, "disc": 1.0, "fish": 2.0},
        {"dish": 4.0, "plain": 4.0, "patches": 1.0, "tiles": 0.5},
        bounce=0.6,
        turn=0.2,
        saccade=0.06,
        stops=0.12,
        spin=0.05,
        sizes=(0.0, 0.7),
    ),
    Theme(
        0.14,
        {"robot": 5.0, "slab": 1.0, "disc": 1.0, "polygon": 1.0, "ell": 1.0},
        {"plain": 2.0, "tiles": 2.0, "checks": 1.0, "patches": 2.0, "stripes": 1.0, "wall": 0.5},
        perspective=0.2,
        bounce=0.4,
        turn=0.12,
        saccade=0.02,
        stops=0.08,
        spin=0.1,
        sizes=(0.2, 1.0),
    ),
    Theme(
        0.13,
        {"car_above": 8.0, "slab": 1.0},
        {"road": 5.0, "plain": 2.0, "patches": 1.0},
        lanes=0.85,
        turn=0.02,
        stops=0.02,
        spin=0.0,
        sizes=(0.1, 1.0),
    ),
    Theme(
        0.12,
        {"car_ahead": 8.0, "car_above": 0.5, "slab": 0.5},
        {"road": 6.0, "plain": 1.0},
        perspective=1.0,
        lanes=0.9,
        turn=0.01,
        stops=0.01,
        spin=0.0,
        sizes=(0.4, 1.0),
    ),
    Theme(
        0.11,
        {"person": 8.0, "slab": 0.5},
        {"plain": 2.0, "tiles": 2.0, "patches": 1.0, "wall": 2.0, "road": 1.0},
        perspective=0.7,
        turn=0.05,
        stops=0.04,
        spin=0.0,
        sizes=(0.2, 1.0),
    ),
    Theme(
        0.05,
        {"person_above": 8.0, "disc": 0.5},
        {"plain": 2.0, "tiles": 2.0, "stripes": 1.0, "patches": 1.0},
        turn=0.06,
        stops=0.05,
        spin=0.0,
        sizes=(0.0, 0.6),
    ),
    Theme(
        0.08,
        {"bottle": 5.0, "slab": 2.0, "blob": 1.0, "disc": 1.0},
        {"wall": 4.0, "plain": 2.0, "stripes": 1.0, "tiles": 0.5},
        thrown=0.1,
        turn=0.06,
        stops=0.12,
        spin=0.15,
        sizes=(0.4, 1.0),
    ),
)


def of_themes(name: str) -> Tensor:
    """A number for every theme."""
    return torch.tensor([getattr(theme, name) for theme in THEMES], dtype=torch.float64)


def weights(name: str, choices: tuple[str, ...]) -> Tensor:
    """The weights of several choices in every theme."""
    rows = [[getattr(theme, name).get(choice, 0.0) for choice in choices] for theme in THEMES]
    return torch.tensor(rows, dtype=torch.float64)

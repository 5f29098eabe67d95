"""Disks in a box: straight lines, walls, and elastic collisions within a layer (App. C.1).

A frame is ten steps of 0.1. In each step, based on the tentative next positions,

    1. walls reflect the velocities of disks that would cross them,
    2. disks of one layer that would overlap exchange their velocities along the line between
       them, pair by pair, (1, 0), (2, 0), (2, 1), ..., all from the same tentative positions,
    3. all disks move.

Collisions make this chaotic: the last bit of a velocity decides where a disk is a hundred frames
later. So every operation is one that IEEE 754 rounds in one way, in one order, on any device. The
episodes of the paper's generator depend on one more detail: it computes products of vectors by
BLAS, which multiplies and adds the second components with a single rounding (`fused`).

The same code runs on tensors and on arrays. On a CPU it uses arrays: the arithmetic is the same,
and numpy launches an operation in a fraction of torch's time, which dominates there.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int, Shaped
from torch import Tensor

Array: TypeAlias = Tensor | np.ndarray
STEPS = 10
DT = 0.1
CACHED = 2048
"""Number of episodes that a CPU simulates at a time: many, since launching operations dominates."""
SPLITTER = 2.0**27 + 1
"""Splits a double into two halves (Dekker 1971)."""


def simulate(
    positions: Float64[Tensor, "episode object 2"],
    velocities: Float64[Tensor, "episode object 2"],
    radii: Float64[Tensor, "#episode object"],
    layers: Int[Tensor, "#episode object"],
    frames: int,
    side: float,
    collide: bool = True,
) -> tuple[
    Float64[Tensor, "episode {frames} object 2"], Float64[Tensor, "episode {frames} object 2"]
]:
    """Positions and velocities of `frames` frames, starting with the given ones.

    Masses are equal. An object of radius 0 does not exist and never collides.
    """
    episodes, objects, _ = positions.shape
    path = positions.new_empty(2, frames, 2, objects, episodes)
    radii, layers = radii.expand(episodes, -1), layers.expand(episodes, -1)
    on_cpu = positions.device.type == "cpu"
    for start in range(0, episodes, size := CACHED if on_cpu else max(1, episodes)):
        part = slice(start, start + size)
        x, v = (native(state[part].permute(2, 1, 0)) for state in (positions, velocities))
        radius = native(radii[part].T)
        pairs = meeting(radii[part], layers[part]) if collide else None
        seen: Any = path[..., part].numpy() if on_cpu else path[..., part]
        for frame in range(frames):
            seen[0, frame], seen[1, frame] = x, v
            for _ in range(STEPS if frame + 1 < frames else 0):
                x, v = step(x, v, radius, side, pairs)
    where, how_fast = path.permute(0, 4, 1, 3, 2)
    return where, how_fast


@dataclass(frozen=True)
class Pairs:
    """The pairs that collide in some episode, in the order in which they are handled."""

    ends: Int[Array, "2 pair"]
    reach: Float64[Array, "pair episode"]
    """The squared distance at which they touch; 0 if they never do."""


def meeting(
    radii: Float64[Tensor, "episode object"], layers: Int[Tensor, "episode object"]
) -> Pairs | None:
    """The pairs of one layer; None if there are none."""
    objects = radii.shape[1]
    first, second = torch.tril_indices(objects, objects, -1, device=radii.device)
    exist = (radii[:, first] > 0) & (radii[:, second] > 0)
    meet = exist & (layers[:, first] == layers[:, second])
    distance = torch.where(meet, radii[:, first] + radii[:, second], 0)
    some = meet.any(0)
    if not some.any():
        return None
    ends, reach = torch.stack([first, second])[:, some], (distance * distance).T[some]
    return Pairs(native(ends), native(reach))


def step(
    x: Float64[Array, "2 object episode"],
    v: Float64[Array, "2 object episode"],
    radius: Float64[Array, "object episode"],
    side: float,
    pairs: Pairs | None,
) -> tuple[Float64[Array, "2 object episode"], Float64[Array, "2 object episode"]]:
    """Positions and velocities after a tenth of a frame."""
    v = reflect(x + DT * v, v, radius, side)
    trial = x + DT * v
    if pairs is not None and exchange(trial, v, pairs):
        trial = x + DT * v
    return trial, v


def reflect(
    trial: Float64[Array, "2 object episode"],
    v: Float64[Array, "2 object episode"],
    radius: Float64[Array, "object episode"],
    side: float,
) -> Float64[Array, "2 object episode"]:
    """Reflect velocities that lead out of the box."""
    lib, speed = library(v), abs(v)
    v = lib.where(trial < radius, speed, v)
    return lib.where(trial + radius > side, -speed, v)


def exchange(
    trial: Float64[Array, "2 object episode"],
    v: Float64[Array, "2 object episode"],
    pairs: Pairs,
) -> bool:
    """Let pairs that overlap in `trial` collide, in place; return whether any did."""
    apart = trial[:, pairs.ends[0]] - trial[:, pairs.ends[1]]
    square = apart * apart
    episode, pair = hits(square[0] + square[1] < pairs.reach)
    if not len(pair):
        return False
    lib = library(v)
    away = apart[:, pair, episode]
    normal = away / lib.sqrt(dot(away, away))
    ends = pairs.ends[:, pair]
    turn = lib.arange(len(pair), device=v.device) - lib.searchsorted(episode, episode)
    for i in range(last := int(turn.max()) + 1):
        now = slice(None) if last == 1 else turn == i
        n, where = normal[:, None, now], (slice(None), ends[:, now], episode[now])
        before = v[where]
        first, second = dot(n, before)
        push = n[:, 0] * (second - first)
        v[where] = before + lib.stack([push, -push], 1)
    return True


def native(tensor: Shaped[Tensor, "..."]) -> Shaped[Array, "..."]:
    """The fastest type for the tensor's device: an array on a CPU."""
    tensor = tensor.contiguous()
    return tensor.numpy() if tensor.device.type == "cpu" else tensor


def library(array: Array) -> ModuleType:
    """The library of `array`; the functions used here have the same names and order in both.

    Except for the square root: torch's can be off in the last bit on a CPU.
    """
    return np if isinstance(array, np.ndarray) else torch


def hits(
    close: Bool[Array, "pair episode"],
) -> tuple[Int[Array, " hit"], Int[Array, " hit"]]:
    """Episode and pair of each close pair, sorted by episode."""
    if isinstance(close, np.ndarray):
        pair, episode = np.divmod(np.flatnonzero(close), close.shape[1])
        order = np.argsort(episode, kind="stable")
        return episode[order], pair[order]
    episode, pair = close.T.nonzero().unbind(1)
    return episode, pair


def dot(a: Float64[Array, "2 *#hit"], b: Float64[Array, "2 *#hit"]) -> Float64[Array, "*#hit"]:
    """The product of two vectors, as BLAS rounds it."""
    return fused(a[1], b[1], a[0] * b[0])


def fused(
    a: Float64[Array, "*#hit"], b: Float64[Array, "*#hit"], c: Float64[Array, "*#hit"]
) -> Float64[Array, "*#hit"]:
    """Fused multiply-add, a · b + c, rounded once, by Dekker's product and Knuth's sum."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = halves(a), halves(b)
    rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    back = total - product
    lost = (product - (total - back)) + (c - back)
    return total + (lost + rest)


def halves(a: Float64[Array, "*hit"]) -> tuple[Float64[Array, "*hit"], Float64[Array, "*hit"]]:
    """Split `a` into two numbers with half the digits."""
    scaled = a * SPLITTER
    high = scaled - (scaled - a)
    return high, a - high

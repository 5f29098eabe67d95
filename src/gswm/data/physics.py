"""Disks in a box: straight lines, walls, and elastic collisions within a layer (App. C.1).

A frame is ten steps of 0.1. In each, from where the disks would come to be,

    1. a wall turns the velocity of whoever would cross it inwards,
    2. disks of one layer that would overlap exchange their velocities along the line between
       them, pair by pair, (1, 0), (2, 0), (2, 1), ..., all from the same would-be positions,
    3. everyone moves.

Collisions make this chaotic: the last bit of a velocity decides where a disk is a hundred frames
later. So every operation is one that IEEE 754 rounds in one way, in one order, on any device. The
episodes that the paper's generator makes depend on one more thing: it takes products of vectors
by BLAS, which multiplies and adds the second components in one rounding (`fused`).
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

STEPS = 10
DT = 0.1
CACHED = 4096
"""Episodes that a CPU simulates at a time: many, since an operation's start costs most."""
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
    """Positions and velocities of `frames` frames, the first of them as given.

    Masses are equal. An object of radius 0 is none: it collides with nobody.
    """
    episodes, objects, _ = positions.shape
    path = positions.new_empty(2, frames, 2, objects, episodes)
    radii, layers = radii.expand(episodes, -1), layers.expand(episodes, -1)
    step = CACHED if positions.device.type == "cpu" else max(1, episodes)
    for start in range(0, episodes, step):
        part = slice(start, start + step)
        x, v = (state[part].permute(2, 1, 0).contiguous() for state in (positions, velocities))
        radius = radii[part].T.contiguous()
        pairs = meeting(radii[part], layers[part]) if collide else None
        for frame in range(frames):
            path[0, frame, ..., part], path[1, frame, ..., part] = x, v
            for _ in range(STEPS if frame + 1 < frames else 0):
                v = reflect(x + DT * v, v, radius, side)
                trial = x + DT * v
                if pairs is not None and exchange(trial, v, pairs):
                    trial = x + DT * v
                x = trial
    where, how_fast = path.permute(0, 4, 1, 3, 2)
    return where, how_fast


@dataclass(frozen=True)
class Pairs:
    """The pairs that collide in some episode, in the order in which they are looked at."""

    ends: Int[Tensor, "2 pair"]
    reach: Float64[Tensor, "pair episode"]
    """The square of the distance at which they touch; 0 where they never do."""


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
    return Pairs(torch.stack([first, second])[:, some], (distance * distance).T[some].contiguous())


def reflect(
    trial: Float64[Tensor, "2 object episode"],
    v: Float64[Tensor, "2 object episode"],
    radius: Float64[Tensor, "object episode"],
    side: float,
) -> Float64[Tensor, "2 object episode"]:
    """Velocities that no longer lead out of the box."""
    speed = v.abs()
    v = torch.where(trial < radius, speed, v)
    return torch.where(trial + radius > side, -speed, v)


def exchange(
    trial: Float64[Tensor, "2 object episode"],
    v: Float64[Tensor, "2 object episode"],
    pairs: Pairs,
) -> bool:
    """Let the pairs that overlap in `trial` collide, in place; whether any did."""
    first, second = (trial.index_select(1, end) for end in pairs.ends)
    apart = first - second
    square = apart * apart
    square = square[0] + square[1]
    episode, pair = (square < pairs.reach).T.nonzero().unbind(1)
    if not len(pair):
        return False
    away = apart[:, pair, episode]
    normal = away / root(dot(away, away))
    ends = pairs.ends[:, pair]
    turn = turns(episode)
    for i in range(last := int(turn.max()) + 1):
        now = slice(None) if last == 1 else (turn == i).nonzero()[:, 0]
        n, where = normal[:, now], (slice(None), ends[:, now], episode[now])
        before = v[where]
        first, second = dot(n[:, None].expand_as(before), before)
        push = n * (second - first)
        v[where] = before + torch.stack([push, -push], 1)
    return True


def dot(a: Float64[Tensor, "2 ..."], b: Float64[Tensor, "2 ..."]) -> Float64[Tensor, "..."]:
    """The product of two vectors, as BLAS rounds it."""
    return fused(a[1], b[1], a[0] * b[0])


def fused(
    a: Float64[Tensor, "*hit"], b: Float64[Tensor, "*hit"], c: Float64[Tensor, "*hit"]
) -> Float64[Tensor, "*hit"]:
    """Multiply and add, a · b + c, rounded once: Dekker's product and Knuth's sum keep the rest."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = halves(a), halves(b)
    rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    back = total - product
    lost = (product - (total - back)) + (c - back)
    return total + (lost + rest)


def halves(a: Float64[Tensor, "*hit"]) -> tuple[Float64[Tensor, "*hit"], Float64[Tensor, "*hit"]]:
    """Two numbers of half the digits that add up to `a`."""
    scaled = a * SPLITTER
    high = scaled - (scaled - a)
    return high, a - high


def root(square: Float64[Tensor, " hit"]) -> Float64[Tensor, " hit"]:
    """The square root of IEEE 754; torch's, on a CPU, can be off in the last bit."""
    if square.device.type == "cpu":
        return torch.from_numpy(np.sqrt(square.numpy()))
    return square.sqrt()


def turns(episode: Int[Tensor, " hit"]) -> Int[Tensor, " hit"]:
    """How many hits of the same episode come before each, given that they stand together."""
    place = torch.arange(len(episode), device=episode.device)
    starts: Bool[Tensor, " hit"] = torch.ones_like(episode, dtype=torch.bool)
    starts[1:] = episode[1:] != episode[:-1]
    return place - torch.where(starts, place, 0).cummax(0).values

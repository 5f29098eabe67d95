"""Random numbers: parameters of episodes from a CPU's generator, and fields of noise by hashing.

Both depend only on the seed and the episode's number. Fields are computed on their device with
integer arithmetic, which is the same everywhere.
"""

from math import prod

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float32, Float64, Int32, Int64
from torch import Tensor

from gswm.core.limits import check_seed

PER_EPISODE = 4096
PER_FRAME = 96


class Dice:
    """Random numbers for `n` episodes of a seed from number `first` on, one row each.

    Each call uses the next numbers of every row, so that episodes are independent of each other.
    """

    def __init__(self, seed: int, first: int, n: int, frames: int) -> None:
        check_seed(seed, "seed")
        size = PER_EPISODE + PER_FRAME * frames
        # Philox makes four numbers for each value of its counter.
        generator = np.random.Generator(np.random.Philox(key=seed, counter=first * size // 4))
        self._numbers = torch.from_numpy(generator.random((n, size)))
        self._taken = 0
        self.n = n

    def unit(self, *shape: int) -> Float64[Tensor, "episode ..."]:
        """Uniform in [0, 1)."""
        start, self._taken = self._taken, self._taken + prod(shape)
        if self._taken > self._numbers.shape[1]:
            raise RuntimeError("an episode needs more random numbers than it has")
        return self._numbers[:, start : self._taken].reshape(self.n, *shape)

    def uniform(self, low: float, high: float, *shape: int) -> Float64[Tensor, "episode ..."]:
        """Uniform from `low` to `high`."""
        return low + (high - low) * self.unit(*shape)

    def log_uniform(self, low: float, high: float, *shape: int) -> Float64[Tensor, "episode ..."]:
        """Numbers whose logarithm is uniform."""
        return low * (high / low) ** self.unit(*shape)

    def normal(self, *shape: int) -> Float64[Tensor, "episode ..."]:
        """Standard normal."""
        return torch.special.ndtri(self.unit(*shape).clamp(1e-9, 1 - 1e-9))

    def chance(self, share: float | Tensor, *shape: int) -> Bool[Tensor, "episode ..."]:
        """True with probability `share`."""
        return self.unit(*shape) < share

    def choice(self, weights: Tensor, *shape: int) -> Int64[Tensor, "episode ..."]:
        """An index drawn by weight; weights are shared, or given for each row."""
        edges = weights.double().cumsum(-1)
        edges = (edges / edges[..., -1:]).reshape(-1, *[1] * len(shape), weights.shape[-1])
        return (self.unit(*shape)[..., None] >= edges[..., :-1]).sum(-1)

    def keys(self, *shape: int) -> Int32[Tensor, "episode ..."]:
        """Keys of fields of noise."""
        return (self.unit(*shape) * 2**31).to(torch.int32)

    def colors(self, vivid: float | Tensor, *shape: int) -> Float64[Tensor, "episode ... 3"]:
        """Colors of any brightness; `vivid` is the largest distance from gray."""
        value, strength = self.uniform(0.04, 0.96, *shape, 1), self.unit(*shape, 1) ** 1.5
        hue = self.uniform(-1.0, 1.0, *shape, 3)
        return (value + vivid * strength * (hue - hue.mean(-1, keepdim=True))).clamp(0.02, 0.98)


def hashed(keys: Int32[Tensor, "*shape"]) -> Int32[Tensor, "*shape"]:
    """32 random bits for each key."""
    bits = (keys ^ ((keys >> 16) & 0xFFFF)) * 0x7FEB352D
    bits = (bits ^ ((bits >> 15) & 0x1FFFF)) * (0x846CA68B - 2**32)
    return bits ^ ((bits >> 16) & 0xFFFF)


def random_bits(keys: Int32[Tensor, " row"], *shape: int) -> Int32[Tensor, "row ..."]:
    """32 random bits for each position of a field, one field per key."""
    place = torch.arange(prod(shape), dtype=torch.int32, device=keys.device)
    return hashed(hashed(keys)[:, None] + place * (0x9E3779B1 - 2**32)).unflatten(1, shape)


def white(keys: Int32[Tensor, " row"], *shape: int) -> Float32[Tensor, "row ..."]:
    """Uniform numbers in [0, 1), one field per key."""
    return ((random_bits(keys, *shape) >> 8) & 0xFFFFFF).float() * 2.0**-24


def octaves(
    keys: Int32[Tensor, " row"],
    channels: int,
    size: int,
    finest: int,
    slope: Float[Tensor, " row"],
    coarsest: int = 4,
) -> Float32[Tensor, "row {channels} {size} {size}"]:
    """Smooth noise of many scales around 0, whose standard deviation is about 0.5.

    Cells halve from one octave to the next, from `coarsest` to `finest` on a side, and the
    amplitude is multiplied by `slope`.
    """
    total, power, amplitude, cells = 0.0, 0.0, torch.ones_like(slope), coarsest
    while cells <= finest:
        field = white(keys + cells, channels, cells, cells) - 0.5
        if cells < size:
            field = F.interpolate(field, (size, size), mode="bicubic", align_corners=False)
        total = total + amplitude[:, None, None, None] * field
        power = power + amplitude**2
        amplitude, cells = amplitude * slope, 2 * cells
    return total * (2 / torch.as_tensor(power).sqrt())[:, None, None, None]

"""The windows of the data in each training step: a pure function of seed, step and row.

There is no random state: any number of workers, any number of processes and a resumed run see the
same windows. With m the mixing function of SplitMix64 (Steele et al. 2014), in wrapping 64-bit
arithmetic,

    u(seed, step, row, i) = m(m(m(seed) + 2 row + i) + step · γ)
    episode = u(…, 0) mod episodes,    start = u(…, 1) mod (frames - length + 1)

of the lower 63 bits of u. Windows are drawn uniformly with replacement, up to the bias of the
remainder, which is a relative 2⁻⁶³ times the number of episodes or of starts. A row's episode does
not depend on the length.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Int64
from torch import Tensor

from gswm.core.errors import UserError

MAX = (1 << 63) - 1


def signed(x: int) -> int:
    """`x` in signed 64-bit arithmetic."""
    return ((x + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


GAMMA = signed(0x9E3779B97F4A7C15)
FIRST = signed(0xBF58476D1CE4E5B9)
SECOND = signed(0x94D049BB133111EB)


def mix(x: Int64[Tensor, "*any"]) -> Int64[Tensor, "*any"]:
    """SplitMix64's bijection of the 64-bit numbers."""
    x = (x ^ _shift(x, 30)) * FIRST
    x = (x ^ _shift(x, 27)) * SECOND
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    return (x >> bits) & (MAX >> (bits - 1))


@dataclass(frozen=True)
class Windows:
    """The windows of process `rank` of `ranks`: its rows of a batch of `batch` rows."""

    num_episodes: int
    num_frames: int
    batch: int
    seed: int = 0
    rank: int = 0
    ranks: int = 1
    device: str | torch.device = "cpu"
    _keys: Int64[Tensor, "2 row"] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("num_episodes", "num_frames", "batch", "ranks"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.batch % self.ranks:
            raise UserError(
                f"a batch of {self.batch} does not divide among {self.ranks} processes: "
                f"choose a multiple of {self.ranks}"
            )
        if not 0 <= self.rank < self.ranks:
            raise UserError(f"rank {self.rank} is not within 0 to {self.ranks - 1}")
        rows = torch.arange(self.rank * self.rows, (self.rank + 1) * self.rows)
        seed = mix(torch.tensor(signed(self.seed)))
        keys = mix(seed + 2 * rows + torch.arange(2)[:, None]).to(self.device)
        object.__setattr__(self, "_keys", keys)

    @property
    def rows(self) -> int:
        """Number of rows of this process."""
        return self.batch // self.ranks

    def check(self, length: int) -> None:
        """Raise unless there are windows of `length` frames."""
        if not 1 <= length <= self.num_frames:
            raise UserError(
                f"windows of {length} frames do not fit episodes of {self.num_frames}: "
                f"choose 1 to {self.num_frames}"
            )

    def at(
        self, step: int | Int64[Tensor, ""], length: int
    ) -> tuple[Int64[Tensor, " row"], Int64[Tensor, " row"]]:
        """Each row's episode, and the first frame of its window.

        If the step is a tensor on the device, everything stays there without synchronization.
        """
        self.check(length)
        if isinstance(step, int):
            step = torch.full((), step, device=self.device)
        u = mix(torch.add(self._keys, step, alpha=GAMMA)) & MAX
        return u[0] % self.num_episodes, u[1] % (self.num_frames - length + 1)

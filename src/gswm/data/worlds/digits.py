"""Moving digits that enter and leave: the test case of SQAIR (NeurIPS 2018).

Digits cross the frame in lanes. A lane has at most one digit at a time, so a frame has at most as
many digits as lanes, and often fewer. Each enters from one side, leaves by another, and moves with
a constant acceleration:

    p(u) = (1 - u)² from + 2 u (1 - u) by + u² to,    u from 0 to 1 while it is present

The ink of overlapping digits adds up, and is clipped at white. An episode depends only on the seed
and its number.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import torch
from einops import einsum
from jaxtyping import Bool, Float32, Float64, Int64, UInt8
from torch import Tensor

from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.core.records import map_tensors
from gswm.data.episode import Episodes, Truth
from gswm.data.worlds.base import MEMORY, Procedural, Split, SplitName, check_size, splits
from gswm.data.worlds.clips.dice import Dice
from gswm.data.worlds.glyphs import Glyphs, draw_ink, square, write

NUM_FRAMES = 40
VISITS = 3
"""Number of successive digits in a lane: more than start within an episode."""
DURATION = (20.0, 32.0)
"""Frames that a digit takes to cross the frame."""
PAUSE = (4.0, 28.0)
"""Frames until the next digit enters the same lane."""
SHOWN = 0.15
"""Smallest fraction of a digit's ink inside the frame for it to be present."""
AT_ONCE = 64
"""Episodes planned at once."""
ON_CPU = 8
"""Episodes that a CPU draws at once."""
MOST_LANES = 8


@dataclass(frozen=True)
class Visits:
    """The digits of several episodes, with the times and paths of their crossings."""

    start: Float64[Tensor, "episode lane visit"]
    """In frames."""
    duration: Float64[Tensor, "episode lane visit"]
    path: Float64[Tensor, "episode lane visit 3 2"]
    """`from`, `by` and `to`, in sides of the frame."""
    glyphs: Glyphs

    def share(self, frame: Float64[Tensor, " time"]) -> Float64[Tensor, "episode time lane visit"]:
        """The u of each digit, which is visible from 0 to 1."""
        return (frame[:, None, None] - self.start[:, None]) / self.duration[:, None]

    def places(self, u: Float64[Tensor, "episode time lane visit"]) -> Tensor:
        """Positions of digits, in sides of the frame."""
        weights = torch.stack([(1 - u) ** 2, 2 * u * (1 - u), u**2], dim=-1)
        return einsum(weights, self.path, "e t l v p, e l v p xy -> e t l v xy")


@dataclass(frozen=True)
class Digits(Procedural):
    """The world `digits`."""

    lanes: int = 2
    """The largest number of digits in a frame."""
    image_size: int = 64
    num_objects: int = field(init=False, repr=False, compare=False)
    """One slot for each digit of an episode."""
    splits: dict[SplitName, Split] = field(
        default_factory=lambda: splits(31, train=10_000, others=200), repr=False
    )
    name = "digits"
    num_frames = NUM_FRAMES
    layout = "clips"
    protocol = "sqair-10-10"
    style = "stills"

    def __post_init__(self) -> None:
        check_size(self.name, self.image_size, self.sizes)
        if not 1 <= self.lanes <= MOST_LANES:
            raise UserError(f"digits has 1 to {MOST_LANES} lanes, not {self.lanes}")
        object.__setattr__(self, "num_objects", self.lanes * VISITS)

    def episodes(
        self,
        seed: int,
        n: int | None = None,
        device: str | torch.device = "cpu",
        memory: int = MEMORY,
        first: int = 0,
    ) -> Iterator[Episodes]:
        """See `World`. On a GPU, pixels may differ from a CPU's by rounding."""
        device = find_device(device)
        # Two intermediate canvases of a lane, the sum of the lanes, and the frames, in bytes.
        each = self.num_frames * self.image_size**2 * (4 * (self.lanes + 2) + 3)
        step = max(1, memory // each)
        step = min(step, ON_CPU) if device.type == "cpu" else step
        at_once = max(AT_ONCE, step)
        for start in count(0, at_once):
            size = at_once if n is None else min(at_once, n - start)
            if size <= 0:
                return
            visits = plan(seed, first + start, size, self.lanes)
            for i in range(0, size, step):
                part = slice(i, i + step)
                yield self.show(map_tensors(lambda x, part=part: x[part], visits), device)

    def show(self, visits: Visits, device: torch.device) -> Episodes:
        """The episodes with these digits."""
        frame = torch.arange(self.num_frames, dtype=torch.float64)
        u = visits.share(frame)
        there, which = ((u >= 0) & (u < 1)).to(torch.uint8).max(dim=-1)
        now = visits.places(u).take_along_dim(which[..., None, None], dim=-2)[..., 0, :]
        glyphs = map_tensors(lambda x: x.flatten(0, 2).to(device), visits.glyphs)
        ink = draw_ink(glyphs, self.image_size).unflatten(0, visits.start.shape)
        on_device = which.to(device), there.bool().to(device), now.to(device)
        video, inside = draw(ink, *on_device, self.image_size)
        shares = torch.zeros_like(u).scatter(-1, which[..., None], inside[..., None].double().cpu())
        truth = describe(visits, u, shares, self.image_size)
        return Episodes(video, map_tensors(lambda x: x.to(device), truth))


def plan(seed: int, first: int, n: int, lanes: int) -> Visits:
    """Draw the digits of `n` episodes from number `first` on."""
    dice = Dice(seed, first, n, 0)
    shape = (lanes, VISITS)
    duration, pause = dice.uniform(*DURATION, *shape), dice.uniform(*PAUSE, *shape)
    period = duration + pause
    begin = -dice.unit(lanes, 1) * period[..., :1]
    start = begin + period.cumsum(dim=-1) - period
    glyphs = write(dice, (dice.unit(*shape) * 10).long())
    enters = (dice.unit(*shape) * 4).long()
    leaves = (enters + 1 + (dice.unit(*shape) * 3).long()) % 4
    ends = [
        beyond(side, dice.uniform(0.2, 0.8, *shape), glyphs.hw.flip(-1) / 2)
        for side in (enters, leaves)
    ]
    by = dice.uniform(0.25, 0.75, *shape, 2)
    path = torch.stack([ends[0], by, ends[1]], dim=-2)
    return Visits(start, duration, path, glyphs)


def beyond(
    side: Int64[Tensor, "*row"], along: Float64[Tensor, "*row"], half: Float64[Tensor, "*row 2"]
) -> Float64[Tensor, "*row 2"]:
    """The center of a box that touches a side from outside: left, right, top or bottom."""
    x = torch.where(side == 0, -half[..., 0], 1 + half[..., 0])
    y = torch.where(side == 2, -half[..., 1], 1 + half[..., 1])
    sideways = side < 2
    return torch.stack([torch.where(sideways, x, along), torch.where(sideways, along, y)], dim=-1)


def describe(
    visits: Visits,
    u: Float64[Tensor, "episode time lane visit"],
    inside: Float64[Tensor, "episode time lane visit"],
    image_size: int,
) -> Truth:
    """The ground truth of every frame, from the share of each digit's ink inside it."""
    exists: Bool[Tensor, "episode time object"] = ((u >= 0) & (u < 1)).flatten(2)
    here = exists[..., None]
    step = 1 / visits.duration[:, None]
    places, later = (visits.places(at).flatten(2, 3) for at in (u, u + step))
    hw = visits.glyphs.hw.flatten(1, 2)[:, None].expand(*exists.shape, 2)
    visibility = inside.flatten(2)
    slot = torch.arange(exists.shape[2])
    hw = hw * here * image_size
    return Truth(
        positions=places * here * image_size,
        velocities=(later - places) * here * image_size,
        sizes=hw.amax(dim=-1) / 2,
        layers=torch.zeros_like(exists, dtype=torch.int64),
        order=slot.expand(exists.shape),
        colors=here.double().expand(*exists.shape, 3),
        ids=(slot + 1) * exists,
        present=visibility >= SHOWN,
        hw=hw,
        visibility=visibility,
    )


def draw(
    ink: Float32[Tensor, "episode lane visit side side"],
    which: Int64[Tensor, "episode time lane"],
    there: Bool[Tensor, "episode time lane"],
    places: Float64[Tensor, "episode time lane 2"],
    image_size: int,
) -> tuple[UInt8[Tensor, "episode time 3 height width"], Float32[Tensor, "episode time lane"]]:
    """Frames with the summed ink of all lanes, and the share of each digit's ink inside them."""
    total = torch.zeros((), device=ink.device)
    corner = places * image_size - square(image_size) / 2
    shares = []
    for lane in range(which.shape[2]):
        x, y = (under(at, ink.shape[-1], image_size) for at in corner[:, :, lane].unbind(-1))
        now = ink[:, lane].take_along_dim(which[:, :, lane, None, None], dim=1)
        strips = torch.matmul(y * there[:, :, lane, None, None], now)
        drawn = torch.matmul(strips, x.mT)
        total = total + drawn
        shares.append(drawn.sum(dim=(2, 3)) / now.sum(dim=(2, 3)))
    gray = (total.clamp(0, 1) * 255).round().to(torch.uint8)
    return gray[:, :, None].expand(-1, -1, 3, -1, -1).contiguous(), torch.stack(shares, dim=2)


def under(
    corner: Float64[Tensor, "episode time"], side: int, image_size: int
) -> Float32[Tensor, "episode time pixel side"]:
    """Bilinear weights of a square at `corner`, along one axis of the frame."""
    pixel = torch.arange(image_size, dtype=torch.float64, device=corner.device)
    own = torch.arange(side, dtype=torch.float64, device=corner.device)
    apart = pixel[:, None] - own - corner[..., None, None]
    return (1 - apart.abs()).clamp_min(0).float()


DIGITS = Digits()

"""Camera effects: light, lens, sensor and compression."""

from dataclasses import dataclass
from math import pi

import torch
from jaxtyping import Bool, Float, Float32, Int, UInt8
from torch import Tensor

from gswm.data.worlds.clips.dice import Dice, random_bits
from gswm.data.worlds.clips.settings import ClipSettings

BLOCK = 8
"""Side of the blocks of compression in pixels."""


@dataclass(frozen=True)
class FilmLook:
    """Camera effects of several episodes."""

    gain: Float[Tensor, "episode time 3"]
    """Gain of red, green and blue in each frame."""
    offset: Float[Tensor, "episode time"]
    still_gain: Float[Tensor, "episode 3"]
    """The same for the background picture."""
    still_offset: Float[Tensor, " episode"]
    focus: Float[Tensor, " episode"]
    """Positive for blurred pictures, negative for sharpened ones."""
    noise: Float[Tensor, "episode 2"]
    """Standard deviations of a pixel's brightness and color."""
    key: Int[Tensor, " episode"]
    step: Float[Tensor, " episode"]
    """Quantization step of compression; 0 for none."""
    sway: Float[Tensor, "episode time 3"]
    """Offsets of swaying parts to the right and down, in pixels, and their gain in brightness."""
    region: Float[Tensor, "episode 2"]
    """Range of the background's field in which parts sway."""
    sways: Bool[Tensor, " episode"]
    shutter: Float[Tensor, " episode"]
    """Fraction of a frame's time in which the shutter is open."""


def draw_film(dice: Dice, settings: ClipSettings) -> FilmLook:
    """Draw the parameters of all camera effects."""
    frames = settings.num_frames
    time = torch.arange(frames, dtype=torch.float64)
    drift = dice.chance(settings.drift)
    slow = (
        2 * pi * (dice.uniform(0.2, 2.0, 1, 1) * time[:, None] / 24 + dice.uniform(0.0, 1.0, 1, 1))
    )
    light = (drift * dice.uniform(0.0, 0.12))[:, None, None] * slow.sin()
    hue = (drift * dice.uniform(0.0, 0.03))[:, None, None] * (
        slow + dice.uniform(0.0, 6.0, 1, 3)
    ).sin()
    jitter = (drift * dice.chance(0.3) * 0.012)[:, None, None] * dice.normal(frames, 1)

    when = dice.uniform(1.0, float(frames))[:, None]
    lasts = torch.where(dice.chance(0.4)[:, None], 1e6, dice.uniform(2.0, 15.0, 1))
    since = (time - when).clamp_min(0)
    jump = dice.normal().clamp(-2, 2)[:, None] * 0.22 * (time >= when) * (-since / lasts).exp()
    jump = dice.chance(settings.exposure)[:, None] * jump
    gain = (light + hue + jitter + jump[..., None]).exp()

    own = dice.chance(settings.own_light)[:, None]
    other = (0.08 * dice.normal(1) + 0.025 * dice.normal(3)).exp()
    usual = gain.median(dim=1).values
    focused = dice.chance(settings.focus)
    softness = torch.where(dice.chance(0.75), dice.uniform(0.0, 0.22), dice.uniform(-0.15, 0.0))
    sigma = dice.chance(settings.noise) * dice.log_uniform(0.002, 0.04)
    step = dice.chance(settings.compression) * dice.log_uniform(0.01, 0.12)
    sways = dice.chance(settings.sway)
    reach = dice.uniform(0.2, 1.2, 1, 1)
    rate = dice.uniform(0.15, 1.2, 1, 2)
    swing = (rate * time[:, None] + dice.uniform(0.0, 2 * pi, 1, 2)).sin() * reach
    swing = swing + 0.4 * reach * dice.normal(frames, 2)
    flicker = dice.chance(0.3)[:, None, None] * 0.08 * dice.normal(frames, 1)
    start = dice.uniform(0.0, 0.8)
    width = torch.where(dice.chance(0.15), 2.0, dice.uniform(0.1, 0.5))
    return FilmLook(
        gain=gain,
        offset=(drift * 0.03 * dice.normal())[:, None] * slow[..., 0].cos(),
        still_gain=torch.where(own, usual * other, usual),
        still_offset=own[:, 0] * 0.015 * dice.normal(),
        focus=focused * softness,
        noise=sigma[:, None] * torch.stack([torch.ones(dice.n), dice.unit()], dim=-1),
        key=dice.keys(),
        step=step,
        sway=torch.cat([swing, flicker], dim=-1) * sways[:, None, None],
        region=torch.stack([start, start + width], dim=-1),
        sways=sways,
        shutter=dice.chance(settings.blur) * dice.uniform(0.1, 0.9),
    )


def refocused(
    pictures: Float32[Tensor, "frame 3 height width"], focus: Float32[Tensor, " frame"]
) -> Float32[Tensor, "frame 3 height width"]:
    """Mix each pixel with its neighbors, horizontally and then vertically."""
    amount = focus[:, None, None, None]
    for axis in (3, 2):
        size = pictures.shape[axis]
        middle, first = pictures.narrow(axis, 0, size - 1), pictures.narrow(axis, 1, size - 1)
        step = amount * (first - middle)
        pictures = pictures.clone()
        pictures.narrow(axis, 0, size - 1).add_(step)
        pictures.narrow(axis, 1, size - 1).sub_(step)
    return pictures


def swayed(
    background: Float32[Tensor, "episode 3 height width"],
    field: Float32[Tensor, "episode height width"],
    film: FilmLook,
) -> Float32[Tensor, "episode time 3 height width"]:
    """The background of every frame, with some parts moved by up to a pixel or two."""
    low, high = (values[:, None, None] for values in film.region.unbind(-1))
    inside = (((field - low) * 8).clamp(0, 1) * ((high - field) * 8).clamp(0, 1))[:, None]
    right, down = (
        (background.roll(-1, axis) - background.roll(1, axis)) * inside / 2 for axis in (3, 2)
    )
    right[..., [0, -1]] = 0
    down[..., [0, -1], :] = 0
    x, y, brighter = (part[..., None, None, None] for part in film.sway.unbind(-1))
    moved = background[:, None] * (1 + brighter * inside[:, None])
    moved -= x * right[:, None]
    moved -= y * down[:, None]
    return moved.clamp_(0, 1)


def grain(
    key: Int[Tensor, " frame"], sigma: Float32[Tensor, "frame 2"], side: int
) -> Float32[Tensor, "frame 3 {side} {side}"]:
    """Sensor noise: the sum of four random bytes, which is nearly normal."""
    bits = random_bits(key, side, side)
    first, second = (bits & 0xFF).float(), ((bits >> 8) & 0xFF).float()
    third, fourth = ((bits >> 16) & 0xFF).float(), ((bits >> 24) & 0xFF).float()
    one, other = first + second, third + fourth
    unit = 1 / 147.8  # the standard deviation of the sum of four bytes
    bright, colored = ((sigma[:, i] * unit)[:, None, None] for i in (0, 1))
    level = (one + other - 510) * bright
    red, blue = (one - other) * colored, (first - second + third - fourth) * colored
    return torch.stack([level + red, level - (red + blue) / 2, level + blue], dim=1)


def cosines(device: torch.device) -> Float32[Tensor, "64 64"]:
    """The discrete cosine transform of a block, one row per pattern; its transpose inverts it."""
    n = torch.arange(BLOCK, dtype=torch.float64)
    wave = ((2 * n + 1) * n[:, None] * (pi / (2 * BLOCK))).cos() * (2 / BLOCK) ** 0.5
    wave[0] /= 2**0.5
    return torch.kron(wave, wave).float().to(device)


def compressed(
    pictures: Float32[Tensor, "frame 3 height width"], step: Float32[Tensor, " frame"]
) -> Float32[Tensor, "frame 3 height width"]:
    """Pictures with quantized cosine coefficients of blocks, coarser for finer patterns."""
    frames, _, height, width = pictures.shape
    red, green, blue = pictures.unbind(1)
    level = (red + 2 * green + blue) / 4
    planes = torch.stack([level, red - level, blue - level], dim=1)
    rows, columns = height // BLOCK, width // BLOCK
    cut = planes.reshape(frames, 3, rows, BLOCK, columns, BLOCK).transpose(3, 4)
    # One product per frame, of a fixed shape, so that rounding does not depend on other frames.
    basis = cosines(pictures.device).expand(frames, BLOCK**2, BLOCK**2)
    values = torch.bmm(cut.reshape(frames, -1, BLOCK**2), basis.mT)
    n = torch.arange(BLOCK, device=pictures.device)
    coarse = (1 + 0.5 * (n + n[:, None])).flatten() * step[:, None, None]
    coarse = coarse.repeat_interleave(3, 1) * torch.tensor([1, 2, 2.0]).to(step)[:, None]
    blocks = values.unflatten(1, (3, -1)).div_(coarse[:, :, None]).round_().mul_(coarse[:, :, None])
    back = torch.bmm(blocks.flatten(1, 2), basis)
    cut = back.reshape(frames, 3, rows, columns, BLOCK, BLOCK).transpose(3, 4)
    level, red, blue = cut.reshape(planes.shape).unbind(1)
    return torch.stack([level + red, level - (red + blue) / 2, level + blue], dim=1)


def to_bytes(
    pictures: Float32[Tensor, "frame 3 height width"],
) -> UInt8[Tensor, "frame 3 height width"]:
    """Convert to bytes, in the memory order (frame, height, width, 3)."""
    rounded = (pictures * 255 + 0.5).clamp_(0, 255).to(torch.uint8)
    return rounded.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)


def expose(
    pictures: Float32[Tensor, "frame 3 height width"],
    gain: Float32[Tensor, "frame 3"],
    offset: Float32[Tensor, " frame"],
) -> Float32[Tensor, "frame 3 height width"]:
    """Pictures in a light, clipped to the range of a sensor."""
    return torch.addcmul(offset[:, None, None, None], pictures, gain[:, :, None, None]).clamp_(0, 1)

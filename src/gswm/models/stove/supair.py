"""SuPAIR (Stelzner et al. 2019): frames without time, as patches on a background.

The image model p(x | z): each object fills its box, in the order of the slots. Pixels that an
earlier box covers are hidden from later ones and from the background.

    B_k = ST⁻¹(ones, z_where_k)                   the box of object k
    V_k = max(0, 1 - Σ_{j≤k} B_j)                 visible behind boxes 1 to k, V_0 = 1
    v_k = ST(V_{k-1}, z_where_k)                  visible part of object k; 0 outside the image
    log p(x | z) = log SPN_bg(x; V_K) + Σ_k [ h_k w_k log SPN_obj(ST(x, z_where_k); v_k)
                                              + log rate - rate (1 - mean v_k) ]

The encoder q(z_where | x): an LSTM looks at the same frame once for each object.

    h_k = LSTM(x, h_{k-1})      [m, s] = W_2 σ(W_1 h_k)
    mean = low + (high - low) σ(m)      std = 0.3 σ(s)

z_where is (s_x, q, x, y): the width of the box, its height over its width, and its center.
"""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.distributions import Gaussian
from gswm.core.geometry import SMALLEST, crop, paste
from gswm.core.shapes import Points, Scalars
from gswm.models.stove.spn import RandomSPN, SPNConfig

Images = Float[Tensor, "batch channel height width"]


@dataclass(frozen=True)
class ImagesConfig:
    """Settings of p(x | z)."""

    patch: int = 10
    """Side of a patch in pixels."""
    patch_weight: float = 1.0
    """Factor on the weight of an object, which is the fraction of the image that its box covers."""
    overlap_rate: float = 10.0
    """Rate of the exponential prior on the covered fraction of an object."""
    object: SPNConfig = field(default_factory=lambda: SPNConfig(2, 6, 10, 10, (0.12, 0.35)))
    background: SPNConfig = field(default_factory=lambda: SPNConfig(1, 3, 6, 3, (0.002, 0.16)))


@dataclass(frozen=True)
class Likelihood:
    """The three terms of log p(x | z) for several frames, and the covered fractions."""

    background: Float[Tensor, " *batch"]
    patches: Float[Tensor, " *batch"]
    overlap: Float[Tensor, " *batch"]
    hidden: Float[Tensor, "*batch object"]
    """The fraction of each box that others cover or that is outside the image."""


class ImageModel(nn.Module):
    """The likelihood of a frame, and its reconstruction."""

    def __init__(self, cfg: ImagesConfig, image_size: int, channels: int) -> None:
        super().__init__()
        self.cfg, self.image_size, self.channels = cfg, image_size, channels
        self.spn_object = RandomSPN(cfg.object, channels * cfg.patch**2)
        self.spn_background = RandomSPN(cfg.background, channels * image_size**2)

    def forward(self, images: Images, xy: Points, hw: Points) -> Likelihood:
        """The parts of log p(x | z)."""
        hw, num = hw.clamp_min(SMALLEST), xy.shape[1]
        ones = xy.new_ones(*xy.shape[:2], 1, self.cfg.patch, self.cfg.patch)
        boxes = paste(ones, xy, hw, self.image_size)
        covered = boxes.cumsum(dim=1)
        left = (1 - (covered - boxes)).clamp_min(0).flatten(0, 1)
        each_xy, each_hw = (rearrange(of, "n k c -> (n k) 1 c") for of in (xy, hw))
        shown = crop(left, each_xy, each_hw, self.cfg.patch).clamp(0, 1)[:, 0]
        patches = crop(images, xy, hw, self.cfg.patch).flatten(0, 1)
        log_p = self.spn_object(patches.flatten(1), self.per_channel(shown))
        hidden = rearrange(1 - shown.mean(dim=(1, 2, 3)), "(n k) -> n k", k=num)
        rate = self.cfg.overlap_rate
        weight = self.cfg.patch_weight * hw[..., 0] * hw[..., 1]
        return Likelihood(
            self.log_background(images, (1 - covered[:, -1]).clamp_min(0)),
            (weight * log_p.unflatten(0, (-1, num))).sum(dim=1),
            (math.log(rate) - rate * hidden).sum(dim=1),
            hidden,
        )

    def log_background(
        self, images: Images, left: Float[Tensor, "batch 1 height width"] | None
    ) -> Float[Tensor, " batch"]:
        """The log-density of the pixels outside all objects; of the whole image without objects."""
        left = torch.ones_like(images[:, :1]) if left is None else left
        return self.spn_background(images.flatten(1), self.per_channel(left))

    def per_channel(self, weight: Float[Tensor, "n 1 h w"]) -> Float[Tensor, "n variable"]:
        """Weights of each value of an image."""
        return repeat(weight, "n 1 h w -> n (c h w)", c=self.channels)

    def draw(
        self, xy: Points, hw: Points, pres: Scalars, hue: Float[Tensor, "batch object 3"]
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
        """Draw the most probable patch in every box, in its hue, and the background alone."""
        size, patch = self.image_size, self.cfg.patch
        most_probable = self.spn_object.most_probable().clamp(0, 1).view(-1, patch, patch)
        tint = hue if self.channels == 1 else torch.ones_like(hue)
        patches = most_probable * (pres * tint)[..., None, None]
        background = self.spn_background.most_probable().clamp(0, 1).view(-1, size, size)
        background = background.expand(len(xy), 3, size, size)
        return (background + paste(patches, xy, hw, size).sum(dim=1)).clamp(0, 1), background


@dataclass(frozen=True)
class EncoderConfig:
    """Settings of q(z_where | x)."""

    hidden: int = 256
    features: int = 50
    width: tuple[float, float] = (0.1, 0.4)
    """Bounds of s_x, as fractions of the image."""
    ratio: tuple[float, float] = (0.75, 1.25)
    """Bounds of q."""
    position: float = 0.9
    """Largest distance of a center from the middle of the image."""
    std: float = 0.3
    """Largest standard deviation."""


class SupairEncoder(nn.Module):
    """Infers a box for each object."""

    def __init__(self, cfg: EncoderConfig, image_size: int, channels: int, num: int) -> None:
        super().__init__()
        self.cfg, self.num_objects = cfg, num
        self.lstm = nn.LSTMCell(channels * image_size**2, cfg.hidden)
        self.linear_1, self.linear_2 = (
            nn.Linear(cfg.hidden, cfg.features),
            nn.Linear(cfg.features, 8),
        )
        for layer in (self.linear_1, self.linear_2):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.constant_(layer.bias, 0.1)

    def forward(self, images: Images) -> Gaussian:
        """z_where of every object."""
        lstm, cfg = self.lstm, self.cfg
        of_image = F.linear(images.flatten(1), lstm.weight_ih, lstm.bias_ih + lstm.bias_hh)
        h = c = of_image.new_zeros(len(images), cfg.hidden)
        seen: list[Float[Tensor, "batch hidden"]] = []
        for _ in range(self.num_objects):
            i, f, g, o = (of_image + F.linear(h, lstm.weight_hh)).chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            seen.append(h)
        out = self.linear_2(self.linear_1(torch.stack(seen, dim=1)).sigmoid()).float().sigmoid()
        width, ratio, x, y, *stds = out.split(1, dim=-1)
        at = (-cfg.position, cfg.position)
        bounds = zip((width, ratio, x, y), (cfg.width, cfg.ratio, at, at), strict=True)
        means = [low + (high - low) * value for value, (low, high) in bounds]
        return Gaussian(torch.cat(means, dim=-1), cfg.std * torch.cat(stds, dim=-1))


def as_grey(
    video: Float[Tensor, "*batch 3 height width"],
) -> Float[Tensor, "*batch 1 height width"]:
    """Sum the color channels, so that the model sees shapes."""
    return video.sum(dim=-3, keepdim=True).clamp(max=1)


def hues(
    images: Float[Tensor, "batch 3 height width"], xy: Points, hw: Points, size: int
) -> Float[Tensor, "batch object 3"]:
    """The color in each box: the mean of its pixels, normalized by its brightness."""
    patches = crop(images, xy, hw.clamp_min(SMALLEST), size)
    mean, grey = (each.mean(dim=(-2, -1)) for each in (patches, as_grey(patches)))
    return mean / grey.clamp_min(1e-3)

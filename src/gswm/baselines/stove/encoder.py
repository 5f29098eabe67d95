"""SuPAIR's encoder, q(z_where | x): where the objects of a single frame may be.

An LSTM looks at the same frame once for each object:

    h_k = LSTM(x, h_{k-1})
    [m, s] = W_2 σ(W_1 h_k)
    mean = low + (high - low) σ(m)      std = 0.3 σ(s)

z_where is (s_x, q, x, y): the width of the box, its height over its width, and its center.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gswm.baselines.stove.images import Images
from gswm.distributions import Gaussian


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
    """A center is at most so far from the image's."""
    std: float = 0.3
    """The largest."""


class Encoder(nn.Module):
    """Proposes a box for each object."""

    def __init__(self, cfg: EncoderConfig, image_size: int, channels: int, num: int) -> None:
        super().__init__()
        self.cfg, self.num_objects = cfg, num
        self.lstm = nn.LSTMCell(channels * image_size**2, cfg.hidden)
        self.linear_1, self.linear_2 = nn.Linear(cfg.hidden, cfg.features), nn.Linear(cfg.features, 8)
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

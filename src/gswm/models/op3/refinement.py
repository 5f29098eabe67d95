"""Refinement: one step of IODINE's iterative inference (Greff et al. 2019), shared by all slots.

For each slot, the network sees the frame, the slot's picture, the likelihood of each pixel under
the mixture, and the gradients of the loss -log p(x) + β KL:

    f = Linear(mean(Conv([x, μ, m, l, p_k / Σ p, coordinates,
                          LN(∂m), LN(∂μ), LN(Σ m p), LN(Σ_{j≠k} m p)])))
    h = LSTM([f, LN(∂λ_1), LN(∂λ_2), s, λ])        λ ← λ + W h

d and the prior do not change. No gradient passes through the gradients, so training needs no second
derivatives.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.networks import per_object
from gswm.core.shapes import Frame
from gswm.models.objects import LSTMState
from gswm.models.op3.decoder import KERNEL, PAD, SlotPictures, coordinates
from gswm.models.op3.mixture import Mixture
from gswm.models.op3.slots import Params, Slots

INPUTS = 17
"""Channels of the network's input images."""
LEAST = 1e-6
"""Added to a standard deviation before dividing by it."""


@dataclass(frozen=True)
class Look:
    """The slots, their picture, and the frame to compare it with."""

    slots: Slots
    picture: SlotPictures
    mixture: Mixture
    x: Frame
    nll: Float[Tensor, " batch"]
    kl: Float[Tensor, " batch"]


class Standardize(nn.Module):
    """LN: mean 0 and standard deviation 1 over the last axes, then a learned gain and shift."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(shape))
        self.shift = nn.Parameter(torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        """Standardize over as many axes as the gain has."""
        axes = tuple(range(-self.gain.dim(), 0))
        std, mean = torch.std_mean(x, dim=axes, keepdim=True)
        return (x - mean) / (std + LEAST) * self.gain + self.shift


class Refinement(nn.Module):
    """Updates λ from its gradients."""

    def __init__(
        self, state: int, hidden: int, channels: int, stride: int, image_size: int
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        widths = (INPUTS, channels, channels, 2 * channels)
        for i, o in pairwise(widths):
            layers += [nn.Conv2d(i, o, KERNEL, stride=stride, padding=PAD), nn.CELU()]
        self.conv = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.linear = nn.Linear(2 * channels, hidden)
        self.lstm = nn.LSTMCell(hidden + 5 * state, hidden)
        self.head = nn.Linear(hidden, 2 * state)
        self.norm_mask, self.norm_mix, self.norm_others, self.norm_color = (
            Standardize(number, 1, 1) for number in (1, 1, 1, 3)
        )
        for norm in (self.norm_mask, self.norm_mix, self.norm_others, self.norm_color):
            nn.init.uniform_(norm.gain)
        self.norm_mean, self.norm_variance = Standardize(state), Standardize(state)
        self.coordinates: Tensor
        self.register_buffer("coordinates", coordinates(image_size), persistent=False)

    def forward(self, look: Look, gradient: Params) -> tuple[Params, LSTMState]:
        """The new λ and the state of the LSTM; `gradient` is ∂λ."""
        seen = per_object(self.conv, self.images(look))
        by_mean, by_variance = gradient.chunk(2, dim=-1)
        slopes = [self.norm_mean(by_mean), self.norm_variance(by_variance)]
        known = torch.cat([*slopes, look.slots.s], dim=-1)
        return self.update(seen, known, look.slots.lam, look.slots.memory)

    def images(self, look: Look) -> Float[Tensor, "batch object channel height width"]:
        """The inputs of the convolutions."""
        picture, mixture = look.picture, look.mixture
        with torch.no_grad():
            slopes = (mixture.by_mask(), mixture.mixed(), mixture.others(), mixture.by_color())
        norms = (self.norm_mask, self.norm_mix, self.norm_others, self.norm_color)
        whole = (*picture.mu.shape[:2], -1, -1, -1)
        parts = [
            *(look.x[:, None].expand(whole), picture.mu),
            *(mixture.log_m.exp(), picture.logit, mixture.apart()),
            *(norm(slope) for norm, slope in zip(norms, slopes, strict=True)),
            self.coordinates[None].expand(whole),
        ]
        return torch.cat(parts, dim=2)

    def update(
        self,
        seen: Float[Tensor, "batch object feature"],
        known: Float[Tensor, "batch object vector"],
        lam: Params,
        memory: LSTMState,
    ) -> tuple[Params, LSTMState]:
        """The recurrent part."""
        vector = torch.cat([F.celu(self.linear(seen)), known, lam], dim=-1)
        before = memory.h.flatten(0, 1), memory.c.flatten(0, 1)
        h, c = (x.unflatten(0, vector.shape[:2]) for x in self.lstm(vector.flatten(0, 1), before))
        return lam + self.head(h), LSTMState(h, c)

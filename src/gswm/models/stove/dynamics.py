"""Dynamics: a graph network moves the objects, in imagination and inside the posterior.

Object i is s_i: its position and velocity, and 12 latents that no image shows.

    dyn_i = self(s_i) + Σ_{j≠i} exp(a(c_ij)) r(c_ij)      c_ij = [s_i, s_j, ‖p_i - p_j‖²]
    [m, u] = out([f(dyn_i), s_i])
    mean = 2σ(m) - 1, added to the position; velocity and latents are replaced by it
    std = (0.3, 0.04, 0.04) σ(u)

The prior has this mean and a fixed std: p(z_t | z_{t-1}) = N(mean, 0.01²). The posterior is its
product with the encoder's Gaussian, each with its own std:

    q(size) = N_image     q(x, v) ∝ N_image · N(mean, std²)     q(latent) = N(mean, std²)

Optionally, an action is added to each s_i, and a reward is predicted from all dyn_i.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import repeat
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.distributions import Gaussian
from gswm.core.shapes import Scalars

Bodies = Float[Tensor, "batch object s"]
"""(x, y, v_x, v_y, latents)."""
Hues = Float[Tensor, "batch object 3"]
Action = Float[Tensor, "batch action"]
Logits = Float[Tensor, " *batch"]
"""Log-odds of a reward of 0 against -1."""
POSITION, MOTION, SIZE = 2, 4, 2
ACTION = 4
"""Features of an action, per object."""


@dataclass(frozen=True)
class DynamicsConfig:
    """Settings of p(z_t | z_{t-1}) and of its use in q(z_t)."""

    width: int = 32
    """Width of all layers; an object's state is half as wide."""
    prior_std: float = 0.01
    position_std: float = 0.3
    """Largest standard deviation of positions in the posterior; the next two are analogous."""
    velocity_std: float = 0.04
    latent_std: float = 0.04
    hue: bool = False
    """Whether the dynamics see an object's color."""
    actions: int = 0
    """Numbers per action; 0 for no actions."""
    rewards: bool = False
    """Whether the dynamics predict rewards, from -1 to 0."""

    @property
    def latents(self) -> int:
        """Size of the part of an object's state that no image shows."""
        return self.width // 2 - MOTION


@dataclass(frozen=True)
class StoveEvidence:
    """Inputs of the objective for one frame."""

    q: Gaussian
    """The posterior of (s_x, q, s)."""
    p: Float[Tensor, "*batch object s"]
    """The mean of the prior of s."""
    reward: Logits | None


class Dynamics(nn.Module):
    """The dynamics of objects."""

    def __init__(self, cfg: DynamicsConfig, num_objects: int) -> None:
        super().__init__()
        self.cfg, w = cfg, cfg.width
        num_in = w // 2 + 3 * cfg.hue + ACTION * (cfg.actions > 0)
        self.encode = nn.Linear(num_in, w)
        self.self_1, self.self_2 = nn.Linear(w, w), nn.Linear(w, w)
        self.rel_1, self.rel_2 = nn.Linear(2 * w + 1, 2 * w), nn.Linear(2 * w, w)
        self.rel_3 = nn.Linear(w, w)
        self.att_1, self.att_2 = nn.Linear(2 * w + 1, 2 * w), nn.Linear(2 * w, w)
        self.att_3 = nn.Linear(w, 1)
        self.affect_1, self.affect_2, self.affect_3 = (nn.Linear(w, w) for _ in range(3))
        self.out_1, self.out_2 = nn.Linear(2 * w, w), nn.Linear(w, w)
        if cfg.actions:
            self.act = nn.Linear(cfg.actions, ACTION * num_objects)
        if cfg.rewards:
            self.reward_each = nn.Sequential(nn.Linear(w, w), nn.ReLU(), nn.Linear(w, w))
            hidden = [nn.Linear(w, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU()]
            self.reward_all = nn.Sequential(*hidden, nn.Linear(8, 1))

    def forward(
        self, s: Bodies, pres: Scalars, hue: Hues | None, action: Action | None
    ) -> tuple[Gaussian, Logits | None]:
        """The next state and its reward; absent objects do not act on others."""
        cfg, xy = self.cfg, s[..., :POSITION]
        known = [s, *([hue] if cfg.hue and hue is not None else [])]
        if cfg.actions and action is not None:
            known.append(self.act(action).unflatten(-1, (-1, ACTION)))
        e = torch.cat([xy, self.encode(torch.cat(known, dim=-1))[..., POSITION:]], dim=-1)
        dyn = self.interact(e, pres)

        f = torch.tanh(self.affect_1(dyn))
        f = self.affect_3(torch.tanh(self.affect_2(f)) + f)
        out = torch.tanh(self.out_1(torch.cat([f, e], dim=-1)))
        mean, std = (self.out_2(out) + out).float().chunk(2, dim=-1)
        mean = 2 * mean.sigmoid() - 1
        stds = std.sigmoid().split([POSITION, POSITION, cfg.latents], dim=-1)
        bounds = (cfg.position_std, cfg.velocity_std, cfg.latent_std)
        std = torch.cat([most * std for most, std in zip(bounds, stds, strict=True)], dim=-1)
        mean = torch.cat([xy + mean[..., :POSITION], mean[..., POSITION:]], dim=-1)
        reward = None
        if cfg.rewards:
            reward = self.reward_all((self.reward_each(dyn) * pres).sum(dim=1))[:, 0]
        return Gaussian(mean, std), reward

    def interact(
        self, e: Float[Tensor, "batch object e"], pres: Scalars
    ) -> Float[Tensor, "batch object e"]:
        """dyn: the effect on each object of itself and of all others."""
        h = F.leaky_relu(self.self_1(e))
        alone, num = self.self_2(h) + h, e.shape[1]
        e_i, e_j = repeat(e, "b i e -> b i j e", j=num), repeat(e, "b j e -> b i j e", i=num)
        apart = (e_i - e_j)[..., :POSITION].square().sum(dim=-1, keepdim=True)
        pair = torch.cat([e_i, e_j, apart], dim=-1)
        r = F.leaky_relu(self.rel_2(F.leaky_relu(self.rel_1(pair))))
        a = self.att_3(F.leaky_relu(self.att_2(F.leaky_relu(self.att_1(pair)))))
        oneself = torch.eye(num, dtype=torch.bool, device=e.device)[..., None]
        felt = a.masked_fill(oneself, -torch.inf).exp() * pres[:, None]
        return alone + (felt * (self.rel_3(r) + r)).sum(dim=2)

    def infer(
        self,
        s: Bodies,
        seen: Gaussian,
        noise: Float[Tensor, "batch object z"],
        hue: Hues | None,
        action: Action | None,
    ) -> tuple[Float[Tensor, "batch object z"], StoveEvidence]:
        """z_t = (s_x, q, s_t), from s_{t-1} and what the encoder sees of (s_x, q, x, v)."""
        moved, reward = self(s, torch.ones_like(s[..., :1]), hue, action)
        both = moved.part(slice(MOTION)).times(seen.part(slice(SIZE, None)))
        q = Gaussian.joined([seen.part(slice(SIZE)), both, moved.part(slice(MOTION, None))])
        return q.draw(noise), StoveEvidence(q, moved.mean, reward)

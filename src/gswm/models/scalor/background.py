"""The background: one vector per frame, inferred from the pixels that objects do not explain.

The prior lets it change a little from frame to frame; the posterior sees each frame alone:

    prior       z_bg ~ N(0, 1) in the first frame, then N(z_bg_{t-1} + δ, s)
                [δ, s] = Linear(h)    h ← GRU(z_bg_{t-1}, h)
    posterior   z_bg ~ N(Conv_bg([x, 1 - α]))
    both        μ_bg = σ(Deconv_bg(z_bg))
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.distributions import Gaussian
from gswm.core.networks import in_parts
from gswm.core.records import stack
from gswm.models.layers import ContextNoise, Contexts
from gswm.models.scalor.networks import background_decoder, background_encoder

HIDDEN = 32


@dataclass(frozen=True)
class BackgroundState:
    """The state of the background."""

    z: Float[Tensor, "batch context"]
    h: Float[Tensor, "batch hidden"]


class Background(nn.Module):
    """The model of the background."""

    def __init__(self, num_z: int, image_size: int) -> None:
        super().__init__()
        self.conv_bg = background_encoder(2 * num_z, image_size)
        self.deconv_bg = background_decoder(num_z, image_size)
        self.rnn_prior = nn.GRUCell(num_z, HIDDEN)
        self.linear_prior = nn.Linear(HIDDEN, 2 * num_z)

    def prior(self, state: BackgroundState) -> tuple[Gaussian, Tensor]:
        """p(z_bg | earlier z_bg), and the RNN's next state."""
        h = self.rnn_prior(state.z, state.h)
        change = Gaussian.of(self.linear_prior(h))
        return Gaussian(state.z + change.mean, change.std), h

    def imagine(self, state: BackgroundState, noise: ContextNoise) -> Contexts:
        """p(z_bg | earlier z_bg), for each step of the noise."""
        states, ps = [state], []
        for t in range(noise.shape[1]):
            p, h = self.prior(states[-1])
            states.append(BackgroundState(p.draw(noise[:, t]), h))
            ps.append(p)
        return self.contexts(states[1:], stack(ps, dim=1), stack(ps, dim=1))

    def infer(
        self, noise: ContextNoise, seen: Float[Tensor, "batch time 4 height width"]
    ) -> Contexts:
        """q(z_bg | x, α) of every frame, for whole videos."""
        q = Gaussian.of(in_parts(self.conv_bg, seen.flatten(0, 1)).unflatten(0, seen.shape[:2]))
        z = q.draw(noise)
        states = [BackgroundState(z[:, 0], z.new_zeros(len(z), HIDDEN))]
        ps = [Gaussian(torch.zeros_like(z[:, 0]), torch.ones_like(z[:, 0]))]
        for t in range(1, z.shape[1]):
            p, h = self.prior(states[-1])
            states.append(BackgroundState(z[:, t], h))
            ps.append(p)
        return self.contexts(states, q, stack(ps, dim=1))

    def contexts(self, states: list[BackgroundState], q: Gaussian, p: Gaussian) -> Contexts:
        """Decode μ_bg of every frame."""
        z = torch.stack([state.z for state in states], dim=1)
        mu_bg = in_parts(self.deconv_bg, z.flatten(0, 1)).sigmoid().unflatten(0, z.shape[:2])
        return Contexts(states, mu_bg, q, p)

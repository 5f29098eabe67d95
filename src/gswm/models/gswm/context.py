"""Context (§3.2, A.1): the background, and how it changes.

An LSTM for the prior and one for the posterior, both fed with z_ctx; the posterior sees x_t too:

    prior       z_ctx ~ N(MLP_ctx_prior(h))            h ← RNN_ctx_prior(z_ctx, h)
    posterior   z_ctx ~ N(MLP_ctx_post([ĥ, e_frame]))  ĥ ← RNN_ctx_post(z_ctx, ĥ)
    both        μ_bg = σ(Deconv_ctx(z_ctx))            e_frame = Conv_ctx(x_t)
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.distributions import Gaussian
from gswm.core.networks import MLP, Encoder, FrameDecoder, recomputed
from gswm.core.records import frames, stack
from gswm.core.shapes import Frame, Video
from gswm.models.layers import ContextNoise, Contexts
from gswm.models.objects import LSTMState, Sizes

RECOMPUTED = 64
"""Conv_ctx of frames larger than this is computed again for its gradients, to save memory."""


@dataclass(frozen=True)
class ContextState:
    """The state of the context: both RNNs after the last z_ctx."""

    h_prior: LSTMState
    h_post: LSTMState


@dataclass(frozen=True)
class DrawnContext:
    """The context of one frame, and the distributions behind it."""

    state: ContextState
    """The state after the frame."""
    z_ctx: Float[Tensor, "batch context"]
    q: Gaussian


class Context(nn.Module):
    """The background."""

    def __init__(self, sizes: Sizes, image_size: int) -> None:
        super().__init__()
        z, hidden, e = sizes.context, sizes.hidden, sizes.encoding
        channels = [3, 64, 128, 256, 512] + [512] * (image_size.bit_length() - 7)
        self.conv = Encoder(image_size, channels, e, first_kernel=7)
        self.deconv = FrameDecoder(z, image_size)
        self.rnn_prior = nn.LSTMCell(z, hidden)
        self.rnn_post = nn.LSTMCell(z, hidden)
        self.mlp_prior = MLP(hidden, [e, e], 2 * z)
        self.mlp_post = MLP(hidden + e, [e, e], 2 * z)
        self.h_0 = nn.Parameter(torch.randn(2, 2, hidden))

    def start(self, batch: int, background: Frame | None = None) -> ContextState:
        """The state before the first frame."""
        h = self.h_0[:, :, None].repeat(1, 1, batch, 1)
        return ContextState(LSTMState(*h[0]), LSTMState(*h[1]))

    def imagine(self, state: ContextState, noise: ContextNoise) -> Contexts:
        """p(z_ctx | earlier z_ctx), for each step of the noise."""
        return self.run(state, noise, None)

    def infer(self, state: ContextState, noise: ContextNoise, video: Video) -> Contexts:
        """q(z_ctx | x_t, earlier z_ctx), for every frame of `video`."""
        flat = video.flatten(0, 1)
        e_frame = recomputed(self.conv, flat) if self.conv.size > RECOMPUTED else self.conv(flat)
        return self.run(state, noise, e_frame.unflatten(0, video.shape[:2]))

    def run(
        self,
        state: ContextState,
        noise: ContextNoise,
        e_frame: Float[Tensor, "batch time e"] | None,
    ) -> Contexts:
        """z_ctx from the posterior if there are frames, and from the prior otherwise."""
        e = [None] * noise.shape[1] if e_frame is None else frames(e_frame)
        states, drawn = [state], []
        for noise_t, e_t in zip(frames(noise), e, strict=True):
            drawn.append(self.step(states[-1], noise_t, e_t))
            states.append(drawn[-1].state)
        z_ctx = stack([each.z_ctx for each in drawn], dim=1)
        mu_bg = self.deconv(z_ctx.flatten(0, 1)).sigmoid().unflatten(0, z_ctx.shape[:2])
        q = p = stack([each.q for each in drawn], dim=1)
        if e_frame is not None:
            p = self.prior(stack([before.h_prior.h for before in states[:-1]], dim=1))
        return Contexts(states[1:], mu_bg, q, p)

    def prior(self, h_prior: Float[Tensor, "*batch hidden"]) -> Gaussian:
        """p(z_ctx | h)."""
        return Gaussian.of(self.mlp_prior(h_prior))

    def step(
        self,
        state: ContextState,
        noise: Float[Tensor, "batch context"],
        e_frame: Float[Tensor, "batch e"] | None,
    ) -> DrawnContext:
        """Advance by one frame."""
        if e_frame is None:
            q = self.prior(state.h_prior.h)
        else:
            q = Gaussian.of(self.mlp_post(torch.cat([state.h_post.h, e_frame], dim=-1)))
        z_ctx = q.draw(noise)
        return DrawnContext(self.remember(state, z_ctx), z_ctx, q)

    def remember(self, state: ContextState, z_ctx: Float[Tensor, "batch context"]) -> ContextState:
        """Advance both RNNs, h and ĥ, by one step."""
        h_prior = self.rnn_prior(z_ctx, (state.h_prior.h, state.h_prior.c))
        h_post = self.rnn_post(z_ctx, (state.h_post.h, state.h_post.c))
        return ContextState(LSTMState(*h_prior), LSTMState(*h_post))

    def recurrent(self) -> list[tuple[nn.Module, str]]:
        """The method that is called once per frame."""
        return [(self, "step")]

    def batched(self) -> list[tuple[nn.Module, str]]:
        """The networks that process all frames at once."""
        return [(self.conv, "forward"), (self.deconv, "forward")]

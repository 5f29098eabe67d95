"""The layers of a frame: objects, and the background behind them."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.distributions import Gaussian
from gswm.core.shapes import Frame, Mask, Video

ContextNoise = Float[Tensor, "batch time context"]


@dataclass(frozen=True)
class Foreground:
    """All objects of a frame, drawn."""

    mu_fg: Frame
    alpha: Mask

    def over(self, mu_bg: Frame) -> Frame:
        """μ: the frame, with the background where no object is."""
        return self.mu_fg + (1 - self.alpha) * mu_bg


@dataclass(frozen=True)
class Contexts:
    """The backgrounds of some frames, and the latents they are drawn from."""

    states: list[Any]
    """The recurrent state of the background after each frame."""
    mu_bg: Video
    q: Gaussian
    p: Gaussian


class NoContext(nn.Module):
    """A black background, for worlds that have none (B.1)."""

    def __init__(self, image_size: int) -> None:
        super().__init__()
        self.image_size = image_size
        self.nothing: Tensor
        self.register_buffer("nothing", torch.zeros(()), persistent=False)

    def start(self, batch: int) -> Any:
        """An empty state."""
        return self.nothing.expand(batch, 0)

    def imagine(self, state: object, noise: ContextNoise) -> Contexts:
        """Black frames, as many as there is noise for."""
        batch, time = noise.shape[:2]
        mu_bg = self.nothing.expand(batch, time, 3, self.image_size, self.image_size)
        standard = Gaussian(noise[..., :0], noise[..., :0])
        return Contexts([state] * time, mu_bg, standard, standard)

    def infer(self, state: object, noise: ContextNoise, video: Video) -> Contexts:
        """Black frames."""
        return self.imagine(state, noise)

    def recurrent(self) -> list[tuple[nn.Module, str]]:
        """No method is called frame by frame."""
        return []

    def batched(self) -> list[tuple[nn.Module, str]]:
        """No network sees the frames."""
        return []

"""The layers of a frame: objects, and the background behind them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.distributions import Gaussian
from gswm.core.records import frames, map_tensors
from gswm.core.shapes import Frame, Mask, Scalars, Video
from gswm.data.background import Light, match_light

ContextNoise = Float[Tensor, "batch time context"]


@dataclass(frozen=True)
class Foreground:
    """All objects of a frame, drawn."""

    mu_fg: Frame
    alpha: Mask
    fill: Scalars | None = None
    """Mean of α in the box of each object; None if the model does not compute it."""

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

    def start(self, batch: int, background: Frame | None = None) -> Any:
        """An empty state."""
        return self.nothing.expand(batch, 0)

    def imagine(self, state: object, noise: ContextNoise) -> Contexts:
        """Black frames, one per step of the noise."""
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


@dataclass(frozen=True)
class StillState:
    """A picture of the background, and the light of the last frame."""

    picture: Frame
    light: Light


class StaticContext(nn.Module):
    """The background of a fixed camera: a given picture, adapted to the light of each frame.

    Imagined frames keep the light of the last observed frame.
    """

    def __init__(self) -> None:
        super().__init__()
        self.picture: Tensor | None
        self.register_buffer("picture", None)
        self.register_load_state_dict_pre_hook(take_picture)

    def start(self, batch: int, background: Frame | None = None) -> Any:
        """The state before the first frame."""
        assert background is not None
        one = background.new_ones(batch, 3, 1, 1)
        return StillState(background, Light(one, torch.zeros_like(one)))

    def imagine(self, state: Any, noise: ContextNoise) -> Contexts:
        """The last background, repeated for each step of the noise."""
        time = noise.shape[1]
        light = map_tensors(lambda x: x[:, None].expand(-1, time, 3, 1, 1), state.light)
        return self.lit(state.picture, light, noise)

    def infer(self, state: Any, noise: ContextNoise, video: Video) -> Contexts:
        """The background in the light of each frame."""
        return self.lit(state.picture, match_light(state.picture[:, None], video), noise)

    def lit(self, picture: Frame, light: Light, noise: ContextNoise) -> Contexts:
        """The picture in the light of the given frames."""
        nothing = Gaussian(noise[..., :0], noise[..., :0])
        states: list[Any] = [StillState(picture, each) for each in frames(light)]
        return Contexts(states, light.on(picture[:, None]).clamp(0, 1), nothing, nothing)

    def recurrent(self) -> list[tuple[nn.Module, str]]:
        """No method is called frame by frame."""
        return []

    def batched(self) -> list[tuple[nn.Module, str]]:
        """No network sees the frames."""
        return []


def take_picture(context: Any, state: Mapping[str, Tensor], prefix: str, *_: Any) -> None:
    """Allocate the buffer of the picture, if the weights contain one."""
    found = state.get(f"{prefix}picture")
    context.picture = None if found is None else torch.empty_like(found)

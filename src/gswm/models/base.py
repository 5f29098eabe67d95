"""What every model here can do, and the records it answers with (§3.1).

Evaluation, pictures and the studio see these records only, whichever model made them.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from gswm.core.errors import UserError
from gswm.core.shapes import Video
from gswm.models.track import Track

AnyVideo = Video | UInt8[Tensor, "batch time 3 height width"]
Discover = Literal["always", "first"]


@runtime_checkable
class State(Protocol):
    """All that a model carries from one frame to the next, for every video of a batch.

    Every edit gives a new state. It is done in each video that has an object of that id, or in
    video number `of` alone.
    """

    def move(self, id: int, xy: tuple[float, float], of: int | None = None) -> "State":
        """The object at another place."""
        ...

    def remove(self, id: int, of: int | None = None) -> "State":
        """The object gone."""
        ...

    def add(self, copy_of: int, xy: tuple[float, float], of: int | None = None) -> "State":
        """One more object, like another but at `xy`; its id is the next free one."""
        ...

    def change(
        self,
        id: int,
        *,
        hw: tuple[float, float] | None = None,
        depth: float | None = None,
        look_of: int | None = None,
        velocity: tuple[float, float] | None = None,
        of: int | None = None,
    ) -> "State":
        """The object with another size, depth, look or velocity, where the model has these."""
        ...


@dataclass(frozen=True)
class Loss:
    """What training lowers, and what it is made of."""

    total: Float[Tensor, ""]
    """Mean over the videos of a batch."""
    terms: dict[str, Float[Tensor, ""]]
    """They add up to the total."""
    metrics: dict[str, Float[Tensor, ""]]
    """What is worth watching beside: `objects` per frame, if the model finds out how many there
    are, and what it adds."""

    @staticmethod
    def of(terms: dict[str, Float[Tensor, " batch"]], metrics: dict[str, Tensor]) -> "Loss":
        """From what each video adds to each term."""
        means = {name: term.mean() for name, term in terms.items()}
        return Loss(torch.stack(list(means.values())).sum(), means, metrics)


@runtime_checkable
class Stage(Protocol):
    """Which form of the loss a training step has; within a stage every step has the same form."""

    @property
    def length(self) -> int:
        """How many frames of video a step sees."""
        ...

    @property
    def through_frames(self) -> bool:
        """Whether gradients go through the methods of frames; if not, compiling them is no use."""
        ...

    @property
    def repeats(self) -> int:
        """After so many steps their windows come again; 0 where they are new in every step.

        Where they come again, the model must be one that `Observes`.
        """
        ...


@runtime_checkable
class WorldModel(Protocol):
    """A model of video as objects."""

    @property
    def image_size(self) -> int:
        """Pixels of a frame, high and wide."""
        ...

    def stage(self, step: int) -> Any:
        """The stage of training that `step` belongs to."""
        ...

    def noise(self, batch: int, stage: Any, generator: torch.Generator) -> Any:
        """All that is random in a training step: a record of tensors, batch first."""
        ...

    def loss(self, video: AnyVideo, noise: Any, step: Tensor, stage: Any) -> Loss:
        """What training lowers, on a batch of videos of the stage's length."""
        ...

    def infer(
        self, video: AnyVideo, *, discover: Discover = "always", render: bool = True
    ) -> Track:
        """The objects of each video, by the means of the posterior."""
        ...

    def imagine(
        self,
        video: AnyVideo,
        given: int,
        steps: int,
        *,
        futures: int = 1,
        sample: bool = True,
        generator: torch.Generator | None = None,
        render: bool = True,
    ) -> Track:
        """How each video goes on after its first `given` frames, in as many futures as asked."""
        ...

    def imagine_from(
        self,
        state: Any,
        steps: int,
        *,
        futures: int = 1,
        sample: bool = True,
        generator: torch.Generator | None = None,
        render: bool = True,
    ) -> Track:
        """How it goes on from a state."""
        ...


@runtime_checkable
class Parts(Protocol):
    """What a model says of its parts, so that training can be fast (`train.fast`).

    A method is named by its module and its name. Its arguments and what it gives are tensors and
    records of them, whose first axis is a batch of any length.
    """

    def recurrent(self) -> list[tuple[nn.Module, str]]:
        """The methods that are called frame by frame, each a function of its arguments alone."""
        ...

    def batched(self) -> list[tuple[nn.Module, str]]:
        """Others that take much time: of all frames at once, or of one with nothing to learn."""
        ...

    def halves(self) -> list[nn.Module]:
        """The networks to whose convolutions half precision does no harm."""
        ...


@runtime_checkable
class Observes(Protocol):
    """A model whose loss can be taken of what it has observed, as often as that comes again."""

    def observe(self, video: AnyVideo, noise: Any) -> Any:
        """What there is to learn from: a record of tensors, the same whatever has been learned."""
        ...

    def loss_of(self, observed: Any) -> Loss:
        """The loss of the videos that it was observed in."""
        ...


def as_float(video: AnyVideo) -> Video:
    """Values from 0 to 1."""
    return video / 255 if video.dtype == torch.uint8 else video


def check_video(video: Tensor, image_size: int) -> Video:
    """`video` as floats from 0 to 1, or one sentence about what is wrong with it."""
    expected = f"(batch, time, 3, {image_size}, {image_size})"
    if not isinstance(video, Tensor):
        hint = "; use torch.from_numpy(video)" if type(video).__module__ == "numpy" else ""
        kind = type(video).__name__
        raise UserError(f"a video is a torch tensor {expected}; this is a {kind}{hint}")
    shape = tuple(video.shape)
    if video.dim() != 5 or shape[2:] != (3, image_size, image_size):
        hint = "; its channels come last: use video.movedim(-1, 2)" if shape[-1:] == (3,) else ""
        raise UserError(f"this model takes videos of shape {expected}, not {shape}{hint}")
    if 0 in shape:
        raise UserError(f"a video of shape {shape} has no frames")
    if video.dtype == torch.uint8:
        return as_float(video)
    if not video.is_floating_point():
        raise UserError(f"a video is uint8, or floats from 0 to 1; this one is {video.dtype}")
    low, high = video.aminmax()
    if not (torch.isfinite(low) and torch.isfinite(high)):
        raise UserError("the video has values that are not finite: NaN or infinity")
    if low < 0 or high > 1:
        hint = "; divide it by 255" if high > 2 else ""
        raise UserError(f"a float video is from 0 to 1; this goes from {low:g} to {high:g}{hint}")
    return video.float()

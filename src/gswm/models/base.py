"""What every model here can do, and the records it answers with (§3.1).

Evaluation, pictures and the studio see these records only, whichever model made them.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from gswm.core.errors import UserError
from gswm.core.files import write_whole
from gswm.core.shapes import Video

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
class Track:
    """The objects of some videos, frame by frame; imagined ones have an axis more, for futures."""

    xy: Float[Tensor, "*batch time object 2"]
    """Centers; (-1, -1) is the top left corner of the image, (1, 1) its bottom right."""
    hw: Float[Tensor, "*batch time object 2"]
    """Heights and widths, as fractions of the image."""
    depth: Float[Tensor, "*batch time object"]
    """Nearness: the larger covers the smaller."""
    pres: Float[Tensor, "*batch time object"]
    """Presence, from 0 to 1: an object is there if it is above a half."""
    id: Int[Tensor, "*batch time object"]
    """The same number for the same object in all frames; -1 for none."""
    reconstruction: Float[Tensor, "*batch time 3 height width"] | None
    """The frames as the model draws them; None where that was not asked for."""
    background: Float[Tensor, "*batch time 3 height width"] | None
    """The same without objects."""
    states: tuple[Any, ...] = field(default=(), repr=False)
    """After each frame; videos and futures share the first axis."""
    past: "Track | None" = None
    """The given frames from which this was imagined."""
    reward: Float[Tensor, "*batch time"] | None = None
    """What is earned on the way to each frame, where the model was trained to tell."""

    def state_at(self, frame: int) -> Any:
        """Everything that carries on after `frame`: edit it, and imagine from it."""
        if not -len(self.states) <= frame < len(self.states):
            raise UserError(f"there is no state at frame {frame} of {len(self.states)}")
        return self.states[frame]

    def to_frame(self) -> dict[str, list[int | float]]:
        """One row per object and frame, as columns: what pandas.DataFrame takes as it is.

        x, y, w and h are fractions of the image, x and y from its top left corner. Where there
        are futures, `future` says which.
        """
        there = (self.pres > 0.5) & (self.id >= 0)
        index = there.nonzero()
        names = ["episode", "future", "frame"] if self.pres.dim() == 4 else ["episode", "frame"]
        columns = dict(zip(names, index.T.tolist(), strict=False))
        center, size = (self.xy[there] + 1) / 2, self.hw[there]
        values = {"id": self.id[there], "x": center[:, 0], "y": center[:, 1]}
        values |= {"w": size[:, 1], "h": size[:, 0]}
        values |= {"depth": self.depth[there], "presence": self.pres[there]}
        return columns | {name: value.tolist() for name, value in values.items()}

    def to_csv(self, path: str | Path, first_episode: int = 0) -> None:
        """Write what `to_frame` gives, a line per object and frame, to a file.

        Where it was imagined, the given frames come first, as future -1, and frames are counted
        from the first of them. Episodes are counted from `first_episode`.
        """
        columns = self.to_frame()
        if self.past is not None:
            past, given = self.past.to_frame(), self.past.pres.shape[-2]
            past["future"] = [-1] * len(past["id"])
            columns["frame"] = [frame + given for frame in columns["frame"]]
            columns = {name: past[name] + values for name, values in columns.items()}
        columns["episode"] = [first_episode + episode for episode in columns["episode"]]
        rows = zip(*columns.values(), strict=True)
        lines = [columns, *(map(as_text, row) for row in rows)]
        write_whole(Path(path), "".join(",".join(line) + "\n" for line in lines).encode())


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


def as_text(value: int | float) -> str:
    """A number as a table has it."""
    return str(value) if isinstance(value, int) else f"{value:.6g}"


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

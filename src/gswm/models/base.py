"""The contract of a world model (§3.1).

`WorldModel` states everything that training, evaluation, the studio and export need. A new model
implements three methods and inherits the rest:

    loss       what training minimizes, on a batch of videos
    perceive   the objects of videos, frame by frame: the posterior
    rollout    one future of each state: the prior

All else has a default: a model without random numbers of its own (`noise`), without a fast path
(`recurrent`), without editing (`editable`), without actions (`num_actions`) and without samples of
its posterior (`perceive_sample`) trains, evaluates, saves, loads and opens in the studio.
`gswm.register` makes it known by name.

`infer`, `imagine` and `imagine_from` are what users call. They check their arguments, move videos
to the model's device, and keep no gradients; `perceive` and `rollout` need do none of that.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, get_args

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from gswm.core.errors import UserError
from gswm.core.records import map_tensors, repeat, tensors
from gswm.core.schedule import Curriculum, Stage
from gswm.core.settings import check_numbers
from gswm.core.shapes import Frame, Video
from gswm.data.background import FRAMES, shows
from gswm.data.background import as_float as as_float
from gswm.data.batches.batch import Batch
from gswm.data.importing.film import Film
from gswm.data.standing import empty_scene
from gswm.models.state import NOT_EDITABLE
from gswm.models.track import AnyVideo as AnyVideo
from gswm.models.track import Track

if TYPE_CHECKING:
    from gswm.models.recipe import Recipe

Actions = Float[Tensor, "batch moment action"]
Plans = Actions | Float[Tensor, "batch future moment action"]
Owners = Int[Tensor, "batch height width"]
"""The id of the object that is visible at each pixel; -1 for the background."""
AnyFrame = Float[Tensor, "*picture 3 rows columns"] | UInt8[Tensor, "*picture 3 rows columns"]
Discover = Literal["always", "first"]
Method = tuple[nn.Module, str]
"""A method, by its module and its name. Its arguments, which have no names, and its results are
tensors and records of tensors whose first axis is a batch of any length."""


@dataclass(frozen=True)
class ModelConfig:
    """Settings of a model. A subclass adds its own, and checks them."""

    kind: ClassVar[str] = ""
    """The name under which the model is registered; saved with the settings."""

    image_size: int = 64
    num_objects: int = 10
    """The largest number of objects in a frame."""
    schedule: Curriculum = field(default_factory=Curriculum)

    @property
    def has_background(self) -> bool:
        """Whether the background is learned."""
        return True

    @property
    def takes_background(self) -> bool:
        """Whether the model is given a picture of the background; see `WorldModel.infer`."""
        return False

    @property
    def takes_labels(self) -> bool:
        """Whether the loss needs the true boxes of a world's objects."""
        return False

    def resized_from(self, before: "ModelConfig") -> "ModelConfig":
        """The same, with settings that follow the image size, where only that was changed."""
        return self

    def check(self) -> None:
        """Raise `UserError` if the settings do not fit together."""
        check_numbers(self, "--model")
        if (steps := self.schedule.background_only) > 0 and not self.has_background:
            raise UserError(
                f"--model.schedule.background-only is {steps}, and this model has no background: "
                "set it to 0, or give the model one by --model.background"
            )

    @classmethod
    def upgraded(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Settings saved by an earlier version, as this version names them."""
        return values

    @classmethod
    def of_values(cls, values: dict[str, Any]) -> "type[ModelConfig]":
        """The class of saved settings."""
        from gswm.models.registry import config_class

        return config_class(values)


AnyNoise = TypeVar("AnyNoise", bound="Noise")


@dataclass(frozen=True)
class Noise:
    """All random numbers of a training step: a record of tensors, batch first."""

    def rows(self: AnyNoise, which: slice) -> AnyNoise:
        """Those of some of the videos."""
        return map_tensors(lambda tensor: tensor[which], self)


@dataclass(frozen=True)
class Loss:
    """What training minimizes, and the terms it consists of."""

    total: Float[Tensor, ""]
    """Mean over the videos of a batch."""
    terms: dict[str, Float[Tensor, ""]]
    """They add up to the total, and none is called `loss`."""
    metrics: dict[str, Float[Tensor, ""]]
    """Other numbers to report; `objects` is the number per frame, if the model infers it."""

    @staticmethod
    def of(terms: dict[str, Float[Tensor, " batch"]], metrics: dict[str, Tensor]) -> "Loss":
        """From each video's contribution to each term."""
        means = {name: term.mean() for name, term in terms.items()}
        return Loss(torch.stack(list(means.values())).sum(), means, metrics)


@dataclass(frozen=True)
class Regions:
    """Where a model looked for each object of a frame."""

    xy: Float[Tensor, "batch object 2"]
    hw: Float[Tensor, "batch object 2"]


Config = TypeVar("Config", bound=ModelConfig)


class WorldModel(nn.Module, ABC, Generic[Config]):
    """A model of video as objects."""

    boxes_from: ClassVar[Literal["latents", "masks"]] = "latents"
    """The source of a track's boxes: the model infers them, or they are found in its masks.
    Evaluation reports it."""
    editable: ClassVar[bool] = False
    """Whether the studio offers edits: the model then implements `view`, `owners`, `proposals` and
    `infer_after`, and its states are `State`s."""
    recipe: "Recipe | None" = None
    """The recipe that the model was built by, or loaded with."""
    videos: Mapping[str, Any] = MappingProxyType({})
    """How the training videos were cut: `fps`, `fit` and `region`. Empty for a model of a world."""

    def __init__(self, cfg: Config) -> None:
        super().__init__()
        cfg.check()
        self.cfg = cfg

    # -- required

    @abstractmethod
    def loss(self, batch: Batch, noise: Any, step: Tensor, stage: Any) -> Loss:
        """What training minimizes, on videos of the stage's length.

        Args:
            batch: the videos, as bytes or floats (`as_float` converts); with actions for a model
                that takes them, and for no other.
            noise: what `noise` returned for the stage.
            step: the number of the step, on the model's device.
            stage: what `stage` returned for the step.
        """

    @abstractmethod
    def perceive(
        self,
        video: Video,
        *,
        discover: Discover,
        render: bool,
        actions: Actions | None,
        background: Frame | None,
    ) -> Track:
        """The objects of each video, by the means of the posterior; see `infer`.

        A model that takes actions gets one for each frame but the last, and a model that takes a
        background gets one for each video.

        Returns:
            A track with one state per frame. A state is a record: a tensor, a dataclass of
            tensors, or a tuple, list or dict of these, with the videos as the first axis of each
            tensor. With `render`, the track has `reconstruction` and `background`.
        """

    @abstractmethod
    def rollout(
        self,
        state: Any,
        steps: int,
        generator: torch.Generator | None,
        *,
        render: bool,
        actions: Actions | None,
    ) -> Track:
        """One future of each video, by the prior; without a generator, by its means.

        Args:
            state: one that `perceive` or `rollout` returned.
            steps: frames to imagine.
            generator: draws the samples.
            render: also draw the frames.
            actions: one a step, the first of which is taken in the frame of `state`.

        Returns:
            A track with as many objects per frame as that of `perceive`, and states like its.
        """

    # -- optional

    def perceive_sample(
        self,
        video: Video,
        generator: torch.Generator,
        *,
        discover: Discover,
        render: bool,
        actions: Actions | None,
        background: Frame | None,
    ) -> Track:
        """The same as `perceive`, by one sample of the posterior of each video.

        Default: refuse.
        """
        kind = type(self).__name__
        raise UserError(f"{kind} does not sample its posterior: infer the given frames by means")

    def adapted(self, weights: dict[str, Tensor], of: ModelConfig) -> dict[str, Tensor]:
        """Weights saved with settings `of`, as this model needs them. Default: unchanged.

        For settings that change what a weight means, and not its shape.
        """
        return weights

    def coarse(self) -> list[nn.Module]:
        """The networks whose weights may be stored in 8 bits, by `gswm export --compact`.

        Name networks that see or draw frames. In those that carry objects from frame to frame,
        rounding errors add up. Default: none.
        """
        return []

    # -- training

    def parts(self) -> dict[str, list[nn.Module]]:
        """The modules whose gradients are clipped together, by a name for each such part.

        With `--train.clip-by part`, each part is clipped by its own norm, and all parameters that
        belong to no part, or to several, form one more. Default: no parts.
        """
        return {}

    def stage(self, step: int) -> Stage:
        """The stage of training that `step` belongs to."""
        return self.cfg.schedule.stage(step)

    def noise(self, batch: int, stage: Any, generator: torch.Generator) -> Noise:
        """All random numbers of a training step, on the generator's device. Default: none."""
        return Noise()

    def observe(self, batch: Batch, noise: Any) -> Any:
        """A record of tensors to learn from, in stages whose windows repeat.

        It must not depend on the parameters that these stages train.
        """
        raise NotImplementedError(f"{type(self).__name__} has no stages whose windows repeat")

    def loss_of(self, observed: Any, noise: Any) -> Loss:
        """The loss of what `observe` returned; `noise` is new at every step."""
        raise NotImplementedError(f"{type(self).__name__} has no stages whose windows repeat")

    # -- the fast path (`gswm.fast`): a model that names no methods takes the plain one

    def recurrent(self) -> list[Method]:
        """The methods called once per frame in training, each a function of its arguments."""
        return []

    def batched(self) -> list[Method]:
        """Other expensive methods of training: of all frames at once, or without parameters."""
        return []

    def halves(self) -> list[nn.Module]:
        """The networks whose convolutions may run in half precision in training."""
        return []

    def replayable(self) -> list[Method]:
        """The methods called once per frame in inference, each a function of its arguments."""
        return []

    # -- imagination

    @property
    def image_size(self) -> int:
        """Height and width of a frame in pixels."""
        return self.cfg.image_size

    @property
    def device(self) -> torch.device:
        """The device of the parameters, or of the buffers if there are no parameters."""
        held = chain(self.parameters(), self.buffers())
        return next((tensor.device for tensor in held), torch.device("cpu"))

    @property
    def num_actions(self) -> int:
        """Numbers per action; 0 for a model that takes none.

        `actions[:, t]` is taken in frame t and influences frame t + 1.
        """
        return 0

    @torch.no_grad()
    def infer(
        self,
        video: AnyVideo,
        *,
        discover: Discover = "always",
        render: bool = True,
        actions: Actions | None = None,
        background: AnyFrame | None = None,
        generator: torch.Generator | None = None,
    ) -> Track:
        """The objects of each video, frame by frame.

        Args:
            video: bytes, or floats from 0 to 1.
            discover: look for new objects in every frame ("always"), or in the first alone.
            render: also draw the frames.
            actions: see `num_actions`.
            background: the scene without its objects, for a model with a static background.
                Default: what `background_for` finds in the frames.
            generator: draws a sample of the posterior. Default: the posterior's means.
        """
        video = check_video(video, self.image_size).to(self.device)
        check_discover(discover)
        moments = video.shape[1] - 1
        self.check_actions(actions, moments, (len(video),))
        actions = None if actions is None else actions[:, :moments].to(self.device)
        behind = self.background_of(video, background)
        how: dict[str, Any] = {"discover": discover, "render": render, "actions": actions}
        if generator is not None:
            return self.perceive_sample(video, generator, background=behind, **how)
        return self.perceive(video, background=behind, **how)

    def background_of(self, video: Video, background: AnyFrame | None) -> Frame | None:
        """The background of each video; None for a model that is given none."""
        if not self.cfg.takes_background:
            return None
        if background is None:
            return self.background_for(video)
        if background.dim() == 3:
            background = background.expand(len(video), -1, -1, -1)
        if background.shape != (wanted := (len(video), *video.shape[2:])):
            raise UserError(f"a background has shape {wanted}, not {tuple(background.shape)}")
        return as_float(background.to(self.device))

    @torch.no_grad()
    def background_for(self, video: AnyVideo | Film) -> Frame | None:
        """The background of each video, from its frames; None for a model that takes none.

        It is the one saved with the model if that shows the same scene, in whatever light. Else it
        is the median of the frames, without the objects that stand in it for long.

            film = gswm.open_video("film.mp4", model.image_size)
            chunks = (part.batch() for part in film.chunks())
            tracks = model.infer_chunks(chunks, background=model.background_for(film))

        Args:
            video: some frames of each video, or a film, of which frames from all of it are taken.
        """
        if not self.cfg.takes_background:
            return None
        frames = video.sample(FRAMES) if isinstance(video, Film) else video
        frames, saved = check_video(frames, self.image_size).to(self.device), self.saved_background
        found = [
            saved if saved is not None and shows(saved, each) else empty_scene(each)
            for each in frames
        ]
        return torch.stack(found)

    @property
    def saved_background(self) -> Tensor | None:
        """The background saved with the model: that of the video it was fitted to."""
        return None

    def infer_chunks(
        self,
        chunks: Iterable[Tensor],
        *,
        discover: Discover = "always",
        render: bool | Literal["first"] = False,
        background: AnyFrame | None = None,
    ) -> Iterator[Track]:
        """The objects of long videos, which come in chunks of some frames each.

        Each chunk continues where the one before it ended, so ids stay the same. No chunk is kept:
        memory does not grow with the length of the videos.

        Args:
            chunks: the videos' frames in order, each chunk as `infer` takes it.
            discover: look for new objects in every frame ("always"), or in the first of the first
                chunk alone.
            render: also draw the frames; "first" draws those of the first chunk alone.
            background: see `infer`. By default only the first chunk is looked at.
        """
        check_discover(discover)
        self.check_actions(None, 0)
        state = None
        for chunk in chunks:
            if state is None:
                how: dict[str, Any] = {"discover": discover, "render": bool(render)}
                track = self.infer(chunk, background=background, **how)
            else:
                drawn = render is True
                track = self.infer_after(state, chunk, discover=discover, render=drawn)
            state = track.state_at(-1)
            yield track

    @property
    def continues(self) -> bool:
        """Whether the model can go on from a state in a video: it implements `infer_after`."""
        return type(self).infer_after is not WorldModel.infer_after

    @torch.no_grad()
    def imagine(
        self,
        video: AnyVideo,
        given: int,
        steps: int,
        *,
        futures: int = 1,
        sample: bool = True,
        generator: torch.Generator | None = None,
        discover: Discover = "first",
        render: bool = True,
        actions: Actions | None = None,
        background: AnyFrame | None = None,
        sample_given: bool = False,
    ) -> Track:
        """Imagine how each video continues after its first `given` frames (App. D).

        The given frames are inferred once, for all futures.

        Args:
            video: frames beyond the given ones are not looked at.
            given: frames to infer.
            steps: frames to imagine.
            futures: rollouts of each video.
            sample: draw each future; otherwise all are means.
            generator: draws the samples, those of given frames first. Default: one with seed 0.
            discover: look for objects in the first frame alone, as the paper does, or in every
                given frame ("always"): objects that enter later are then imagined too.
            render: also draw the frames.
            actions: those of all frames, given and imagined; see `num_actions`.
            background: see `infer`. By default only the given frames are looked at.
            sample_given: infer the given frames by a sample of the posterior, as the authors'
                release does; otherwise by the posterior's means.
        """
        video = check_video(video, self.image_size)
        if sample_given and generator is None:
            generator = torch.Generator(self.device).manual_seed(0)
        if not 1 <= given <= video.shape[1]:
            raise UserError(f"given must be from 1 to the video's {video.shape[1]} frames")
        self.check_actions(actions, given + steps - 1, (len(video),))
        before = None if actions is None else actions[:, : given - 1]
        after = None if actions is None else actions[:, given - 1 :]
        past = self.infer(
            video[:, :given],
            discover=discover,
            render=render,
            actions=before,
            background=background,
            generator=generator if sample_given else None,
        )
        future = self.imagine_from(
            past.state_at(-1),
            steps,
            futures=futures,
            sample=sample,
            generator=generator,
            render=render,
            actions=after,
        )
        return replace(future, past=past)

    @torch.no_grad()
    def imagine_from(
        self,
        state: Any,
        steps: int,
        *,
        futures: int = 1,
        sample: bool = True,
        generator: torch.Generator | None = None,
        render: bool = True,
        actions: Plans | None = None,
    ) -> Track:
        """Imagine how videos continue from a state; see `imagine`.

        With an axis for futures, `actions` has a plan for each of them.
        """
        if isinstance(state, Track):
            raise UserError("imagine_from takes a state: use track.state_at(frame)")
        if steps < 1 or futures < 1:
            raise UserError("steps and futures must be at least 1")
        videos = 0 if actions is None else len(tensors(state)[0])
        self.check_actions(actions, steps, (videos,), (videos, 1), (videos, futures))
        generator = generator or torch.Generator(self.device).manual_seed(0)
        flat = None
        if actions is not None:
            plans = actions if actions.dim() == 4 else actions[:, None]
            flat = plans[:, :, :steps].to(self.device).expand(-1, futures, -1, -1).flatten(0, 1)
        many = repeat(state, futures)
        drawn = generator if sample else None
        track = self.rollout(many, steps, drawn, render=render, actions=flat)
        if len(track) % futures:
            raise UserError(
                f"{type(self).__name__}.rollout returned {len(track)} videos for {futures} futures "
                "of each: its states must have the videos as the first axis of every tensor"
            )
        spread = map_tensors(lambda x: x.unflatten(0, (-1, futures)), replace(track, states=()))
        return replace(spread, states=track.states)

    def check_actions(self, actions: Tensor | None, least: int, *batches: tuple[int, ...]) -> None:
        """Refuse actions the model does not take, and fewer than `least` of those it does.

        `batches` are the sizes that the axes before time may have; any, where none is given.
        """
        number = self.num_actions
        if actions is None and number:
            raise UserError(f"this model needs actions of {number} numbers, and there are none")
        if actions is not None and not number:
            raise UserError("this model takes no actions: leave them off")
        if actions is None:
            return
        if not isinstance(actions, Tensor):
            raise UserError(f"actions are a torch tensor, not {type(actions).__name__}")
        *batch, moments, numbers = actions.shape if actions.dim() > 2 else (0, 0, 0)
        if numbers != number or moments < least or (batches and tuple(batch) not in batches):
            size = ", ".join(map(str, batches[-1])) if batches else "batch"
            wanted = f"actions of shape ({size}, {least} or more, {number})"
            raise UserError(f"this model takes {wanted} here, not {tuple(actions.shape)}")

    # -- editing

    def view(self, state: Any, background: Frame) -> Track:
        """Draw a state as one frame, over a background."""
        raise UserError(NOT_EDITABLE)

    def owners(self, state: Any) -> Owners:
        """The object that is visible at each pixel."""
        raise UserError(NOT_EDITABLE)

    def proposals(self, before: Any, state: Any) -> Regions:
        """The regions in which the objects of the previous state were looked for."""
        raise UserError(NOT_EDITABLE)

    def infer_after(
        self, state: Any, video: AnyVideo, *, discover: Discover = "first", render: bool = True
    ) -> Track:
        """The objects of each video, which continues from a state."""
        raise UserError(NOT_EDITABLE)


def check_discover(discover: object) -> None:
    """Refuse any other word."""
    if discover not in get_args(Discover):
        choices = " or ".join(map(repr, get_args(Discover)))
        raise UserError(f"discover must be {choices}, not {discover!r}")


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

"""The methods of a world model that training, evaluation, the studio and export call (§3.1).

Three of them must be implemented; all others have a default:

    loss       what training minimizes, on a batch of videos
    perceive   the objects of videos, frame by frame: the posterior
    rollout    one future of each state: the prior

`base.WorldModel` adds the methods that users call.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gswm.core.errors import UserError
from gswm.core.records import map_tensors
from gswm.core.schedule import Stage
from gswm.core.shapes import Frame, Video
from gswm.data.batches.batch import Batch
from gswm.models.config import ModelConfig
from gswm.models.state import NOT_EDITABLE
from gswm.models.track import AnyVideo, Track

if TYPE_CHECKING:
    from gswm.models.recipe import Recipe

Actions = Float[Tensor, "batch moment action"]
Owners = Int[Tensor, "batch height width"]
"""The id of the object that is visible at each pixel; -1 for the background."""
Discover = Literal["always", "first"]
Method = tuple[nn.Module, str]
"""A method, by its module and name. Its arguments, which are positional, and its results are
tensors or records of tensors whose first axis is the batch, of any length."""


AnyNoise = TypeVar("AnyNoise", bound="Noise")


@dataclass(frozen=True)
class Noise:
    """All random numbers of a training step: a record of tensors, batch first."""

    def rows(self: AnyNoise, which: slice) -> AnyNoise:
        """The noise of some of the videos."""
        return map_tensors(lambda tensor: tensor[which], self)


@dataclass(frozen=True)
class Loss:
    """The loss of a batch, and its terms."""

    total: Float[Tensor, ""]
    """Mean over the videos of a batch."""
    terms: dict[str, Float[Tensor, ""]]
    """Terms that add up to the total; none is called `loss`."""
    metrics: dict[str, Float[Tensor, ""]]
    """Other numbers to report; `objects` is the number per frame, if the model infers it."""

    @staticmethod
    def of(terms: dict[str, Float[Tensor, " batch"]], metrics: dict[str, Tensor]) -> "Loss":
        """From each video's contribution to each term."""
        means = {name: term.mean() for name, term in terms.items()}
        return Loss(torch.stack(list(means.values())).sum(), means, metrics)


@dataclass(frozen=True)
class Regions:
    """The regions that a model searched for each object of a frame."""

    xy: Float[Tensor, "batch object 2"]
    hw: Float[Tensor, "batch object 2"]


Config = TypeVar("Config", bound=ModelConfig)


class Contract(nn.Module, ABC, Generic[Config]):
    """The methods that authors of world models implement.

    A model is a subclass of `WorldModel`, which inherits them. It must implement `loss`, `perceive`
    and `rollout`; all other methods have defaults.
    """

    boxes_from: ClassVar[Literal["latents", "masks"]] = "latents"
    """The source of a track's boxes: the model infers them, or they are found in its masks.
    Evaluation reports it."""
    editable: ClassVar[bool] = False
    """Whether the studio offers edits: the model then implements `view`, `owners`, `proposals` and
    `infer_after`, and its states are `State`s."""
    recipe: "Recipe | None" = None
    """The recipe that the model was built or loaded with."""
    videos: Mapping[str, Any] = MappingProxyType({})
    """Import settings of the training videos: `fps`, `fit` and `region`. Empty for a model of a
    world."""

    def __init__(self, cfg: Config) -> None:
        super().__init__()
        cfg.check()
        self.cfg = cfg

    # -- required

    @abstractmethod
    def loss(self, batch: Batch, noise: Any, step: Tensor, stage: Any) -> Loss:
        """Return the loss of videos of the stage's length.

        Args:
            batch: the videos, as bytes or floats (`as_float` converts); with actions for a model
                that takes them, and for no other.
            noise: the result of `noise` for the stage.
            step: the number of the step, on the model's device.
            stage: the result of `stage` for the step.
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
        """Infer the objects of each video with the means of the posterior; see `infer`.

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
        """Return one future of each video from the prior; its means without a generator.

        Args:
            state: one that `perceive` or `rollout` returned.
            steps: frames to imagine.
            generator: draws the samples.
            render: also draw the frames.
            actions: one per step; the first is taken in the frame of `state`.

        Returns:
            A track with the same number of slots and the same kind of states as `perceive` returns.
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
        """Like `perceive`, with one sample of the posterior per video.

        Default: raise a UserError.
        """
        kind = type(self).__name__
        raise UserError(f"{kind} cannot sample its posterior: infer the given frames with means")

    def adapted(self, weights: dict[str, Tensor], of: ModelConfig) -> dict[str, Tensor]:
        """Convert weights that were saved with settings `of`. Default: unchanged.

        Needed for settings that change the meaning of a weight, but not its shape.
        """
        return weights

    def coarse(self) -> list[nn.Module]:
        """Networks whose weights `gswm export --compact` may store in 8 bits.

        Name networks that see or draw frames. In those that carry objects from frame to frame,
        rounding errors add up. Default: none.
        """
        return []

    def coarsest(self) -> list[nn.Module]:
        """Parts of `coarse` that `gswm export --compact` may store in 3 bits.

        It does so only if the file has more than 10 MB otherwise. Default: none.
        """
        return []

    # -- training

    def parts(self) -> dict[str, list[nn.Module]]:
        """Modules whose gradients are clipped together, by the name of each part.

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
        """Infer a record of tensors to learn from, for stages whose windows repeat.

        It must not depend on the parameters that these stages train.
        """
        raise NotImplementedError(f"{type(self).__name__} has no stages whose windows repeat")

    def loss_of(self, observed: Any, noise: Any) -> Loss:
        """The loss, given the result of `observe`; `noise` is new at every step."""
        raise NotImplementedError(f"{type(self).__name__} has no stages whose windows repeat")

    # -- the fast path (`gswm.fast`); a model that names no methods uses the plain one

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

    # -- properties

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
        """Size of an action vector; 0 for a model without actions.

        `actions[:, t]` is taken in frame t and influences frame t + 1.
        """
        return 0

    @property
    def saved_background(self) -> Tensor | None:
        """The background saved with the model: that of the video it was fitted to."""
        return None

    @property
    def doubts(self) -> bool:
        """Whether `perceive` and `infer_after` also report doubtful objects (`gswm.core.doubt`).

        `WorldModel.settled` then removes those that nothing confirms.
        """
        return False

    # -- editing

    def view(self, state: Any, background: Frame) -> Track:
        """Draw a state as one frame, over a background."""
        raise UserError(NOT_EDITABLE)

    def owners(self, state: Any) -> Owners:
        """The object that is visible at each pixel."""
        raise UserError(NOT_EDITABLE)

    def proposals(self, before: Any, state: Any) -> Regions:
        """The regions that were searched for the objects of the previous state."""
        raise UserError(NOT_EDITABLE)

    def infer_after(
        self, state: Any, video: AnyVideo, *, discover: Discover = "first", render: bool = True
    ) -> Track:
        """Infer the objects of videos that continue from a state. Default: raise a UserError.

        Users call it too. So it must check and convert the video (`gswm.models.base.check_next`)
        and disable gradients, which `infer` does for `perceive`. A model that takes a background
        finds it in `state`.

        Args:
            state: one that `perceive` or `infer_after` returned.
            video: the frames after that of `state`, as bytes, or floats from 0 to 1.
            discover: find new objects in every frame ("always"), or in none ("first").
            render: also draw the frames.
        """
        kind = type(self).__name__
        raise UserError(f"{kind} cannot continue a video: infer all its frames at once")

"""The base class of world models (§3.1).

`WorldModel` has everything that training, evaluation, the studio and export need. A new model
implements three methods of its `contract` and inherits the rest:

    loss       what training minimizes, on a batch of videos
    perceive   the objects of videos, frame by frame: the posterior
    rollout    one future of each state: the prior

Everything else has a default: a model without random numbers (`noise`), without a fast path
(`recurrent`), without editing (`editable`), without actions (`num_actions`) and without samples of
its posterior (`perceive_sample`) trains, evaluates, saves, loads and opens in the studio.
`gswm.register` makes it known by name.

Users call `infer`, `imagine` and `imagine_from`. These check their arguments, move videos to the
model's device, and disable gradients, so that `perceive` and `rollout` need not.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.limits import check_integers
from gswm.core.records import map_tensors, repeat, tensors
from gswm.core.shapes import Frame, Video
from gswm.core.words import counted, with_article
from gswm.data.background import FRAMES, shows
from gswm.data.background import as_float as as_float
from gswm.data.importing.film import Film
from gswm.data.standing import empty_scene
from gswm.models.config import ModelConfig as ModelConfig
from gswm.models.contract import Actions as Actions
from gswm.models.contract import Config as Config
from gswm.models.contract import Contract
from gswm.models.contract import Discover as Discover
from gswm.models.contract import Loss as Loss
from gswm.models.contract import Method as Method
from gswm.models.contract import Noise as Noise
from gswm.models.contract import Owners as Owners
from gswm.models.contract import Regions as Regions
from gswm.models.track import AnyVideo as AnyVideo
from gswm.models.track import Track

Plans = Actions | Float[Tensor, "batch future moment action"]
AnyFrame = Float[Tensor, "*picture 3 rows columns"] | UInt8[Tensor, "*picture 3 rows columns"]


class WorldModel(Contract[Config]):
    """An object-centric world model of video.

    The methods below are for users of a model. `Contract`, the base class, has those that authors
    of a model implement, and properties such as `num_actions`.
    """

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
            discover: find new objects in every frame ("always"), or only in the first ("first").
            render: also draw the frames.
            actions: see `Contract.num_actions`.
            background: the scene without its objects, for a model with a static background.
                Default: computed from the frames by `background_for`.
            generator: if given, sample from the posterior. Default: None (use its means).
        """
        check_discover(discover)
        how: dict[str, Any] = {"discover": discover, "render": render, "actions": actions}
        return self.settled(self.unsettled(video, background, generator, **how))

    def settled(self, track: Track) -> Track:
        """A track without the doubtful objects that nothing in it confirms.

        They are also absent from its states. Only models with `doubts` have such objects.
        """
        return track

    @torch.no_grad()
    def unsettled(
        self,
        video: AnyVideo,
        background: AnyFrame | None = None,
        generator: torch.Generator | None = None,
        *,
        discover: Discover,
        render: bool,
        actions: Actions | None = None,
    ) -> Track:
        """The result of `infer`, with all doubtful objects."""
        self.check_precision()
        video = check_video(video, self.image_size).to(self.device)
        moments = video.shape[1] - 1
        self.check_actions(actions, moments, (len(video),))
        actions = None if actions is None else actions[:, :moments].to(self.device)
        behind = self.background_of(video, background)
        how: dict[str, Any] = {"discover": discover, "render": render, "actions": actions}
        self.check_generator(generator)
        if generator is not None:
            track = self.perceive_sample(video, generator, background=behind, **how)
            return self.checked(track, "perceive_sample", video.shape[1])
        track = self.perceive(video, background=behind, **how)
        return self.checked(track, "perceive", video.shape[1])

    def background_of(self, video: Video, background: AnyFrame | None) -> Frame | None:
        """The background of each video; None for a model that needs none."""
        if not self.cfg.takes_background:
            return None
        if background is None:
            return self.background_for(video)
        wanted = (len(video), *video.shape[2:])
        if not isinstance(background, Tensor):
            kind = with_article(type(background).__name__)
            raise UserError(f"a background must be a torch tensor {wanted}, not {kind}")
        if background.dim() == 3:
            background = background.expand(len(video), -1, -1, -1)
        if background.shape != wanted:
            raise UserError(f"a background must have shape {wanted}, not {tuple(background.shape)}")
        return to_floats(background, "background").to(self.device)

    @torch.no_grad()
    def background_for(self, video: AnyVideo | Film) -> Frame | None:
        """Compute the background of each video from its frames; None for a model that needs none.

        It is the one saved with the model if that shows the same scene in any light. Otherwise it
        is the median of the frames, without the objects that stand in it for long.

            film = gswm.open_video("film.mp4", model.image_size)
            chunks = (part.batch() for part in film.chunks())
            tracks = model.infer_chunks(chunks, background=model.background_for(film))

        Args:
            video: frames of each video, or a film, which is sampled evenly.
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

    def infer_chunks(
        self,
        chunks: Iterable[Tensor],
        *,
        discover: Discover = "always",
        render: bool | Literal["first"] = False,
        background: AnyFrame | None = None,
        after: Any = None,
    ) -> Iterator[Track]:
        """Infer the objects of long videos, chunk by chunk.

        Each chunk continues where the previous one ended, so ids persist. No chunk is kept:
        memory does not grow with the length of the videos. Doubtful objects are in all chunks,
        because a later one may confirm them: pass what you join to `settled`.

        Args:
            chunks: consecutive parts of the videos, each in the format of `infer`.
            discover: discover new objects in every frame ("always"), or only in the first frame
                of the first chunk.
            render: also draw the frames; "first" draws only those of the first chunk.
            background: see `infer`. By default, only the first chunk is used.
            after: a state to continue from, such as `state_at(-1)` of the preceding track.
        """
        check_discover(discover)
        self.check_actions(None, 0)
        state = after
        for chunk in chunks:
            if state is None:
                how: dict[str, Any] = {"discover": discover, "render": bool(render)}
                track = self.unsettled(chunk, background, **how)
            else:
                with torch.no_grad():
                    drawn = render is True
                    track = self.infer_after(state, chunk, discover=discover, render=drawn)
                self.checked(track, "infer_after", chunk.shape[1])
            state = track.state_at(-1)
            yield track

    @property
    def continues(self) -> bool:
        """Whether inference can continue from a state, that is, `infer_after` is implemented."""
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
            video: frames after the given ones are ignored.
            given: number of frames to infer.
            steps: number of frames to imagine.
            futures: number of rollouts per video.
            sample: sample each future from the prior; otherwise use its means.
            generator: source of randomness. Default: a generator with seed 0.
            discover: find objects only in the first frame ("first"), as the paper does, or in every
                given frame ("always"), so that objects that enter later are imagined too.
            render: also draw the frames.
            actions: actions in all given and imagined frames; see `Contract.num_actions`.
            background: see `infer`. By default, only the given frames are used.
            sample_given: infer the given frames with a posterior sample, as the authors'
                release does; otherwise with the posterior's means.
        """
        video = check_video(video, self.image_size)
        check_integers(given=given, steps=steps, futures=futures)
        if sample_given and generator is None:
            generator = torch.Generator(self.device).manual_seed(0)
        if not 1 <= given <= video.shape[1]:
            raise UserError(
                f"given must be from 1 to {video.shape[1]}, the number of frames of the video"
            )
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

        If `actions` has an axis for futures, each future has its own actions.
        """
        if isinstance(state, Track) or not tensors(state):
            raise UserError("imagine_from needs a state: use track.state_at(frame)")
        check_integers(steps=steps, futures=futures)
        self.check_generator(generator)
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
        track = self.checked(track, "rollout", steps)
        if len(track) % futures:
            raise UserError(
                f"{type(self).__name__}.rollout returned {len(track)} videos for {futures} futures "
                "of each: its states must have the videos as the first axis of every tensor"
            )
        spread = map_tensors(lambda x: x.unflatten(0, (-1, futures)), replace(track, states=()))
        return replace(spread, states=track.states)

    def checked(self, track: Any, method: str, frames: int) -> Track:
        """The result of a model's method; raises a UserError unless it is a track of all frames."""
        name = f"{type(self).__name__}.{method}"
        if not isinstance(track, Track):
            raise UserError(f"{name} must return a Track, not {with_article(type(track).__name__)}")
        if (found := track.pres.shape[1]) != frames:
            returned, wanted = counted(found, "frame"), counted(frames, "frame")
            raise UserError(f"{name} returned {returned}; it must return {wanted}")
        return track

    def check_precision(self) -> None:
        """Raise a UserError for a model whose weights are not in single precision, as videos are.

        `nn.Module.half` and the like convert all of them.
        """
        first = next((p for p in self.parameters() if p.is_floating_point()), None)
        if first is not None and first.dtype != torch.float32:
            raise UserError(
                f"the model's weights are {first.dtype}, but it computes in single precision: use "
                "model.float()"
            )

    def check_generator(self, generator: object) -> None:
        """Raise a UserError for anything but a generator on the model's device, or None."""
        if generator is None:
            return
        here = self.device.type
        if not isinstance(generator, torch.Generator):
            kind, remedy = with_article(type(generator).__name__), f"torch.Generator({here!r})"
            raise UserError(f"generator must be a torch.Generator, not {kind}: use {remedy}")
        if (there := generator.device.type) != here:
            raise UserError(
                f"the generator is on {there}, but the model is on {here}: use "
                f"torch.Generator({here!r})"
            )

    def check_actions(self, actions: Tensor | None, least: int, *batches: tuple[int, ...]) -> None:
        """Raise a UserError for unexpected actions, and for fewer than `least` of those expected.

        `batches` are the sizes that the axes before time may have. Default: any.
        """
        number = self.num_actions
        if actions is None and number:
            raise UserError(f"this model needs actions of {number} numbers, but got none")
        if actions is not None and not number:
            raise UserError("this model does not use actions: omit them")
        if actions is None:
            return
        if not isinstance(actions, Tensor):
            raise UserError(f"actions must be a torch tensor, not {type(actions).__name__}")
        *batch, moments, numbers = actions.shape if actions.dim() > 2 else (0, 0, 0)
        if numbers != number or moments < least or (batches and tuple(batch) not in batches):
            size = ", ".join(map(str, batches[-1])) if batches else "batch"
            wanted = f"actions of shape ({size}, {least} or more, {number})"
            raise UserError(f"this model expects {wanted} here, not {tuple(actions.shape)}")


def check_discover(discover: object) -> None:
    """Raise a UserError for an unknown discovery mode."""
    if discover not in get_args(Discover):
        choices = " or ".join(map(repr, get_args(Discover)))
        raise UserError(f"discover must be {choices}, not {discover!r}")


def check_video(video: Tensor, image_size: int) -> Video:
    """Convert `video` to floats from 0 to 1; raise a UserError if it is invalid."""
    expected = f"(batch, time, 3, {image_size}, {image_size})"
    if not isinstance(video, Tensor):
        hint = "; use torch.from_numpy(video)" if type(video).__module__ == "numpy" else ""
        kind = with_article(type(video).__name__)
        raise UserError(f"a video must be a torch tensor {expected}, not {kind}{hint}")
    shape = tuple(video.shape)
    if video.dim() != 5 or shape[2:] != (3, image_size, image_size):
        hint = "; its channels come last: use video.movedim(-1, 2)" if shape[-1:] == (3,) else ""
        if video.dim() == 5 and shape[2] == 3:
            hint = f"; gswm.read_video(path, {image_size}) reads a video at this size"
        raise UserError(f"this model expects videos of shape {expected}, not {shape}{hint}")
    if 0 in shape:
        raise UserError(f"a video of shape {shape} has no frames")
    return to_floats(video, "video")


def to_floats(pixels: Tensor, what: str) -> Tensor:
    """Convert pixels to floats from 0 to 1; raise a UserError that names `what` if they are not."""
    if pixels.dtype == torch.uint8:
        return as_float(pixels)
    if not pixels.is_floating_point():
        raise UserError(f"a {what} must be uint8, or floats from 0 to 1, not {pixels.dtype}")
    low, high = pixels.aminmax()
    if not (torch.isfinite(low) and torch.isfinite(high)):
        raise UserError(f"the {what} has NaN or infinite values")
    if low < 0 or high > 1:
        hint = "; divide it by 255" if high > 2 else ""
        raise UserError(
            f"a float {what} must be from 0 to 1; this one ranges from {low:g} to {high:g}{hint}"
        )
    return pixels.float()


def check_next(video: AnyVideo, state: Any, image_size: int) -> Video:
    """Convert videos that continue from a state, as `check_video` does."""
    video, known = check_video(video, image_size), len(tensors(state)[0])
    if len(video) != known:
        raise UserError(
            f"the state is of {counted(known, 'video')}, but got {counted(len(video), 'video')} to "
            "continue"
        )
    return video

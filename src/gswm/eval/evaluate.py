"""Evaluate any model on episodes with ground truth, by a named protocol.

The same model, episodes and protocol give exactly the same result on one machine with the same
number of threads (OMP_NUM_THREADS, which changes the order of sums): samples are drawn by
generators that are seeded for each batch, and batches are always split in the same way.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.core.limits import SEEDS, check_seed
from gswm.core.records import concatenate, map_tensors, regroup
from gswm.core.words import with_article
from gswm.data.episode import Episodes
from gswm.eval.baselines import Baseline, known
from gswm.eval.examples import EPISODES, examples
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.collisions import collisions
from gswm.eval.metrics.corridor import corridor
from gswm.eval.metrics.counts import counts
from gswm.eval.metrics.distance import center_errors, sampled_errors
from gswm.eval.metrics.futures import futures
from gswm.eval.metrics.lpips import Lpips
from gswm.eval.metrics.motion import motion
from gswm.eval.metrics.pixels import pixels
from gswm.eval.metrics.reconstruction import reconstruction
from gswm.eval.metrics.sizes import by_size
from gswm.eval.metrics.tracking import tracked
from gswm.eval.protocols import PROTOCOLS
from gswm.eval.protocols import Protocol as Rules
from gswm.eval.protocols import protocol as named
from gswm.eval.stills import stills
from gswm.models.base import WorldModel, as_float
from gswm.models.track import Track
from gswm.weights.files import load

ROWS = 320
"""Number of videos that are imagined at once, counting each future."""
MOST = 16
"""Largest number of episodes at once."""


OF_TRACKS = ("tracking", "sizes", "counts")
"""Metrics for which the model sees all frames."""
ONLY_PIXELS = ("pixels",)
"""Metrics for videos without ground truth."""


@runtime_checkable
class Measured(Protocol):
    """A record of measurements with episodes as the first axis, so that batches can be joined."""

    def scores(self) -> dict[str, float]:
        """Scores over all episodes."""
        ...

    def curves(self) -> dict[str, list[float]]:
        """Scores at each step."""
        ...


@runtime_checkable
class PerRow(Protocol):
    """A record that also has scores of each row; a row is an episode, or one of its futures."""

    def per_row(self) -> dict[str, Tensor]:
        """Scores of each row; NaN if there is nothing to measure."""
        ...


@dataclass(frozen=True)
class Result:
    """The scores of a model, and everything needed to compare them."""

    protocol: Rules
    episodes: int
    seed: int
    scores: dict[str, float]
    curves: dict[str, list[float]] = field(repr=False)
    examples: list[dict[str, Any]] = field(default_factory=list, repr=False)
    """The first episodes as numbers; empty for baselines."""
    per_episode: dict[str, list[float]] = field(default_factory=dict, repr=False)
    """Scores of every episode, in order, for paired comparisons of results."""
    standard_errors: dict[str, float] = field(default_factory=dict)
    """Standard errors of the means of these scores over episodes."""
    boxes_from: str = "latents"
    """See `WorldModel.boxes_from`; "truth" for a baseline."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, with None for NaN and infinity."""
        return finite(asdict(self))


def evaluate(
    model: str | Path | WorldModel[Any] | Baseline,
    episodes: Episodes | Iterable[Episodes],
    protocol: Rules | str,
    *,
    device: str | torch.device = "cpu",
    seed: int = 0,
    lpips: Lpips | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Measure a model on episodes, a batch at a time.

        world = gswm.world("interaction")
        episodes = world.episodes(seed=world.splits["test"].seed, n=20)
        result = gswm.evaluate(model, episodes, world.protocol)
        result.scores["center_error"]

    Args:
        model: The model, a baseline, or what `gswm.load` takes.
        episodes: Episodes, or chunks of them; those of a world have ground truth.
        protocol: A protocol, or its name.
        device: The device for a model that is given by name; other models stay where they are.
        seed: Seed of sampled futures.
        lpips: The network of LPIPS, if its score is wanted.
        progress: Called with the number of episodes done so far.
    """
    device = find_device(device)
    rules = named(protocol) if isinstance(protocol, str) else protocol
    if not isinstance(rules, Rules):
        raise UserError(f"protocol must be a gswm.Protocol or its name, not {kind_of(rules)}")
    rules.check()
    check_seed(seed, "seed")
    if isinstance(model, str | Path):
        model = load(model, device)
    if isinstance(model, WorldModel):
        device = model.device
    elif not isinstance(model, Baseline):
        raise UserError(f"expected a model, its name or a baseline, not {kind_of(model)}")
    parts: list[dict[str, Measured]] = []
    shown: list[dict[str, Any]] = []
    number = 0
    at_once = max(1, min(MOST, ROWS // max(rules.futures, rules.samples)))
    for batch in regroup(checked(episodes), at_once):
        generator = torch.Generator(device).manual_seed((seed + number) % (SEEDS[1] + 1))
        check_known(model, batch, rules)
        batch = cut(batch, rules)
        on_device = replace(batch, video=batch.video.to(device))
        seen = see(model, on_device, rules, generator)
        parts.append(measure(seen, on_device, rules, lpips))
        if not isinstance(model, Baseline) and number < EPISODES:
            shown += seen.examples(on_device[: EPISODES - number], rules.given, number)
        number += len(batch)
        if progress is not None:
            progress(number)
    if not parts:
        raise UserError("there are no episodes to evaluate")
    joined = [concatenate([part[name] for part in parts]) for name in parts[0]]
    scores = {k: v for measured in joined for k, v in measured.scores().items()}
    curves = {k: v for measured in joined for k, v in measured.curves().items()}
    each = {
        name: rows.unflatten(0, (number, -1)).nanmean(dim=1)
        for measured in joined
        if isinstance(measured, PerRow)
        for name, rows in measured.per_row().items()
    }
    return Result(
        *(rules, number, seed, scores, curves, shown),
        per_episode={name: rounded(values) for name, values in each.items()},
        standard_errors=standard_errors(each),
        boxes_from="truth" if isinstance(model, Baseline) else model.boxes_from,
    )


def checked(episodes: Episodes | Iterable[Episodes]) -> Iterator[Episodes]:
    """Episodes in chunks; raises a UserError for anything else."""
    chunks = [episodes] if isinstance(episodes, Episodes) else episodes
    if not isinstance(chunks, Iterable) or isinstance(chunks, Tensor):
        raise UserError(f"expected gswm.Episodes, or chunks of them, not {kind_of(chunks)}")
    for chunk in chunks:
        if not isinstance(chunk, Episodes):
            raise UserError(f"expected gswm.Episodes, or chunks of them, not {kind_of(chunk)}")
        if chunk.video.dtype != torch.uint8:
            raise UserError(f"the video of episodes must be uint8, not {chunk.video.dtype}")
        yield chunk


def kind_of(value: object) -> str:
    """The type of a value, for messages."""
    return with_article(type(value).__name__)


def standard_errors(each: Mapping[str, Tensor]) -> dict[str, float]:
    """Standard errors of means over episodes, ignoring NaN, for scores of two or more."""
    known = {name: values[~values.isnan()] for name, values in each.items()}
    return {
        name: (values.std() / math.sqrt(len(values))).item()
        for name, values in known.items()
        if len(values) > 1
    }


@dataclass(frozen=True)
class Seen:
    """Predictions of a model for one batch."""

    track: Track
    """The imagined futures."""
    predicted: Boxes | None
    """Given and imagined frames, a row for each future; None without ground truth."""
    tracked: Boxes | None
    """Tracks of all frames; None if not requested."""
    sampled: Boxes | None = None
    """Sampled rollouts beside the mean ones, a row for each; None without ground truth."""

    @property
    def futures(self) -> int:
        """Number of futures per episode."""
        return self.track.pres.shape[1]

    def examples(self, episodes: Episodes, given: int, first: int) -> list[dict[str, Any]]:
        """The first episodes of the batch, with stills if the model draws its frames."""
        if self.predicted is None:
            return []
        made = examples(episodes, self.predicted, self.tracked, given, self.futures, first)
        if (drawn := self.track.reconstruction) is None:
            return made
        which = slice(None, self.futures * len(episodes), self.futures)
        boxes = map_tensors(lambda values: values[which], self.predicted)
        frames = stills(episodes, boxes, drawn[: len(episodes), 0], given)
        return [example | {"stills": each} for example, each in zip(made, frames, strict=True)]


def see(
    model: WorldModel[Any] | Baseline, episodes: Episodes, rules: Rules, generator: torch.Generator
) -> Seen:
    """Run the model on all inputs that the protocol needs."""
    track = imagine(model, episodes, rules, generator)
    if episodes.truth is None:
        return Seen(track, None, None)
    seen = Seen(track, whole(track), None)
    if isinstance(model, Baseline):
        return seen
    if rules.samples:
        seen = replace(seen, sampled=sampled(model, track, episodes, rules, generator))
    if set(OF_TRACKS) & set(rules.metrics):
        tracked = model.infer(
            episodes.video,
            render=False,
            actions=actions_of(model, episodes),
            background=episodes.background,
            generator=generator if rules.posterior == "sample" else None,
        )
        seen = replace(seen, tracked=Boxes.of_track(tracked))
    return seen


def sampled(
    model: WorldModel[Any],
    track: Track,
    episodes: Episodes,
    rules: Rules,
    generator: torch.Generator,
) -> Boxes:
    """Sampled futures from the states where the mean rollouts start, a row for each future."""
    actions = actions_of(model, episodes)
    future = model.imagine_from(
        past_of(track).state_at(-1),
        rules.steps,
        futures=rules.samples,
        generator=generator,
        render=False,
        actions=None if actions is None else actions[:, rules.given - 1 :],
    )
    return Boxes.of_track(future).flat()


def measure(
    seen: Seen, episodes: Episodes, rules: Rules, lpips: Lpips | None
) -> dict[str, Measured]:
    """Measure one batch by the protocol's metrics."""
    measured: dict[str, Measured] = {}
    given, number, predicted = rules.given, seen.futures, seen.predicted
    if predicted is not None:
        true = Boxes.of_truth(known(episodes), episodes.video.shape[-1])
        spread = true.each(number)
        if "center" in rules.metrics:
            imagined, happened = predicted.frames(given), spread.frames(given)
            measured["center"] = center_errors(imagined, happened)
            measured["motion"] = motion(imagined, happened)
        if seen.sampled is not None:
            ahead = true.frames(given)
            measured["sampled"] = sampled_errors(seen.sampled, ahead, rules.samples)
        if seen.tracked is not None and "counts" in rules.metrics:
            measured["counts"] = counts(seen.tracked, true)
        else:
            measured["counts"] = counts(predicted, spread)
        if "corridor" in rules.metrics:
            if episodes.corridors is None:
                raise UserError(f"{rules.name} needs mazes: these episodes have no corridors")
            grid = episodes.corridors.grid.cpu().repeat_interleave(number, dim=0)
            measured["corridor"] = corridor(predicted, spread, grid, given)
        if "futures" in rules.metrics:
            measured["futures"] = futures(predicted, spread, given, number)
        if "collisions" in rules.metrics:
            if episodes.space is None:
                raise UserError(f"{rules.name} needs contacts: these episodes have none")
            contacts = episodes.space.contacts[:, : rules.frames].repeat_interleave(number, dim=0)
            measured["collisions"] = collisions(predicted, spread, contacts, given)
        if seen.tracked is not None and "tracking" in rules.metrics:
            measured["tracking"] = tracked(seen.tracked, true)
        if seen.tracked is not None and "sizes" in rules.metrics:
            side = episodes.video.shape[-1]
            measured["sizes"] = by_size(seen.tracked, known(episodes), side)
    if "pixels" in rules.metrics and (drawn := seen.track.reconstruction) is not None:
        measured["pixels"] = pixels(drawn[:, 0], as_float(episodes.video[:, given:]), lpips)
        past = seen.track.past
        if past is not None and past.reconstruction is not None:
            seen_frames = as_float(episodes.video[:, :given]).repeat_interleave(
                len(past) // len(episodes), dim=0
            )
            measured["reconstruction"] = reconstruction(past.reconstruction, seen_frames)
    return measured


def check_known(model: WorldModel[Any] | Baseline, episodes: Episodes, rules: Rules) -> None:
    """Raise a UserError if the protocol needs a ground truth that is missing."""
    if isinstance(model, Baseline) and (model.rule != "stay" or rules.metrics != ONLY_PIXELS):
        known(episodes)
    if episodes.truth is None and rules.metrics != ONLY_PIXELS:
        there = episodes.video.shape[1]
        of_pixels = {name: p.frames for name, p in PROTOCOLS.items() if p.metrics == ONLY_PIXELS}
        names = " or ".join(name for name, frames in of_pixels.items() if frames <= there)
        least = min(of_pixels, key=lambda name: of_pixels[name])
        longer = f"{least}, which measures only pixels, needs {of_pixels[least]} frames, and these "
        longer += f"videos have {there}: import them with --frames {of_pixels[least]}"
        raise UserError(
            f"these videos have no ground truth for objects, which {rules.name} needs; "
            + (f"--protocol {names} measures only pixels" if names else longer)
        )


def imagine(
    model: WorldModel[Any] | Baseline, episodes: Episodes, rules: Rules, generator: torch.Generator
) -> Track:
    """Roll out the frames after the given ones."""
    if isinstance(model, Baseline):
        return model.imagine(episodes, rules.given, rules.steps)
    draws, futures = rules.posterior == "sample", rules.futures
    own = futures if draws else 1
    inputs = episodes.video[:, : rules.given], actions_of(model, episodes), episodes.background
    # Futures with posterior samples of their own are imagined as separate episodes.
    video, actions, background = map_tensors(lambda x: x.repeat_interleave(own, dim=0), inputs)
    track = model.imagine(
        video,
        rules.given,
        rules.steps,
        futures=futures // own,
        sample=rules.sample,
        generator=generator if rules.sample or draws else None,
        render="pixels" in rules.metrics,
        actions=actions,
        background=background,
        sample_given=draws,
        discover=rules.discover,
    )
    if own == 1:
        return track
    grouped = map_tensors(
        lambda x: x[:, 0].unflatten(0, (-1, own)), replace(track, past=None, states=())
    )
    return replace(grouped, past=track.past)


def actions_of(model: WorldModel[Any], episodes: Episodes) -> Tensor | None:
    """The actions of episodes, for a model that takes them."""
    return episodes.actions if model.num_actions else None


def whole(track: Track) -> Boxes:
    """Given and imagined frames, with a row for each future of each episode."""
    future = Boxes.of_track(replace(track, past=None)).flat()
    past = Boxes.of_track(past_of(track))
    return past.each(len(future.id) // len(past.id)).then(future)


def past_of(track: Track) -> Track:
    """The track of the given frames, with a row for each episode or each future."""
    if track.past is None:
        raise UserError("the model returned no track of the given frames: `past` is None")
    return track.past


def cut(episodes: Episodes, rules: Rules) -> Episodes:
    """The frames that the protocol uses."""
    there = episodes.video.shape[1]
    if there < rules.frames:
        fits = [name for name, each in PROTOCOLS.items() if each.frames <= there]
        other = f": choose --protocol {' or '.join(fits)}" if fits else ""
        needs = f"{rules.name} needs episodes of {rules.frames} frames; these have {there}"
        raise UserError(needs + other)
    timed = ("video", "truth", "actions", "rewards")
    parts = {
        name: map_tensors(lambda values: values[:, : rules.frames], getattr(episodes, name))
        for name in timed
    }
    return replace(episodes, **parts)


def rounded(values: Tensor) -> list[float]:
    """Round to a millionth, which keeps files short."""
    return [round(value, 6) for value in values.tolist()]


def finite(value: Any) -> Any:
    """Replace NaN and infinity by None."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""`gswm eval`."""

import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, isnan
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

import torch
from tyro.conf import Positional, arg

import gswm
from gswm.commands.importing import import_once
from gswm.commands.labelled import VideoModel, forecast_table, score_labelled, source_of
from gswm.commands.parsing import PRINTED, check_json
from gswm.commands.resolving import check_no_video, resolve
from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.core.files import write_whole
from gswm.core.waiting import explained, progress_bar
from gswm.core.words import counted, score
from gswm.data.episode import Episodes
from gswm.data.importing.videos import Cut
from gswm.data.storage import hdf5
from gswm.data.worlds import registry as worlds
from gswm.data.worlds.balls import Balls
from gswm.data.worlds.base import SplitName
from gswm.eval.baselines import Baseline, Rule
from gswm.eval.evaluate import Result, evaluate
from gswm.eval.median_sort import Tracker
from gswm.eval.metrics import lpips
from gswm.eval.metrics.distance import TABLE_STEPS
from gswm.eval.metrics.futures import NEAR
from gswm.eval.metrics.sizes import SCORES, SIZES
from gswm.eval.protocols import Posterior, Protocol, protocol, usual
from gswm.models.base import WorldModel
from gswm.tracking.backgrounds import BackgroundFrom
from gswm.train.folder import commit
from gswm.weights.finding import ANY_VIDEO

MEMORY = 1 << 28
CHUNK = 16
PIXELS = "slotformer-6-44"
"""The protocol for videos without ground truth."""
MODES = "gswm-5-4"
"""Metrics that compare samples with all possible futures."""


@dataclass(frozen=True)
class EvaluateCommand:
    """Settings of `gswm eval`."""

    EXAMPLES: ClassVar = (
        "gswm eval two-layer",
        "gswm eval runs/obj3d-0 --split val --episodes 20 --json result.json",
        "gswm eval --baseline straight --world obj3d",
        "gswm eval clips film.mp4 --labels film.txt",
    )

    model: Annotated[Positional[str | None], arg(metavar="[RUN|WEIGHTS|NAME]")] = None
    """Model to evaluate: a run folder (its best weights), a weights file, or the name of a shipped
    model."""
    video: Annotated[Positional[str | None], arg(metavar="[VIDEO]")] = None
    """Video file or folder of images: score rollouts at the end of the video. With --labels, also
    score tracks, as `gswm track` writes them by default. With --tracks or --baseline, VIDEO is the
    only positional argument."""
    world: str | None = None
    """Name of a world; an HDF5 file; or a video, or a folder of videos or images such as OBJ3D's,
    which is imported once. Default: the world the model was trained on."""
    split: SplitName | None = None
    """Dataset split. Default: that of the protocol."""
    episodes: int | None = None
    """Evaluate only the first n episodes. Default: all."""
    protocol: str | None = None
    """Evaluation protocol: gswm-10-90, gswm-3d-10-90, gswm-5-4, gswm-maze-5, gswm-clips-8-16,
    sqair-10-10, slotformer-6-44 or ocvp-5-25. Default: that of the world; slotformer-6-44 for
    videos without ground truth."""
    given: Posterior = "mean"
    """Infer given frames with the posterior's mean, or with a sample, as the authors' release does.
    With several futures, each starts from its own sample, which is slower."""
    samples: int | None = None
    """Number of sampled futures per episode for center_error_sample; 0 skips this score. Default:
    that of the protocol (10 for balls, which slows down G-SWM on a CPU by about 50 %)."""
    baseline: Rule | Tracker | None = None
    """Evaluate a non-learned baseline instead of a model. The tracker median-sort needs VIDEO and
    --labels."""
    labels: Path | None = None
    """Score tracks against these ground-truth boxes, in MOTChallenge format; see labels/README.md.
    """
    tracks: Path | None = None
    """With --labels: score the tracks in this MOTChallenge file, from any tracker."""
    frames: int | None = None
    """With --tracks and without VIDEO: number of frames of the video."""
    min_height: float = 0.0
    """With --labels: treat labels of at most this height as ignore regions. Below 1, a fraction of
    the video's height; otherwise pixels."""
    last: float = 0.2
    """With VIDEO: imagine in this last fraction of its frames. With --labels, also score tracks
    there separately."""
    background: BackgroundFrom = "auto"
    """With --labels: background for tracks, as in `gswm track`. Rollouts use the stored one, or
    that of the frames before the last part."""
    half: bool = False
    """Round the weights to half precision first, as `gswm export --half` does."""
    lpips: Path | None = None
    """Also compute pixel metrics, and LPIPS with the weights in this file; see docs/evaluation.md.
    """
    allow_damaged: bool = False
    """Accept videos that FFmpeg reports as damaged or that are missing frames."""
    json: Path | None = None
    """Write the full result to this JSON file; without a path, print JSON only."""
    force: bool = False
    """Overwrite the --json file if it exists."""
    device: str = "auto"
    """Device to run on: cpu, cuda, or auto (a GPU if available)."""

    def run(self) -> None:
        """Evaluate, and print the scores."""
        if self.labels is not None:
            return self.run_labelled(self.labels)
        if self.model is not None and self.baseline is None:
            check_no_video(self.model, "gswm", "eval", ANY_VIDEO)
        if self.model is not None and self.video is not None:
            check_no_world(self.video)
            return self.run_imagined(self.model, Path(self.video))
        self.check_no_labels()
        if (self.model is None) == (self.baseline is None):
            raise UserError("specify either a model or --baseline")
        if self.episodes is not None and self.episodes < 1:
            raise UserError(f"--episodes must be at least 1, not {self.episodes}")
        check_json(self.json, force=self.force)
        device = find_device(self.device)
        if self.model is not None:
            model, about = resolve(self.model, device, self.half)
        else:
            model, about = rule(self.baseline, self.world)
        world = self.world or about["world"]
        if is_of_videos(world):
            cut = Cut()
            if isinstance(model, WorldModel):
                cut = Cut.like(about["about"].get("videos", {}), model.image_size)
            cut = replace(cut, allow_damaged=self.allow_damaged)
            world = str(import_once(Path(world), cut))
        known = hdf5.world_of(world)
        rules = protocol(self.protocol) if self.protocol else fitting(world)
        if self.lpips is not None and "pixels" not in rules.metrics:
            rules = replace(rules, metrics=(*rules.metrics, "pixels"))
        rules = self.changed(rules)
        split = self.split or rules.split
        size = model.image_size if isinstance(model, WorldModel) else None
        work = f"evaluating on {world}, {split}, with {rules.name}"
        total = number_of(world, split, self.episodes)
        with explained(work), progress_bar("measuring", "episodes", total) as advance:
            result = evaluate(
                *(model, episodes_of(world, split, self.episodes, size), rules),
                device=device,
                lpips=None if self.lpips is None else lpips.read(self.lpips, device),
                progress=advance,
            )
        say_what_lacks(result)
        data = {"world": world, "of": known, "split": split}
        about = {"model": about, "data": data, **stamp(device)}
        self.say(about | result.to_json(), table(result, world, split))

    def changed(self, rules: Protocol) -> Protocol:
        """The protocol with --given and --samples."""
        if self.baseline is not None:
            if self.given != "mean" or self.samples:
                which = "--given" if self.given != "mean" else "--samples"
                raise UserError(f"{which} needs a model: baselines do not sample")
            return replace(rules, samples=0)
        samples = rules.samples if self.samples is None else self.samples
        if samples < 0:
            raise UserError(f"--samples must be 0 or more, not {samples}")
        if samples and not rules.can_sample:
            raise UserError(
                "--samples needs a protocol that measures center errors of means, unlike "
                f"{rules.name}"
            )
        return replace(rules, posterior=self.given, samples=samples)

    def run_labelled(self, labels: Path) -> None:
        """Score tracks against labels, and print the scores."""
        if self.given != "mean" or self.samples is not None:
            which = "--given" if self.given != "mean" else "--samples"
            raise UserError(f"{which} cannot be used with --labels: tracks use means")
        check_json(self.json, force=self.force)
        names = [name for name in (self.model, self.video) if name is not None]
        device = find_device(self.device)
        how = (self.half, self.allow_damaged, self.background)
        source = source_of(names, self.tracks, self.baseline, device, *how)
        scored = score_labelled(
            *(labels, source), frames=self.frames, min_height=self.min_height, last=self.last
        )
        head = f"{source.name} on {labels}{masked(scored.boxes_from)}"
        lines = [head, scored.table()]
        if scored.imagination is not None:
            lines.append(forecast_table(scored.imagination, self.last))
        self.say(scored.to_json() | stamp(device), "\n".join(lines))

    def run_imagined(self, model: str, video: Path) -> None:
        """Score a model's rollouts at the end of a video."""
        self.check_no_labels()
        for name in ("baseline", "world", "split", "protocol", "episodes", "lpips"):
            if self.sets(name):
                raise UserError(f"{flag(name)} does not apply to {video}: omit one of them")
        check_json(self.json, force=self.force)
        device = find_device(self.device)
        measured = VideoModel(model, video, device, self.half, self.allow_damaged)
        scores = measured.forecast(self.last)
        if scores is None:
            raise UserError(
                f"the last {self.last:.0%} of {video} is too short for a rollout: use a larger "
                "--last, or a longer video"
            )
        source = measured.resolved[0].boxes_from
        text = f"{model} on {video}{masked(source)}\n{forecast_table(scores, self.last)}"
        found = {"imagination": scores.to_json(), "boxes_from": source}
        self.say(found | stamp(device), text)

    def say(self, report: dict[str, Any], text: str) -> None:
        """Print `text`, and write the whole report if requested."""
        report = {"command": self.command(), **report}
        if self.json == PRINTED:
            print(laid_out(report))
            return
        if self.json is not None:
            write_whole(self.json, (laid_out(report) + "\n").encode())
        print(text)

    def sets(self, setting: str) -> bool:
        """Whether a setting differs from its default."""
        return getattr(self, setting) != getattr(EvaluateCommand(), setting)

    def check_no_labels(self) -> None:
        """Raise a UserError for settings that need --labels."""
        for name in ("tracks", "frames", "min_height", "background"):
            if self.sets(name):
                raise UserError(f"{flag(name)} needs --labels; see labels/README.md")
        if self.video is None and self.sets("last"):
            raise UserError("--last needs a video after the model")
        if self.baseline in get_args(Tracker):
            raise UserError(f"--baseline {self.baseline} needs a video and --labels")

    def command(self) -> str:
        """The command that repeats this evaluation."""
        words = ["gswm", "eval", *(name for name in (self.model, self.video) if name)]
        for setting in filter(self.sets, MEASURED):
            value = getattr(self, setting)
            words += [flag(setting)] if value is True else [flag(setting), str(value)]
        return shlex.join(words)


def check_no_world(video: str) -> None:
    """Raise a UserError for the name of a world in the place of a video."""
    if video in worlds.WORLDS and not Path(video).exists():
        raise UserError(f"{video} is a world: use --world {video}")


MEASURED = (
    *("baseline", "world", "split", "protocol", "given", "samples", "episodes", "half", "lpips"),
    *("labels", "tracks", "frames", "min_height", "last", "background", "allow_damaged"),
)
"""Settings on which the scores depend."""


def stamp(device: torch.device) -> dict[str, Any]:
    """Version, commit and device, to store with scores."""
    return {"gswm": gswm.__version__, "commit": commit(), "device": device.type}


def flag(setting: str) -> str:
    """The name of a setting on the command line."""
    return f"--{setting.replace('_', '-')}"


def rule(name: Rule | Tracker | None, world: str | None) -> tuple[Baseline, dict[str, Any]]:
    """The baseline for a world."""
    if name is None or name == "median-sort" or world is None:
        raise UserError("--baseline needs --world: the name of a world, or an HDF5 file")
    there = worlds.WORLDS.get(hdf5.world_of(world))
    if name in ("walls", "simulator") and not isinstance(there, Balls | None):
        raise UserError(f"'{name}' needs a world of bouncing balls, unlike {there.name}")
    collide = there.collide if isinstance(there, Balls) else True
    return Baseline(name, collide), {"baseline": name}


def is_of_videos(world: str) -> bool:
    """Whether this is a video or a folder of videos, which must be imported first."""
    path = Path(world)
    is_video = path.is_file() and not hdf5.is_name_of_file(world)
    return world not in worlds.WORLDS and (path.is_dir() or is_video)


def episodes_of(
    world: str, split: SplitName, n: int | None, size: int | None = None
) -> Iterator[Episodes]:
    """The first `n` episodes of a split, or all of it, in chunks.

    Episodes of a world are drawn in frames of `size` pixels. Default: the world's own size.
    """
    if not hdf5.is_name_of_file(world):
        source = worlds.world(world)
        source = source if size is None else source.resized(size)
        chosen = source.splits[split]
        check_number(n, chosen.episodes, world, split)
        yield from source.episodes(chosen.seed, n or chosen.episodes, memory=MEMORY)
        return
    with hdf5.open_file(world) as file:
        which = file.of_split(split).tolist()
        check_number(n, len(which), world, split)
        which = which[:n]
        for start in range(0, len(which), CHUNK):
            yield file.read(which[start : start + CHUNK])


def number_of(world: str, split: SplitName, n: int | None) -> int:
    """The number of episodes that `episodes_of` yields; raises a UserError for too many."""
    if hdf5.is_name_of_file(world):
        with hdf5.open_file(world) as file:
            there = len(file.of_split(split))
    else:
        there = worlds.world(world).splits[split].episodes
    check_number(n, there, world, split)
    return n or there


def check_number(wanted: int | None, there: int, world: str, split: SplitName) -> None:
    """Raise a UserError for more episodes than a split has."""
    if wanted is not None and wanted > there:
        has = f"the {split} split of {world} has {counted(there, 'episode')}"
        raise UserError(f"--episodes is {wanted}, but {has}: use {there:,} or fewer")


def fitting(world: str) -> Protocol:
    """The protocol that a world declares; one of pixels for videos without ground truth."""
    of_pixels, known = protocol(PIXELS), hdf5.world_of(world)
    if not hdf5.is_name_of_file(world):
        return usual(known)
    with hdf5.open_file(world) as file:
        is_video, long = file.layout == "video", file.frames >= of_pixels.frames
        if file.ignored:
            print(f"{world}: {file.ignored}", file=sys.stderr)
    if known in worlds.WORLDS and worlds.WORLDS[known].layout == "video":
        is_video = False  # the world declares a protocol for its videos
    if not (is_video and long):
        return usual(known)
    unknown = f"{world} has no ground truth for objects"
    print(f"{unknown}: measuring only pixels, with {of_pixels.name}", file=sys.stderr)
    return of_pixels


def say_what_lacks(result: Result) -> None:
    """Report why scores are missing."""
    if result.scores.get("objects") == 0:
        print(
            "the model found no objects in these episodes, so errors of objects are missing: train "
            "it for more steps, or evaluate it on videos like those that it was trained on",
            file=sys.stderr,
        )
    if result.protocol.name == MODES and "on_mode" not in result.scores:
        lack = "without share, on_mode, coverage and end_error"
        why = f"all evaluated episodes ({result.episodes}) turn the same way"
        print(f"{lack}: {why}; use more --episodes", file=sys.stderr)


def laid_out(value: Any, indent: int = 0) -> str:
    """JSON with each list on one line, which halves the size and keeps files comparable by line."""
    if not isinstance(value, dict) or not value:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    space = " " * (indent + 1)
    lines = [f"{space}{json.dumps(k)}: {laid_out(v, indent + 1)}" for k, v in value.items()]
    return "{\n" + ",\n".join(lines) + f"\n{' ' * indent}}}"


def masked(boxes_from: str | None) -> str:
    """Suffix of a heading, for scores of boxes that are computed from masks."""
    return ", boxes from the model's masks" if boxes_from == "masks" else ""


def table(result: Result, world: str, split: str) -> str:
    """Scores, one per line, with their standard errors if known; scores by size as a table."""
    rules = result.protocol
    head = f"{world}, {split}: {counted(result.episodes, 'episode')}, {rules.name}"
    if rules.posterior == "sample":
        head += ", given frames inferred with posterior samples"
    head += masked(result.boxes_from)
    if result.standard_errors:
        head += "; ± is the standard error over episodes"
    sized = {f"{score}_{size}" for score in SCORES for size in SIZES}
    single = {name: value for name, value in result.scores.items() if name not in sized}
    wide = max(map(len, single), default=0)
    notes = notes_on(result)
    lines = [head]
    for name, value in single.items():
        error = result.standard_errors.get(name)
        shown = "-" if isnan(value) else score(name, value)
        shown += "" if error is None else f" ± {error:.4f}"
        note = f"{shown:17}  {notes[name]}" if name in notes else shown
        lines.append(f"  {name:{wide}}  {note}")
    if "sizes" in rules.metrics:
        lines += table_by_size(result.scores)
    return "\n".join(lines)


def notes_on(result: Result) -> dict[str, str]:
    """A short explanation of each main score."""
    rules = result.protocol
    first, steps = min(TABLE_STEPS, rules.steps), rules.steps
    by = "sampled future" if rules.sample else "mean rollout"
    ways = {"share_0": "of the futures, to the left", "share_1": "of the futures, to the right"}
    return {
        **(ways if result.scores.get("modes") == len(ways) else {}),
        "modes": "possible futures of each object",
        "on_mode": f"of the futures, within {64 * NEAR:g} of 64 pixels of a true end",
        "center_error": f"the paper's score: {by}, sum over {first} frames",
        "center_error_mean": f"{by}, mean over {steps} frames",
        "center_error_sample": f"one sampled future (mean of {rules.samples})",
        "center_error_sample_mean": f"one sampled future, mean over {steps} frames",
        "moved": f"distance covered in {first} imagined frames, relative to the true one",
        "moved_along": "the same, along the true path",
        "reconstruction_psnr": f"of the {rules.given} given frames",
        "reconstruction_gain": "dB above the mean of these frames",
        "sharpness": "of the reconstructed frames, relative to the true ones",
    }


def table_by_size(scores: dict[str, float]) -> list[str]:
    """One line per size class."""
    lines = ["  " + "".join([f"{'size':18}", *(f"{score:>12}" for score in SCORES)])]
    for size, (low, high) in SIZES.items():
        span = f"from {low:.0%}" if high == inf else f"{low:.0%} to {high:.0%}"
        name = size if size == "all" else f"{size}, {span if low else f'below {high:.0%}'}"
        named = {score: scores[f"{score}_{size}"] for score in SCORES}
        cells = (
            "-" if isnan(v) else f"{v:,.0f}" if score == "true_boxes" else f"{v:.3f}"
            for score, v in named.items()
        )
        lines.append("  " + "".join([f"{name:18}", *(f"{cell:>12}" for cell in cells)]))
    return lines

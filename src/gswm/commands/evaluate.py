"""`gswm eval`."""

import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args

from tyro.conf import Positional, arg

import gswm
from gswm.commands.importing import import_once
from gswm.commands.labelled import score_labelled, source_of
from gswm.commands.parsing import PRINTED, check_json
from gswm.commands.resolving import resolve
from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.core.files import write_whole
from gswm.core.waiting import explained
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
from gswm.eval.protocols import Protocol, protocol, usual
from gswm.models.base import WorldModel
from gswm.train.folder import commit

MEMORY = 1 << 28
CHUNK = 16
PIXELS = "slotformer-6-44"
"""How videos without truth are measured."""
MODES = "gswm-5-4"
"""How samples are compared with all futures that can be."""


@dataclass(frozen=True)
class EvaluateCommand:
    """Settings of `gswm eval`."""

    model: Annotated[Positional[str | None], arg(metavar="RUN|WEIGHTS|NAME")] = None
    """A run, of which the best weights are taken, a file of weights, or the name of one that
    ships."""
    video: Annotated[Positional[str | None], arg(metavar="VIDEO")] = None
    """With --labels: the video that they are of, a file or a folder of images. The model tracks it
    as `gswm track` does by default; with --tracks or --baseline, VIDEO is the only name before the
    options."""
    world: str | None = None
    """A world by its name, an HDF5 file; or a video, or a folder of videos or images such as
    OBJ3D's, which is imported once; the one that the model was trained on if not given."""
    split: SplitName | None = None
    """The protocol's if not given."""
    protocol: str | None = None
    """gswm-10-90, gswm-3d-10-90, gswm-5-4, gswm-maze-5, slotformer-6-44 or ocvp-5-25; the one
    that the world declares if not given, and slotformer-6-44 for videos without truth."""
    baseline: Rule | Tracker | None = None
    """Measure a rule instead of a model; median-sort, a tracker without learning, needs VIDEO and
    --labels."""
    labels: Path | None = None
    """Score the tracks of a model, or of another tracker, against these boxes, MOTChallenge text:
    see labels/README.md."""
    tracks: Path | None = None
    """With --labels: the tracks to score, MOTChallenge text of any tracker."""
    frames: int | None = None
    """With --tracks: how many frames the video has, where VIDEO is not given."""
    min_height: float = 0.0
    """With --labels: labels that are not higher become ignore regions; a share of the video's
    height if below 1, else pixels."""
    last: float = 0.2
    """With --labels: score this last share of the video's frames separately too."""
    episodes: int | None = None
    """The first so many of the split; all if not given."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU where there is one."""
    half: bool = False
    """Round the weights to half precision first, as `gswm export --half` does."""
    lpips: Path | None = None
    """Measure pixels too, and LPIPS with the weights in this file: see docs/evaluation.md."""
    json: Path | None = None
    """Write everything that was measured to this file; without one it is printed."""
    force: bool = False
    """Replace the file of --json if it exists."""

    def run(self) -> None:
        """Measure, and say what was measured."""
        if self.labels is not None:
            return self.run_labelled(self.labels)
        self.check_no_labels()
        if (self.model is None) == (self.baseline is None):
            raise UserError("name a model, or --baseline, to measure: one of the two")
        if self.episodes is not None and self.episodes < 1:
            raise UserError(f"--episodes must be at least 1, not {self.episodes}")
        check_json(self.json, force=self.force)
        device = find_device(self.device)
        if self.model is not None:
            model, about = resolve(self.model, device, self.half)
        else:
            model, about = rule(self.baseline, self.world)
        world = self.world or about["world"]
        if isinstance(model, WorldModel) and is_of_videos(world):
            cut = Cut.like(about["about"].get("videos", {}), model.image_size)
            world = str(import_once(Path(world), cut))
        known = hdf5.world_of(world)
        rules = protocol(self.protocol) if self.protocol else fitting(world)
        if self.lpips is not None and "pixels" not in rules.metrics:
            rules = replace(rules, metrics=(*rules.metrics, "pixels"))
        split = self.split or rules.split
        with explained(f"measuring {world}, {split}, by {rules.name}"):
            result = evaluate(
                *(model, episodes_of(world, split, self.episodes), rules),
                device=device,
                lpips=None if self.lpips is None else lpips.read(self.lpips, device),
            )
        say_what_lacks(result)
        data = {"world": world, "of": known, "split": split}
        stamp = {"gswm": gswm.__version__, "commit": commit(), "device": device.type}
        report = {"command": self.command(), "model": about, "data": data, **stamp}
        if self.json == PRINTED:
            print(laid_out(report | result.to_json()))
            return
        if self.json is not None:
            write_whole(self.json, (laid_out(report | result.to_json()) + "\n").encode())
        print(table(result, world, split))

    def run_labelled(self, labels: Path) -> None:
        """Score tracks against labels, and say how good they are."""
        check_json(self.json, force=self.force)
        names = [name for name in (self.model, self.video) if name is not None]
        device = find_device(self.device)
        source = source_of(names, self.tracks, self.baseline, device, self.half)
        scored = score_labelled(
            *(labels, source), frames=self.frames, min_height=self.min_height, last=self.last
        )
        stamp = {"gswm": gswm.__version__, "commit": commit(), "device": device.type}
        report = {"command": self.command(), **scored.to_json(), **stamp}
        if self.json == PRINTED:
            print(laid_out(report))
            return
        if self.json is not None:
            write_whole(self.json, (laid_out(report) + "\n").encode())
        print(f"{source.name} on {labels}")
        print(scored.table())

    def check_no_labels(self) -> None:
        """Refuse settings that mean nothing without --labels."""
        default = EvaluateCommand()
        for name in ("video", "tracks", "frames", "min_height", "last"):
            if getattr(self, name) != getattr(default, name):
                shown = "a video after the model" if name == "video" else flag(name)
                raise UserError(f"{shown} needs --labels; see labels/README.md")
        if self.baseline in get_args(Tracker):
            raise UserError(f"--baseline {self.baseline} needs a video and --labels")

    def command(self) -> str:
        """How to measure this again."""
        words = ["gswm", "eval", *(name for name in (self.model, self.video) if name)]
        default = EvaluateCommand()
        for setting in MEASURED:
            if (value := getattr(self, setting)) != getattr(default, setting):
                words += [flag(setting)] if value is True else [flag(setting), str(value)]
        return shlex.join(words)


MEASURED = (
    *("baseline", "world", "split", "protocol", "episodes", "half", "lpips"),
    *("labels", "tracks", "frames", "min_height", "last"),
)
"""Settings on which the scores depend."""


def flag(setting: str) -> str:
    """A setting as it is given on the command line."""
    return f"--{setting.replace('_', '-')}"


def rule(name: Rule | Tracker | None, world: str | None) -> tuple[Baseline, dict[str, Any]]:
    """A rule as it is in a world."""
    if name is None or name == "median-sort" or world is None:
        raise UserError("--baseline needs --world: a world by its name, or an HDF5 file")
    there = worlds.WORLDS.get(hdf5.world_of(world))
    if name in ("walls", "simulator") and not isinstance(there, Balls | None):
        raise UserError(f"'{name}' is about bouncing balls; {there.name} has other rules")
    collide = there.collide if isinstance(there, Balls) else True
    return Baseline(name, collide), {"baseline": name}


def is_of_videos(world: str) -> bool:
    """Whether this is a video or a folder of them, to be imported first."""
    path = Path(world)
    is_video = path.is_file() and not hdf5.is_name_of_file(world)
    return world not in worlds.WORLDS and (path.is_dir() or is_video)


def episodes_of(world: str, split: SplitName, n: int | None) -> Iterator[Episodes]:
    """The first `n` episodes of a split, or all of it, some at a time."""
    if not hdf5.is_name_of_file(world):
        source = worlds.world(world)
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


def check_number(wanted: int | None, there: int, world: str, split: SplitName) -> None:
    """Refuse more episodes than a split has."""
    if wanted is not None and wanted > there:
        has = f"the {split} split of {world} has {there} episodes"
        raise UserError(f"--episodes is {wanted}, and {has}: give {there} or fewer")


def fitting(world: str) -> Protocol:
    """The protocol that a world declares; one of pixels for videos of which no more is known."""
    of_pixels, known = protocol(PIXELS), hdf5.world_of(world)
    if not hdf5.is_name_of_file(world):
        return usual(known)
    with hdf5.open_file(world) as file:
        is_video, long = file.layout == "video", file.frames >= of_pixels.frames
    if known in worlds.WORLDS and worlds.WORLDS[known].layout == "video":
        is_video = False  # the world declares a protocol for its videos
    if not (is_video and long):
        return usual(known)
    unknown = f"{world} does not say where its objects are"
    print(f"{unknown}: its pixels are measured, by {of_pixels.name}", file=sys.stderr)
    return of_pixels


def say_what_lacks(result: Result) -> None:
    """Say why there is nothing about modes where the protocol is about them."""
    if result.protocol.name == MODES and "on_mode" not in result.scores:
        lack = "without share, on_mode, coverage and end_error"
        why = f"all episodes measured ({result.episodes}) go the same way"
        print(f"{lack}: {why}; give more --episodes", file=sys.stderr)


def laid_out(value: Any, indent: int = 0) -> str:
    """JSON in which a list is one line, however long: half the size, and lines still differ."""
    if not isinstance(value, dict) or not value:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    space = " " * (indent + 1)
    lines = [f"{space}{json.dumps(k)}: {laid_out(v, indent + 1)}" for k, v in value.items()]
    return "{\n" + ",\n".join(lines) + f"\n{' ' * indent}}}"


def table(result: Result, world: str, split: str) -> str:
    """Scores, one a line."""
    head = f"{world}, {split}: {result.episodes} episodes by {result.protocol.name}"
    return "\n".join([head, *(f"  {k:18} {v:.4f}" for k, v in result.scores.items())])

"""`gswm train`."""

import shlex
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from gswm.commands.importing import file_of, import_once
from gswm.commands.parsing import UnknownOptionsError, tyro_cli
from gswm.core.errors import UserError
from gswm.core.settings import from_dict
from gswm.core.words import closest
from gswm.data.importing.videos import Cut
from gswm.data.storage.hdf5 import is_name_of_file
from gswm.fast.trainee import accelerate
from gswm.models.recipe import Recipe
from gswm.models.registry import RECIPES, recipe
from gswm.train.folder import RunFolder
from gswm.train.launch import train
from gswm.train.loop import LoopConfig
from gswm.train.signals import Signals, Stopped
from gswm.train.step import Trainee


@dataclass(frozen=True)
class TrainStart:
    """The arguments of `gswm train` that choose the recipe, on which all other options depend."""

    NOTES: ClassVar = (
        f"recipes: {', '.join(RECIPES)}",
        "`gswm train RECIPE --help` lists the options of a recipe. Ctrl-C, SIGTERM and SIGHUP save "
        "a checkpoint and exit with code 130, 143 or 129.",
    )
    EXAMPLES: ClassVar = (
        "gswm train interaction-cpu",
        "gswm train two-layer --seed 1 --train.steps 20000 --out runs/short",
        "gswm train --resume runs/short",
    )

    recipe: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="RECIPE")] = ()
    """Recipe to train, followed by its options."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Resume the run in this folder instead."""


@dataclass(frozen=True)
class TrainCommand:
    """Settings of `gswm train`: those of the recipe and those of the run."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    loop: Annotated[LoopConfig, tyro.conf.arg(name="")] = field(default_factory=LoopConfig)
    out: Path | None = None
    """Run folder. Default: runs/RECIPE-SEED."""
    videos: Annotated[Path | None, tyro.conf.arg(name="data", metavar="PATH")] = None
    """Train on this instead of --data.world: an HDF5 file; or a video, or a folder of videos or
    images such as OBJ3D's, which is imported once, into PATH.hdf5."""
    device: str = "auto"
    """Device to run on: cpu, cuda, or auto (a GPU if available)."""

    @staticmethod
    def from_args(args: list[str]) -> "TrainCommand":
        """`RECIPE [--setting value ...]`, or `--resume RUN [--setting value ...]`."""
        begin = {"prog": "gswm train", "description": "Train a recipe, or resume a run."}
        start, rest = tyro_cli(TrainStart, args, **begin, add_help=False, return_unknown_args=True)
        if start.resume is not None:
            if start.recipe:
                raise UserError(f"--resume uses the recipe of the run: omit {start.recipe[0]}")
            folder = RunFolder(start.resume)
            folder.check_version(any_code=True)  # another version may have other settings
            default = TrainCommand(folder.recipe(), settings_of(folder), start.resume)
            which = shlex.join(["--resume", str(start.resume)])
        elif start.recipe:
            which, *more = start.recipe
            if (Path(which) / "recipe.json").is_file():
                raise UserError(
                    f"{which} is a run: `{shlex.join(['gswm', 'train', '--resume', which])}` "
                    "resumes it"
                )
            default, rest = TrainCommand(recipe(which)), [*more, *rest]
        elif not rest or {"-h", "--help"} & set(rest):
            return tyro_cli(TrainStart, ["--help"], **begin)
        else:
            if (close := closest(rest[0], ("--resume", "--help"))) is not None:
                raise UnknownOptionsError([rest[0]], [close], "gswm train")
            raise UserError(
                "specify a recipe first: gswm train RECIPE [OPTIONS]; `gswm train --help` lists "
                "the recipes"
            )
        # The recipe determines the model, so its settings are not a subcommand.
        about = f"Train {which}." if start.resume is None else f"Resume {start.resume}."
        settings = {"default": default, "config": (tyro.conf.AvoidSubcommands,)}
        prog = f"gswm train {which}"  # whose help lists the settings of this recipe
        parsed = tyro_cli(TrainCommand, rest, prog=prog, description=about, **settings)
        parsed = parsed.on_videos()
        model = parsed.recipe.model.resized_from(default.recipe.model)
        parsed = replace(parsed, recipe=replace(parsed.recipe, model=model))
        if start.resume is not None and parsed.out != start.resume:
            raise UserError(f"--resume continues in {start.resume}: omit --out")
        return parsed

    def on_videos(self) -> "TrainCommand":
        """The same settings with the file of --data as data; imports nothing yet."""
        if self.videos is None:
            return self
        is_file = is_name_of_file(self.videos.name) and not self.videos.is_dir()
        file = self.videos if is_file else file_of(self.videos)
        data = replace(self.recipe.data, world=str(file))
        return replace(self, recipe=replace(self.recipe, data=data))

    def run(self) -> int:
        """Train; return 0 at the end or the time limit, and 128 plus its number after a signal."""
        out = self.out or Path("runs") / f"{self.recipe.name}-{self.recipe.seed}"
        signals = Signals()  # importing counts towards the time limit
        try:
            if self.videos is not None and str(self.videos) != self.recipe.data.world:
                with signals.heard(self.loop.max_minutes):
                    import_once(self.videos, Cut(self.recipe.model.image_size))
            make = Trainee if self.loop.plain else accelerate(compiled=self.loop.compiled)
            run = train(self.recipe, out, self.device, self.loop, signals, make)
        except Stopped:
            begun = (out / "recipe.json").exists()
            how = (
                f"stopped; nothing is lost: {goes_on(out)}"
                if begun
                else "stopped before the first step, so there is no run to resume: run the same "
                "command again; cached episodes are not generated again"
            )
            print(how, file=sys.stderr)
            return signals.exit_code
        done = run.trainee.step >= self.recipe.train.steps
        out = run.folder.path
        said = f"{'trained' if done else 'stopped'} at step {run.trainee.step}; the run is in {out}"
        run.display.tell(said if done else f"{said}; {goes_on(out)}")
        return signals.exit_code


def goes_on(out: Path) -> str:
    """Advice on continuing a stopped run."""
    return f"`{shlex.join(['gswm', 'train', '--resume', str(out)])}` resumes it"


def settings_of(folder: RunFolder) -> LoopConfig:
    """The settings of the last start of a run, except those that apply to one start only."""
    starts = folder.starts()
    if not starts or "settings" not in starts[-1]:
        return LoopConfig()
    known = starts[-1]["settings"] | {"max_minutes": None, "any_code": False}
    return from_dict(LoopConfig, known, where=f"{folder.path}: settings")

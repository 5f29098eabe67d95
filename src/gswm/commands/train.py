"""`gswm train`."""

import shlex
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from gswm.commands.importing import file_of, import_once
from gswm.commands.parsing import tyro_cli
from gswm.core.errors import UserError
from gswm.core.settings import from_dict
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
class TrainCommand:
    """Settings of `gswm train`: the recipe's, any of which can be set, and the run's."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    loop: Annotated[LoopConfig, tyro.conf.arg(name="")] = field(default_factory=LoopConfig)
    out: Path | None = None
    """The run's folder; runs/RECIPE-SEED if it is not given."""
    videos: Annotated[Path | None, tyro.conf.arg(name="data", metavar="PATH")] = None
    """In place of --data.world: an HDF5 file; or a video, or a folder of videos or images such as
    OBJ3D's, which is imported once, into PATH.hdf5."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU where there is one."""

    @staticmethod
    def from_args(args: list[str]) -> "TrainCommand":
        """`RECIPE [--setting value ...]`, or `--resume RUN [--setting value ...]`."""
        names = ", ".join(RECIPES)
        usage = f"gswm train RECIPE [--setting value ...], or --resume RUN; recipes: {names}"
        if not args or args[0] in ("-h", "--help"):
            print(
                f"usage: {usage}\n\nTrain a recipe; `gswm train RECIPE --help` shows its settings."
                "\nCtrl-C, SIGTERM and SIGHUP save and end, with code 130, 143 or 129; --resume "
                "goes on."
            )
            raise SystemExit(0)
        out, rest = resumed(args)
        if out is not None:
            folder = RunFolder(out)
            folder.check_version(any_code=True)  # another version may have other settings
            default = TrainCommand(folder.recipe(), settings_of(folder), out)
        elif args[0].startswith("-"):
            raise UserError(f"name a recipe first: {usage}")
        else:
            default, rest = TrainCommand(recipe(args[0])), args[1:]
        # The recipe says which model it is: its settings are no subcommand.
        settings = {"default": default, "config": (tyro.conf.AvoidSubcommands,)}
        which = args[0] if out is None else shlex.join(["--resume", str(out)])
        prog = f"gswm train {which}"  # whose help lists the settings of this recipe
        parsed = tyro_cli(TrainCommand, rest, prog=prog, **settings).on_videos()
        model = parsed.recipe.model.resized_from(default.recipe.model)
        parsed = replace(parsed, recipe=replace(parsed.recipe, model=model))
        if out is not None and parsed.out != out:
            raise UserError(f"--resume goes on in {out}: leave --out off")
        return parsed

    def on_videos(self) -> "TrainCommand":
        """The same, with the file of --data as its data; nothing is imported yet."""
        if self.videos is None:
            return self
        is_file = is_name_of_file(self.videos.name) and not self.videos.is_dir()
        file = self.videos if is_file else file_of(self.videos)
        data = replace(self.recipe.data, world=str(file))
        return replace(self, recipe=replace(self.recipe, data=data))

    def run(self) -> int:
        """Train; 0 at the end, or of the time, and after a signal 128 and its number."""
        out = self.out or Path("runs") / f"{self.recipe.name}-{self.recipe.seed}"
        signals = Signals()  # importing is a part of the time
        try:
            if self.videos is not None and str(self.videos) != self.recipe.data.world:
                with signals.heard(self.loop.max_minutes):
                    import_once(self.videos, Cut(self.recipe.model.image_size))
            make = Trainee if self.loop.plain else accelerate(compiled=self.loop.compiled)
            run = train(self.recipe, out, self.device, self.loop, signals, make)
        except Stopped:
            begun = (out / "recipe.json").exists()
            how = f": {goes_on(out)}" if begun else ""
            print(f"stopped; nothing is lost{how}", file=sys.stderr)
            return signals.exit_code
        done = run.trainee.step >= self.recipe.train.steps
        out = run.folder.path
        said = f"{'trained' if done else 'stopped'} at step {run.trainee.step}; the run is in {out}"
        run.display.tell(said if done else f"{said}; {goes_on(out)}")
        return signals.exit_code


def goes_on(out: Path) -> str:
    """What to do with a run that was stopped."""
    return f"`{shlex.join(['gswm', 'train', '--resume', str(out)])}` goes on"


def resumed(args: list[str]) -> tuple[Path | None, list[str]]:
    """The run that is to go on, wherever `args` name it, and the rest of them."""
    words = [part for word in args for part in split_resume(word)]
    if "--resume" not in words:
        return None, args
    at = words.index("--resume")
    if at + 1 == len(words) or words[at + 1].startswith("-"):
        raise UserError("--resume needs the folder of a run")
    if at and not words[0].startswith("-"):
        raise UserError(f"a run knows its recipe: leave {words[0]} off")
    return Path(words[at + 1]), words[:at] + words[at + 2 :]


def split_resume(word: str) -> list[str]:
    """--resume=RUN as two words."""
    return word.split("=", 1) if word.startswith("--resume=") else [word]


def settings_of(folder: RunFolder) -> LoopConfig:
    """What a run was last started with, but for what is said anew at each start."""
    starts = folder.starts()
    if not starts or "settings" not in starts[-1]:
        return LoopConfig()
    known = starts[-1]["settings"] | {"max_minutes": None, "any_code": False}
    return from_dict(LoopConfig, known, where=f"{folder.path}: settings")

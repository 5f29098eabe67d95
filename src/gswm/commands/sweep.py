"""`gswm sweep`."""

import json
import re
import shlex
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from tyro.conf import FlagCreatePairsOff, Positional, arg

from gswm.commands.parsing import UnknownOptionsError, tyro_cli
from gswm.commands.train import TrainCommand
from gswm.core.errors import UserError
from gswm.core.files import check_place, write_whole
from gswm.core.limits import check_range, check_seed
from gswm.core.waiting import tell
from gswm.train.folder import read_json
from gswm.train.slurm import launcher
from gswm.train.sweep import SCORES, Job, Sweep

RESULT = "sweep.json"
MOST_SEEDS = 10_000
REFUSED = ("--seed", "--resume")
"""Options of `gswm train` that a sweep sets itself."""
OWN = ("--seeds", "--jobs", "--out", "--launcher", "--slurm", "--print")
"""Options of the sweep."""


@dataclass(frozen=True)
class SweepArguments:
    """The sweep's own arguments; the rest are settings of `gswm train`."""

    NOTES: ClassVar = (
        "All other options are passed to every run; `gswm train RECIPE --help` lists them. "
        "Each run is in OUT/RECIPE-SEED. Run the same command again to resume stopped runs; "
        "finished runs are skipped.",
    )
    EXAMPLES: ClassVar = (
        "gswm sweep interaction occlusion --seeds 0..4 --jobs 2",
        "gswm sweep two-layer --seeds 0,1 --train.steps 20000 --out short",
    )

    recipes: Annotated[Positional[tuple[str, ...]], arg(metavar="RECIPE...")] = ()
    """Recipes to train."""
    seeds: str = "0"
    """Random seeds, such as 0..4 or 0,2,5."""
    jobs: int | None = None
    """Number of parallel runs. Default: 1; with --launcher slurm, all."""
    out: Path = Path("runs")
    """Folder for all runs."""
    launcher: Literal["local", "slurm"] = "local"
    """Run on this machine, or submit each run as a Slurm job (needs the extra `slurm`)."""
    slurm: str | None = None
    """Resources of each Slurm job, as submitit parameters, such as
    slurm_partition=gpu,gpus_per_node=1,timeout_min=600."""
    only_print: Annotated[FlagCreatePairsOff[bool], arg(name="print")] = False
    """Print one command per run without running it, for use with another scheduler."""

    def command(self, settings: list[str]) -> "SweepCommand":
        """Check the arguments, and list the runs, which all have the same `settings`."""
        if not self.recipes:
            raise UserError("specify the recipes first; see `gswm sweep --help`")
        for name in (word.partition("=")[0] for word in settings):
            if name in REFUSED:
                raise UserError(
                    f"{name} cannot be used in a sweep: use --seeds, and the same --out to resume"
                )
        check_range({"--jobs": self.jobs}, 1)
        if self.launcher == "local" and self.slurm is not None:
            raise UserError("--slurm needs --launcher slurm")
        slurm = None if self.launcher == "local" else requests(self.slurm or "")
        jobs = tuple(
            job(name, seed, self.out, settings)
            for name in dict.fromkeys(self.recipes)
            for seed in seeds(self.seeds)
        )
        number = self.jobs or (1 if slurm is None else len(jobs))
        return SweepCommand(jobs, number, self.out, self.only_print, slurm)


@dataclass(frozen=True)
class SweepCommand:
    """The runs of `gswm sweep`."""

    jobs: tuple[Job, ...]
    number: int = 1
    out: Path = Path("runs")
    only_print: bool = False
    slurm: dict[str, str] | None = None
    """Resources of each cluster job; None to run here."""

    @staticmethod
    def from_args(args: list[str]) -> "SweepCommand":
        """`RECIPE... [--seeds S] [--jobs J] [--out DIR] [--print] [--setting value ...]`."""
        about = {"prog": "gswm sweep", "description": "Train several recipes with several seeds."}
        asked, settings = tyro_cli(
            SweepArguments, args or ["--help"], **about, return_unknown_args=True
        )
        return asked.command(settings)

    def run(self) -> int:
        """Train all, and print a table; return 1 if any failed."""
        if self.only_print:
            print("\n".join(shlex.join(job.command) for job in self.jobs))
            return 0
        check_sweep(self.out / RESULT)
        launch = None if self.slurm is None else launcher(self.out / "slurm", self.slurm)
        rows = Sweep(self.jobs, self.number, tell, launch).run()
        write_whole(self.out / RESULT, (json.dumps(rows, indent=2) + "\n").encode())
        Console(width=None if sys.stdout.isatty() else 120).print(table(rows))
        for row in rows:
            if row["said"] is not None:
                print(f"{row['recipe']}-{row['seed']} failed: {row['said']}")
        return int(any(row["state"] == "failed" for row in rows))


def check_sweep(path: Path) -> None:
    """Raise a UserError instead of replacing a file that no sweep wrote."""
    check_place(path)
    if not path.exists():
        return
    found = read_json(path) if path.is_file() else None
    if not (isinstance(found, list) and all(isinstance(r, dict) and "recipe" in r for r in found)):
        raise UserError(f"{path} exists, but was not written by a sweep: choose another --out")


def job(name: str, seed: int, out: Path, settings: list[str]) -> Job:
    """A run of one recipe with one seed; unknown settings raise a UserError."""
    try:
        recipe = replace(TrainCommand.from_args([name, *settings]).recipe, seed=seed)
    except UnknownOptionsError as error:
        known = [*OWN, *(each for each in error.known if each not in REFUSED)]
        raise UnknownOptionsError(error.options, known, "gswm sweep", *error.commands) from error
    folder = out / f"{name}-{seed}"
    train = [sys.executable, "-m", "gswm", "train", name, "--seed", str(seed)]
    return Job(recipe, folder, [*train, "--out", str(folder), *settings])


def seeds(text: str) -> list[int]:
    """Seeds from `0..4`, `0,2,5`, or both; tyro has no syntax for ranges."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise UserError(f"--seeds is '{text}'; it must look like 0..4 or 0,2,5")
        first, last = int(match[1]), int(match[2] or match[1])
        check_seed(last)
        if len(found) + last - first >= MOST_SEEDS:
            raise UserError(f"--seeds is '{text}'; it must have at most {MOST_SEEDS:,} seeds")
        found += range(first, last + 1)
    return list(dict.fromkeys(found))


def requests(text: str) -> dict[str, str]:
    """The resources in `name=value,...`, as in Slurm's own commands; tyro's syntax has spaces."""
    pairs = [part.partition("=") for part in text.split(",") if part]
    if not all(name and value for name, _, value in pairs):
        raise UserError(f"--slurm is '{text}'; it must look like gpus_per_node=1,timeout_min=600")
    return {name: value for name, _, value in pairs}


def table(rows: list[dict[str, Any]]) -> Table:
    """One line per run, and one for the mean of each recipe."""
    made = Table(title="Runs", box=box.SIMPLE, padding=0)
    made.add_column("recipe", overflow="fold")
    for name in ("seed", "state"):
        made.add_column(name, no_wrap=True)
    made.add_column("steps", no_wrap=True, justify="right")
    for name in SCORES:  # a mean may take two lines
        made.add_column(name.replace("_", " "), justify="right", min_width=len("0.1234 ±"))
    for name in ("best at", "minutes"):
        made.add_column(name, no_wrap=True, justify="right")
    for name in dict.fromkeys(row["recipe"] for row in rows):
        group = [row for row in rows if row["recipe"] == name]
        for row in group:
            scores = ["" if row[s] is None else f"{row[s]:.4f}" for s in SCORES]
            best = "" if row["best_step"] is None else f"{row['best_step']:,}"
            cells = (f"{row['steps']:,}", *scores, best, f"{row['minutes']:.1f}")
            made.add_row(name, str(row["seed"]), row["state"], *cells)
        if len(group) > 1:
            means = [spread([row[s] for row in group if row[s] is not None]) for s in SCORES]
            made.add_row(name, "all", "", "", *means, "", "", end_section=True)
    return made


def spread(values: list[float]) -> str:
    """Mean ± standard deviation."""
    if len(values) < 2:
        return ""
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}"

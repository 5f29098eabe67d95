"""`gswm sweep`."""

import json
import re
import shlex
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from gswm.commands.train import TrainCommand
from gswm.core.errors import UserError
from gswm.core.files import check_place, write_whole
from gswm.core.limits import check_seed
from gswm.core.waiting import tell
from gswm.train.folder import read_json
from gswm.train.slurm import launcher
from gswm.train.sweep import SCORES, Job, Sweep

USAGE = """usage: gswm sweep RECIPE... [--seeds 0..4] [--jobs 4] [--out runs] [--setting value ...]

Train many runs at once on one device: every recipe with every seed, each in OUT/RECIPE-SEED.
The same command goes on with those that were stopped, and leaves those that are finished.

  --seeds    the seeds, such as 0..4 or 0,2,5; 0 if not given
  --jobs     how many at once; if not given 1, and all of them in a cluster's queue
  --out      the folder of all runs; runs if not given
  --launcher local, or slurm: each run a job of a Slurm cluster (the extra `slurm`)
  --slurm    what each job asks for, in submitit's words, such as
             slurm_partition=gpu,gpus_per_node=1,timeout_min=600
  --print    print the command of each run, a line each, and run none: for a cluster's scheduler

All other settings are those of `gswm train`, for every run."""
RESULT = "sweep.json"
MOST_SEEDS = 10_000
OURS = ("--seeds", "--jobs", "--out", "--launcher", "--slurm")


@dataclass(frozen=True)
class SweepCommand:
    """Settings of `gswm sweep`."""

    jobs: tuple[Job, ...]
    number: int = 1
    out: Path = Path("runs")
    only_print: bool = False
    slurm: dict[str, str] | None = None
    """What a cluster's jobs ask for; None to run here."""

    @staticmethod
    def from_args(args: list[str]) -> "SweepCommand":
        """`RECIPE... [--seeds S] [--jobs J] [--out DIR] [--print] [--setting value ...]`."""
        if not args or {"-h", "--help"} & set(args):
            print(USAGE)
            raise SystemExit(0)
        first = next((i for i, word in enumerate(args) if word.startswith("-")), len(args))
        names, rest = args[:first], args[first:]
        if not names:
            raise UserError("name the recipes first; `gswm sweep --help` shows how")
        only_print = "--print" in rest
        ours, settings = taken([word for word in rest if word != "--print"])
        out = Path(ours.get("--out", "runs"))
        jobs = [
            job(name, seed, out, settings)
            for name in dict.fromkeys(names)
            for seed in seeds(ours.get("--seeds", "0"))
        ]
        slurm = asked_for(ours.get("--launcher", "local"), ours.get("--slurm"))
        number = "1" if slurm is None else str(len(jobs))
        return SweepCommand(tuple(jobs), whole(ours.get("--jobs", number)), out, only_print, slurm)

    def run(self) -> int:
        """Train all, and print a table; 1 if any failed."""
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
    """Refuse to replace a file that no sweep wrote."""
    check_place(path)
    if not path.exists():
        return
    found = read_json(path) if path.is_file() else None
    if not (isinstance(found, list) and all(isinstance(r, dict) and "recipe" in r for r in found)):
        raise UserError(f"{path} exists, and no sweep wrote it: choose another --out")


def taken(args: list[str]) -> tuple[dict[str, str], list[str]]:
    """The sweep's own settings, and those of the runs."""
    ours, others, words = {}, [], iter(args)
    for word in words:
        name, equals, value = word.partition("=")
        if name in OURS:
            ours[name] = value if equals else next(words, "")
            if not ours[name]:
                raise UserError(f"{name} needs a value; `gswm sweep --help` shows how")
        elif name in ("--seed", "--resume"):
            raise UserError(f"{name} is not for a sweep: use --seeds, and the same --out to go on")
        else:
            others.append(word)
    return ours, others


def job(name: str, seed: int, out: Path, settings: list[str]) -> Job:
    """A run of one recipe with one seed; settings that it has not are refused."""
    recipe = replace(TrainCommand.from_args([name, *settings]).recipe, seed=seed)
    folder = out / f"{name}-{seed}"
    train = [sys.executable, "-m", "gswm", "train", name, "--seed", str(seed)]
    return Job(recipe, folder, [*train, "--out", str(folder), *settings])


def seeds(text: str) -> list[int]:
    """0..4, or 0,2,5, or both."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise UserError(f"--seeds is '{text}'; it must be such as 0..4 or 0,2,5")
        first, last = int(match[1]), int(match[2] or match[1])
        check_seed(last)
        if len(found) + last - first >= MOST_SEEDS:
            raise UserError(f"--seeds is '{text}'; it must be at most {MOST_SEEDS:,} seeds")
        found += range(first, last + 1)
    return list(dict.fromkeys(found))


def whole(text: str) -> int:
    """How many at once."""
    if not text.isdigit() or int(text) < 1:
        raise UserError(f"--jobs is '{text}'; it must be a number from 1 on")
    return int(text)


def asked_for(launcher: str, text: str | None) -> dict[str, str] | None:
    """What `--slurm name=value,...` says; None where the runs are to be here."""
    if launcher not in ("local", "slurm"):
        raise UserError(f"--launcher is '{launcher}'; it must be local or slurm")
    if launcher == "local":
        if text is not None:
            raise UserError("--slurm is for --launcher slurm")
        return None
    pairs = [part.partition("=") for part in (text or "").split(",") if part]
    if not all(name and value for name, _, value in pairs):
        raise UserError(f"--slurm is '{text}'; it must be such as gpus_per_node=1,timeout_min=600")
    return {name: value for name, _, value in pairs}


def table(rows: list[dict[str, Any]]) -> Table:
    """A line of each run, and of the mean of each recipe's."""
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

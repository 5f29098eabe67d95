"""`gswm sweep`: parallel runs, none of which is lost or stops the others."""

import json
import os
import shlex
import signal
import stat
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file

from gswm.cli import main
from gswm.commands.sweep import SweepCommand, seeds, spread, table
from gswm.core.errors import UserError
from gswm.core.settings import to_dict
from gswm.models.registry import recipe
from gswm.train import slurm, sweep
from gswm.train.sweep import Job
from gswm.weights import files as weights

TINY = ["--train.steps", "3", "--train.batch", "2", "--train.validation-episodes", "2"]
TINY += ["--data.episodes", "4", "--device", "cpu"]


def fake(tmp_path: Path, seed: int, script: str) -> Job:
    """A run whose process is a few lines of Python, in which `here` is its folder."""
    folder = tmp_path / f"interaction-{seed}"
    begin = (
        "import os, signal, sys, time, pathlib\nhere = pathlib.Path(sys.argv[1])\nhere.mkdir()\n"
    )
    command = [sys.executable, "-c", begin + script, str(folder)]
    return Job(replace(recipe("interaction"), seed=seed), folder, command)


def run(jobs: list[Job], number: int = 2) -> tuple[list[dict], list[str]]:
    said: list[str] = []
    return sweep.Sweep(jobs, number, said.append).run(), said


@pytest.mark.slow
def test_no_more_run_at_once_than_asked_for(tmp_path: Path) -> None:
    script = """
(here / "busy").touch()
(here / "seen").write_text(str(len(list(here.parent.glob("*/busy")))))
time.sleep(0.4)
(here / "busy").unlink()
"""
    rows, said = run([fake(tmp_path, seed, script) for seed in range(4)], number=2)
    seen = [int((Path(row["folder"]) / "seen").read_text()) for row in rows]
    assert max(seen) <= 2
    assert [row["seed"] for row in rows] == [0, 1, 2, 3]
    assert sum("started" in line for line in said) == 4


def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    bad = "print('gswm: the disk is full', file=sys.stderr)\nsys.exit(4)"
    lines = [{"step": 5, "minutes": 0.5}]
    lines += [{"step": s, "minutes": s / 10, "validation_error": 1 / s} for s in (6, 8)]
    text = "".join(json.dumps(line) + "\n" for line in [*lines, {"step": 9, "minutes": 1.5}])
    good = f"(here / 'metrics.jsonl').write_text({text!r})"
    rows, said = run([fake(tmp_path, 0, bad), fake(tmp_path, 1, good)], number=1)
    assert [row["state"] for row in rows] == ["failed", "stopped"]
    assert rows[0]["said"] == "the disk is full"
    assert "interaction-0 failed: the disk is full" in said
    assert (rows[1]["steps"], rows[1]["minutes"]) == (9, 1.5)
    assert (rows[1]["best_step"], rows[1]["error"]) == (8, 1 / 8)
    assert rows[0]["best_step"] is rows[0]["error"] is None


def test_a_run_that_a_signal_stopped_has_not_failed(tmp_path: Path) -> None:
    rows, said = run([fake(tmp_path, i, f"sys.exit({code})") for i, code in enumerate((130, 143))])
    assert [row["state"] for row in rows] == ["stopped"] * 2
    assert "interaction-1 stopped" in said


def test_a_finished_run_is_not_started_again(tmp_path: Path) -> None:
    jobs = [fake(tmp_path, seed, "") for seed in range(5)]
    other = replace(jobs[2].recipe, train=replace(jobs[2].recipe.train, lr=1.0))
    recipes = (*(job.recipe for job in jobs[:2]), other, *(job.recipe for job in jobs[3:]))
    # The last two began with weights that had been trained before.
    abouts = (
        *({"step": 40_000}, {"step": 7}, {"step": 40_000}),
        *({"step": s, "began": {"step": 40_000}} for s in (40_001, 80_000)),
    )
    for job, of, about in zip(jobs, recipes, abouts, strict=True):
        header = {"format": weights.FORMAT, "recipe": json.dumps(to_dict(of))}
        job.folder.mkdir()
        save_file(
            {"weight": torch.zeros(1)},
            job.folder / "last.safetensors",
            header | {"about": json.dumps(about)},
        )
    assert [job.is_finished() for job in jobs] == [True, False, False, False, True]
    rows, said = run(jobs[:1])
    assert rows[0]["state"] == "finished"
    assert said == ["1 of 1 runs are already finished"]


def interrupt(tmp_path: Path, running: int, times: int) -> None:
    """Send Ctrl-C to this process once so many runs are ready, and perhaps again."""
    for _ in range(times):
        while len(list(tmp_path.glob("*/ready"))) < running:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)


def test_ctrl_c_has_all_runs_save_and_starts_no_others(tmp_path: Path) -> None:
    script = """
signal.signal(signal.SIGTERM, lambda *_: ((here / "saved").touch(), sys.exit(143)))
(here / "ready").write_text(str(os.getsid(0)))
time.sleep(60)
"""
    jobs = [fake(tmp_path, seed, script) for seed in range(3)]
    thread = threading.Thread(target=interrupt, args=(tmp_path, 2, 1))
    thread.start()
    rows, said = run(jobs, number=2)
    thread.join()
    assert [(job.folder / "saved").exists() for job in jobs] == [True, True, False]
    assert not jobs[2].folder.exists()
    assert [row["state"] for row in rows] == ["stopped"] * 3
    assert sum("stopping" in line for line in said) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    sessions = {(job.folder / "ready").read_text() for job in jobs[:2]}
    assert len(sessions - {str(os.getsid(0))}) == 2  # a terminal's Ctrl-C does not reach them


def test_a_second_ctrl_c_ends_a_run_that_does_not(tmp_path: Path) -> None:
    script = """
signal.signal(signal.SIGTERM, lambda *_: None)
(here / "ready").touch()
time.sleep(60)
time.sleep(60)
"""
    thread = threading.Thread(target=interrupt, args=(tmp_path, 1, 2))
    thread.start()
    rows, _ = run([fake(tmp_path, 0, script)])
    thread.join()
    assert rows[0]["state"] == "stopped"


@pytest.fixture
def mps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A daemon's control that writes down what it is asked; it runs where `running` exists."""
    home = tmp_path / "bin"
    home.mkdir()
    program = home / sweep.MPS
    program.write_text(
        f"#!/bin/sh\ncd {shlex.quote(str(home))}\n"
        'if [ "$1" = -d ]; then echo start >> asked; : > running; exit 0; fi\n'
        'while read -r line; do echo "$line" >> asked; done\n[ -e running ]\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(home), prepend=os.pathsep)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return home


def asked(home: Path) -> list[str]:
    return (home / "asked").read_text().splitlines() if (home / "asked").exists() else []


def test_mps_is_started_for_several_runs_and_ended_after_them(mps: Path, tmp_path: Path) -> None:
    run([fake(tmp_path, 0, ""), fake(tmp_path, 1, "")])
    assert asked(mps) == ["get_server_list", "start", "quit"]


def test_mps_that_runs_already_is_left_alone(mps: Path, tmp_path: Path) -> None:
    (mps / "running").touch()
    _, said = run([fake(tmp_path, 0, ""), fake(tmp_path, 1, "")])
    assert asked(mps) == ["get_server_list"]
    assert "MPS is already running" in said


def test_one_run_needs_no_mps(mps: Path, tmp_path: Path) -> None:
    run([fake(tmp_path, 0, "")])
    assert asked(mps) == []


@pytest.mark.slow
def test_real_runs_go_on_where_they_were_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def again(*more: str) -> list[dict]:
        out = ["--seeds", "1", "--jobs", "2", "--out", str(tmp_path)]
        assert main(["sweep", "single-ball", *out, *TINY, *more]) == 0
        return json.loads((tmp_path / "sweep.json").read_text())

    stopped = again("--max-minutes", "0")
    assert [(row["state"], row["steps"]) for row in stopped] == [("stopped", 1)]
    finished = again()
    assert [(row["state"], row["steps"]) for row in finished] == [("finished", 3)]
    assert all(row["strict_error"] is not None for row in finished)
    assert "resuming from step 1" in (tmp_path / "single-ball-1.log").read_text()
    capsys.readouterr()
    assert again() == finished
    said = capsys.readouterr()
    assert "1 of 1 runs are already finished" in said.err
    assert f"{finished[0]['strict_error']:.4f}" in said.out


def test_printed_commands_are_those_that_would_run(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["maze", "single-ball", "--seeds", "3", "--out", "a b", "--print", "--train.lr", "0.1"]
    assert main(["sweep", *line]) == 0
    first, second = (shlex.split(text) for text in capsys.readouterr().out.splitlines())
    assert first[1:6] == ["-m", "gswm", "train", "maze", "--seed"]
    assert second[3:] == [
        *("train", "single-ball", "--seed", "3"),
        *("--out", "a b/single-ball-3", "--train.lr", "0.1"),
    ]
    jobs = SweepCommand.from_args(line).jobs
    assert [job.recipe.seed for job in jobs] == [3, 3]
    assert jobs[0].recipe.train.lr == 0.1


@pytest.mark.parametrize(
    ("text", "found"),
    [("0", [0]), ("0..4", [0, 1, 2, 3, 4]), ("5,0..1,1", [5, 0, 1]), ("3..3", [3])],
)
def test_seeds_are_ranges_and_lists(text: str, found: list[int]) -> None:
    assert seeds(text) == found


@pytest.mark.parametrize("text", ["", "a", "4..0", "1..", "-1", "1.5"])
def test_seeds_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"must look like 0\.\.4"):
        seeds(text)


def test_the_table_has_a_line_of_each_run_and_a_mean_of_each_recipe() -> None:
    common = {"steps": 9, "best_step": 8, "minutes": 1.0, "said": None}
    common |= {"strict_error": 0.5, "center_error": 0.5}
    rows = [
        {"recipe": "maze", "seed": seed, "state": "finished", "error": error, **common}
        for seed, error in ((0, 1.0), (1, 3.0))
    ]
    lost = {"state": "failed", "error": None, "said": "no room"}
    rows.append(rows[0] | lost | {"recipe": "occlusion"})
    console = Console(record=True, width=120)
    console.print(table(rows))
    text = console.export_text()
    assert "2.0000 ± 1.4142" in text
    assert "failed" in text
    assert text.count("maze") == 3
    assert text.count("occlusion") == 1


@pytest.mark.parametrize("width", [80, 120])
def test_scores_stay_readable(width: int) -> None:
    common = {"steps": 100_000, "best_step": 100_000, "minutes": 1234.5, "said": None}
    common |= {"recipe": "scalor-two-layer-dense", "state": "finished"}
    scores = {"error": 0.1234, "strict_error": 0.2345, "center_error": 0.3456}
    rows = [common | scores | {"seed": seed} for seed in range(2)]
    rows.append(rows[0] | {"seed": 2, "state": "failed", "said": "the disk is full " * 9})
    console = Console(record=True, width=width)
    console.print(table(rows))
    text = console.export_text()
    assert all(text.count(f"{score} ") >= 3 for score in scores.values())
    assert text.count("0.0000") == 3
    assert text.count("100,000") == 6
    assert text.count("1234.5") == 3
    assert "…" not in text


def test_why_a_run_failed_is_said_whole_below_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "the disk is full, " * 9 + "and that is all"
    script = f"print('gswm: {why}', file=sys.stderr)\nsys.exit(4)"
    monkeypatch.chdir(tmp_path)
    assert SweepCommand((fake(tmp_path, 0, script),)).run() == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == f"interaction-0 failed: {why}"
    assert why in err


def test_a_mean_is_of_two_or_more() -> None:
    assert spread([1.0, 3.0]) == "2.0000 ± 1.4142"
    assert spread([1.0]) == ""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--seeds", "0"], "specify the recipes first"),
        (["nothing"], "there is no recipe 'nothing'"),
        (["maze", "--jobs", "0"], "--jobs is 0"),
        (["maze", "--jobs", "many"], "--jobs"),
        (["maze", "--seeds=4..0"], "must look like 0..4"),
        (["--plain", "maze"], "specify the recipes first"),
        (["maze", "--resume=run"], "the same --out to resume"),
        (["maze", "--jobs"], "--jobs needs a value"),
        (["maze", "--seed", "1"], "use --seeds"),
        (["maze", "--launcher", "cloud"], "it must be one of local, slurm"),
        (["maze", "--slurm", "timeout_min=9"], "--slurm needs --launcher slurm"),
        (["maze", "--launcher", "slurm", "--slurm", "fast"], "--slurm is 'fast'"),
        (["maze", "--launcher", "slurm"], "sbatch not found"),
        (["maze", "--train.nothing", "1"], "--train.nothing"),
    ],
)
def test_a_mistake_is_one_line_before_anything_runs(
    args: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *args]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert len(message.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_cluster_runs_what_a_sweep_submits(tmp_path: Path) -> None:
    bad = "print('gswm: the disk is full', file=sys.stderr)\nsys.exit(4)"
    jobs = [fake(tmp_path, 0, bad), fake(tmp_path, 1, "(here / 'done').touch()")]
    launch = slurm.launcher(tmp_path / "slurm", {"timeout_min": "5"}, cluster="local")
    said: list[str] = []
    rows = sweep.Sweep(jobs, 2, said.append, launch).run()
    assert [(row["state"], row["said"]) for row in rows] == [
        ("failed", "the disk is full"),
        ("stopped", None),
    ]
    assert (jobs[1].folder / "done").exists()


def test_a_job_whose_time_is_up_saves_and_is_queued_again(tmp_path: Path) -> None:
    script = """
signal.signal(signal.SIGTERM, lambda *_: ((here / "saved").touch(), sys.exit(143)))
(here / "ready").touch()
time.sleep(60)
"""
    job = fake(tmp_path, 0, script)
    command = slurm.LoggedCommand(list(job.command), job.log)
    thread = threading.Thread(target=command)
    thread.start()
    while not (job.folder / "ready").exists():
        time.sleep(0.02)
    again = command.checkpoint()
    thread.join()
    assert (job.folder / "saved").exists()
    assert again.function == slurm.LoggedCommand(list(job.command), job.log)


@pytest.mark.slow
def test_ctrl_c_cancels_what_is_queued(tmp_path: Path) -> None:
    class Queued:
        """A job that the cluster ends when it is cancelled."""

        cancelled = False

        def done(self) -> bool:
            (tmp_path / "queued").mkdir(exist_ok=True)
            (tmp_path / "queued" / "ready").touch()
            return self.cancelled

        def cancel(self, check: bool) -> None:
            self.cancelled = True

        def exception(self) -> Exception:
            return RuntimeError("cancelled")

    queued = Queued()
    thread = threading.Thread(target=interrupt, args=(tmp_path, 1, 1))
    thread.start()
    job = fake(tmp_path, 0, "")
    rows = sweep.Sweep([job], 1, print, lambda _: slurm.Submitted(queued)).run()
    thread.join()
    assert queued.cancelled
    assert rows[0]["state"] == "stopped"


def test_what_a_job_cannot_ask_for_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--slurm") as caught:
        slurm.launcher(tmp_path / "slurm", {"speed": "9"}, cluster="local")
    assert len(str(caught.value).splitlines()) == 1

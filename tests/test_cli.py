"""The command line: help for every command, and one-line errors."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import gswm
from gswm.cli import COMMANDS, find, main, parse
from gswm.commands import sweep
from gswm.commands.parsing import metavars, one_line
from gswm.commands.sweep import SweepArguments
from gswm.commands.track import TrackCommand
from gswm.commands.train import TrainStart

BALL = Path(__file__).parents[1] / "weights" / "single-ball.safetensors"


def test_help_lists_every_command_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, command in COMMANDS.items():
        assert [line for line in lines if line.split("  ")[1:2] == [name]], name
        assert command.line.endswith(".")
        assert len(command.line) < 80


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*name.split(), "--help"])
    assert not stop.value.code
    assert COMMANDS[name].line.rstrip(".") in capsys.readouterr().out


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("args", [*(name.split() for name in COMMANDS), ["train", "maze"]])
def test_help_states_each_default_once_and_fits_the_terminal(
    args: list[str],
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit):
        main([*args, "--help"])
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines()[1:])) <= columns  # tyro does not wrap the usage
    for hidden in ("{None", "(default: None)", "(default: )", "(default: False)", str(Path.cwd())):
        assert hidden not in said
    entries = re.split(r"\n(?=[│ ]+--?[a-z])", re.sub("[│╭╮╰╯]", " ", said))
    assert not [entry for entry in entries if "Default:" in entry and "(default:" in entry]


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_in_the_help_can_be_typed(name: str) -> None:
    start = {"train": TrainStart, "sweep": SweepArguments}
    for example in getattr(start.get(name) or COMMANDS[name].load(), "EXAMPLES", ()):
        words = shlex.split(example)
        assert words[0] == "gswm"
        found, rest = find(words[1:])
        assert found == name
        if "--resume" not in rest:
            parse(name, rest)


@pytest.mark.parametrize(
    "args", [["nonsense"], ["data", "nonsense"], ["data", "make", "--no-such"]]
)
def test_a_mistake_is_one_line_and_exit_2(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("gswm: ")


@pytest.mark.parametrize(
    ("args", "lack"),
    [
        (["track"], "VIDEO|WORLD is missing; `gswm track --help` lists all options"),
        (["fit", "--minutes", "3"], "VIDEO is missing; `gswm fit --help` lists all options"),
        (["data", "show"], "FILE|WORLD and --out are missing; `gswm data show --help` lists"),
    ],
)
def test_a_missing_argument_has_the_name_of_the_help(
    args: list[str], lack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    assert capsys.readouterr().err.startswith(f"gswm: {lack}")


def test_a_positional_argument_without_a_value_has_the_name_of_the_help() -> None:
    box = "Missing value for argument '{}'. Expected 1 values."
    known = metavars(TrackCommand)
    assert one_line(box.format("source"), known) == "VIDEO|WORLD needs a value"
    assert one_line(box.format("--fps"), known) == "--fps needs a value"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["imagine", "maze", "--futures", "zero"], "--futures must be a whole number, not 'zero'"),
        (["imagine", "maze", "--futures", "1.5"], "--futures must be a whole number, not '1.5'"),
        (["train", "maze", "--train.lr", "abc"], "--train.lr must be a number, not 'abc'"),
        (["studio", "--port", "abc"], "--port must be a whole number, not 'abc'"),
        (["track", "a.mp4", "--frames", "many"], "--frames must be a whole number, not 'many'"),
        (["track", "a.mp4", "--video-fps", "x"], "--video-fps must be a number, not 'x'"),
        (
            ["bench", "train", "--objects", "x"],
            "--objects must be whole numbers, not 'x'",
        ),
    ],
)
def test_text_in_place_of_a_number_is_told_without_python(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"gswm: {said}; `gswm ")
    assert line.endswith("--help` lists all options")


@pytest.mark.parametrize("numbers", ["0 0 768 400", "0, 0, 768, 400"])
@pytest.mark.parametrize("command", ["track", "fit", "data look", "data import"])
def test_a_region_in_several_arguments_is_told_its_form(
    command: str, numbers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "a.mp4", "--region", *numbers.split(), "--force"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--region x,y,width,height" in line
    assert line.endswith("use --region 0,0,768,400")


def test_another_mistake_beside_a_region_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["track", "a.mp4", "--region", "0,0,768,400", "--no-such"]) == 2
    assert "--no-such" in capsys.readouterr().err


@pytest.mark.parametrize("args", [["eval", "maze"], ["data", "make", "maze"]])
def test_a_wrong_choice_is_told_what_there_is(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*args, "--split", "all"]) == 2
    command = " ".join(args[:-1])
    assert capsys.readouterr().err == (
        "gswm: invalid choice 'all' for argument '--split'; it must be one of test, train, val; "
        f"`gswm {command} --help` lists all options\n"
    )


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (["trian", "two-layer"], "did you mean `gswm train`?"),
        (["data", "mkae", "maze"], "did you mean `gswm data make`?"),
        (["dmeo"], "did you mean `gswm demo`?"),
        (["weights", "ftch"], "did you mean `gswm weights fetch`?"),
        (["fetch", "obj3d"], "did you mean `gswm weights fetch`?"),
        (["lok", "film.mp4"], "did you mean `gswm data look`?"),
    ],
)
def test_a_misspelt_command_is_told_the_right_one(
    args: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    assert meant in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "meant", "command"),
    [
        (["eval", "maze", "--epsiodes", "3"], "--episodes", "gswm eval"),
        (["train", "maze", "--train.stepz", "3"], "--train.steps", "gswm train maze"),
        (["train", "maze", "--train.stepz=3"], "--train.steps", "gswm train maze"),
        (["train", "--resme", "runs/maze-0"], "--resume", "gswm train"),
    ],
)
def test_a_misspelt_option_is_told_the_right_one_and_which_help_lists_it(
    args: list[str], meant: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    line = capsys.readouterr().err
    assert f": did you mean {meant}? `{command} --help` lists" in line
    assert len(line.splitlines()) == 1
    with pytest.raises(SystemExit):
        main([*command.split()[1:], "--help"])
    assert f"{meant} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--seds", "0..4"], "--seeds"),
        (["--sed", "3"], "--seeds"),
        (["--lancher", "slurm"], "--launcher"),
        (["--train.stepz", "3"], "--train.steps"),
    ],
)
def test_a_misspelt_option_of_a_sweep_is_told_those_of_the_sweep_and_of_the_recipe(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "maze", *words]) == 2
    line = capsys.readouterr().err
    assert f"{words[0]}: did you mean {meant}? `gswm sweep --help` and `gswm train maze" in line


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("imagine {}", "is a video: `gswm imagine clips --video {}`"),
        ("eval {}", "is a video: `gswm eval clips {}`"),
        ("eval {} {}", "is a video: `gswm eval clips {}`"),
        ("studio {}", "is a video: `gswm studio --video {}`"),
        ("imagine clips {}", "use `--video {}`"),
        ("studio clips {}", "use `--video {}`"),
        ("track {} {}", "`gswm track` takes one video"),
        ("data look {} {}", "`gswm data look` takes one video"),
        ("imagine clips --step 3 {}", "did you mean --steps"),
    ],
)
def test_a_video_in_the_wrong_place_is_told_its_place(
    words: str, remedy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    video = tmp_path / ("a-long-name" * 8 + ".MP4")
    video.touch()
    assert main([word.format(video) for word in words.split()]) == 2
    line = capsys.readouterr().err
    assert remedy.format(video) in line
    assert len(line.splitlines()) == 1


def test_the_options_of_a_sweep_are_in_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sweep", "--help"])
    listed = re.findall(r"^[^\w-]*(--[a-z]+)", capsys.readouterr().out, re.M)
    assert set(sweep.OWN) == set(listed)


def test_several_misspelt_options_are_told_together_without_their_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["train", "maze", "--train.stpes", "5", "--sed", "3"]) == 2
    line = capsys.readouterr().err
    assert "--train.stpes, --sed: did you mean --train.steps and --seed?" in line


@pytest.mark.parametrize("args", [[], ["data"]])
def test_help_is_also_a_word(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", *args]) == 0
    assert "data make" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main(["help", "track"])
    assert not stop.value.code
    assert "gswm track" in capsys.readouterr().out


@pytest.mark.parametrize("where", [["--out", "/dev/null"], ["--markdown", "/dev/null/x.md"]])
def test_a_bad_place_for_a_report_is_refused_before_the_work(
    where: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gswm.report import results

    monkeypatch.setattr(results, "read", lambda _: pytest.fail("it began to read"))
    assert main(["report", "any.json", *where]) == 2
    said = capsys.readouterr().err
    assert said.startswith("gswm: cannot write")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("args", "work"),
    [
        (["bench", "data", "--json"], "gswm.bench.data.bench_data"),
        (["bench", "train", "--json"], "gswm.bench.train.bench_train"),
        (["bench", "imagine", "--json"], "gswm.bench.imagine.bench_imagine"),
        (["bench", "track", "--json"], "gswm.bench.track.bench_track"),
        (["bench", "studio", "--json"], "gswm.bench.studio.bench_studio"),
        (["export", str(BALL), "--out"], "gswm.weights.files.load"),
        (
            ["data", "compare", "--scenes", "x.h5", "--out"],
            "gswm.data.worlds.obj3d.world.Obj3D.of_files",
        ),
    ],
)
def test_a_bad_place_is_refused_before_the_work(
    args: list[str],
    work: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(work, lambda *_, **__: pytest.fail("it began to work"))
    for place in ("/dev/null/figures.png", "figures.txt"):
        assert main([*args, place]) == 2
        said = capsys.readouterr().err
        assert said.startswith("gswm: cannot write")
        assert len(said.splitlines()) == 1


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gswm {gswm.__version__}\n"


def test_python_m_gswm_is_the_command() -> None:
    run = subprocess.run([sys.executable, "-m", "gswm", "--help"], capture_output=True, text=True)
    assert run.returncode == 0
    assert "data make" in run.stdout


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys, gswm.cli; gswm.cli.main(['--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0

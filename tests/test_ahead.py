"""A training goes on while another process compiles its steps, and then takes the compiled ones."""

import io
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from training import small

from gswm.core.settings import to_dict
from gswm.fast import ahead
from gswm.fast.ahead import Ahead, compile_step, rehearsal
from gswm.fast.deferred import Deferred
from gswm.models.registry import Recipe, build, recipe
from gswm.train.distributed import Processes
from gswm.train.folder import RunFolder, environment
from gswm.train.launch import training_loader
from gswm.train.loop import LoopConfig, Run
from gswm.train.step import Trainee, last_through_frames

pytestmark = pytest.mark.usefixtures("small_trunk")
CPU = torch.device("cpu")
READ = "import json, sys; asked = json.load(sys.stdin); "


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Callable[..., Any]]:
    """What torch was asked to compile, and has left as it is."""
    asked: list[Callable[..., Any]] = []

    def compile(method: Callable[..., Any], dynamic: bool) -> Callable[..., Any]:
        assert dynamic is False
        asked.append(method)
        return method

    monkeypatch.setattr(torch, "compile", compile)
    return asked


def start(code: str, tell: Callable[[str], None] = print) -> Ahead:
    """Another process, which does something else."""
    recipe = small()
    return Ahead(recipe, CPU, Deferred(build(recipe)), tell, (sys.executable, "-c", READ + code))


def ended(other: Ahead) -> Ahead:
    """After its process has."""
    assert other.process is not None
    other.process.wait(timeout=60)
    return other


def test_there_is_nothing_better_until_the_process_has_ended(compiled: list) -> None:
    said: list[str] = []
    other = start("import time; time.sleep(60)", said.append)
    assert other() is None
    assert not said
    assert not compiled
    process, begin = other.process, time.monotonic()
    with other:
        pass
    assert process is not None
    assert process.poll() is not None
    assert time.monotonic() - begin < 30


def test_then_every_method_is_compiled(compiled: list) -> None:
    said: list[str] = []
    other = ended(start("", said.append))
    assert other() is other.backward
    model = other.backward.model
    assert len(compiled) == 2 * len(model.recurrent()) + len(model.batched())
    (line,) = said
    assert line.startswith("compiled")


def test_it_is_told_the_recipe_and_the_device() -> None:
    said: list[str] = []
    code = "sys.exit(f\"{asked['recipe']['train']['batch']} on {asked['device']}\")"
    assert ended(start(code, said.append))() is None
    assert said[0].endswith(f": {small().train.batch} on cpu")


@pytest.mark.parametrize(
    ("code", "why"),
    [("raise ValueError('no compiler here')", "no compiler here"), ("sys.exit(7)", "exit code 7")],
)
def test_a_compiler_that_fails_leaves_steps_as_they_are(
    compiled: list, code: str, why: str
) -> None:
    said: list[str] = []
    other = ended(start(code, said.append))
    assert [other(), other()] == [None, None]
    assert other.failed
    assert not compiled
    (line,) = said
    assert "steps stay as they are" in line
    assert why in line


def test_one_that_says_much_does_not_wait_to_be_heard() -> None:
    said: list[str] = []
    much = "sys.stderr.buffer.write(b'\\xff warning' * 100_000 + b'\\n'); print('not this'); "
    other = start(much + "sys.exit('and ends')", said.append)
    assert ended(other)() is None
    assert said[0].endswith(": and ends")


def test_what_is_better_is_taken_at_the_last_stage_and_not_before() -> None:
    recipe = small(6)
    schedule = replace(recipe.model.schedule, lengths=((0, 2), (3, 3)))
    recipe = replace(recipe, model=replace(recipe.model, schedule=schedule))
    used: list[tuple[str, int]] = []
    torch.manual_seed(0)
    model: Any = build(recipe)
    deferred = Deferred(model)

    def named(name: str) -> Callable[..., Any]:
        def backward(loss: Callable[..., Any]) -> Any:
            used.append((name, trainee.step))
            return deferred(loss)

        return backward

    trainee = Trainee(
        model,
        training_loader(recipe, CPU, Processes()),
        recipe.train,
        seed=0,
        device=CPU,
        processes=Processes(),
        backward=named("first"),
        capture=False,
    )
    trainee.better = lambda: named("better") if trainee.step >= 4 else None
    for _ in range(6):
        trainee.advance()
    assert used == [*(("first", step) for step in range(4)), ("better", 4), ("better", 5)]
    assert trainee.better is None


def test_what_is_compiled_is_a_step_of_the_last_stage(
    compiled: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small(5)
    schedule = replace(recipe.model.schedule, lengths=((0, 1), (2, 3)))
    recipe = replace(recipe, model=replace(recipe.model, schedule=schedule))
    taken: list[tuple[int, int]] = []
    real = Trainee.take

    def take(trainee: Trainee) -> None:
        taken.append((trainee.stage.length, int(trainee.clock)))
        real(trainee)

    monkeypatch.setattr(Trainee, "take", take)
    compile_step(recipe, CPU)
    assert taken == [(3, 4)]
    assert compiled


def test_what_cannot_be_compiled_is_said_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no compiler here\n\nSet SOMETHING=1 for the internal stack trace")

    asked = {"recipe": to_dict(small()), "device": "cpu"}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(asked)))
    monkeypatch.setattr(ahead, "compile_step", fail)
    monkeypatch.setattr(ahead, "end_with", lambda parent: None)
    monkeypatch.setattr("os.nice", lambda more: 0)
    with pytest.raises(SystemExit) as ended:
        ahead.main()
    assert ended.value.code == "RuntimeError: no compiler here"


def test_the_process_ends_when_there_is_nobody_to_compile_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parents, codes = iter([7, 7, 1]), []
    monkeypatch.setattr("os.getppid", lambda: next(parents))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr("os._exit", codes.append)
    ahead.end_with(7)
    assert codes == [1]


def run_of(folder: Path, recipe: Recipe, **settings: Any) -> Run:
    """A run as on a GPU, where gradients are deferred."""
    loader = training_loader(recipe, CPU, Processes())
    cfg = LoopConfig(**settings)
    where = RunFolder(folder / "run")
    run = Run(where, recipe, loader, None, cfg, device=CPU, processes=Processes())
    run.deferred = Deferred(run.trainee.model)
    return run


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Recipe, Ahead]]:
    """Which processes were started, and for what; they only sleep."""
    all_of_them: list[tuple[Recipe, Ahead]] = []

    class Sleeping(Ahead):
        def __init__(self, recipe: Recipe, *args: Any) -> None:
            sleeping = (sys.executable, "-c", "import time; time.sleep(600)")
            super().__init__(recipe, *args, command=sleeping)
            all_of_them.append((recipe, self))

    monkeypatch.setattr("gswm.train.loop.Ahead", Sleeping)
    return all_of_them


def test_a_run_ends_the_compiler_when_it_ends(tmp_path: Path, begun: list) -> None:
    recipe = small(2)
    run = run_of(tmp_path, recipe)
    run.folder.begin(recipe, environment(CPU, 1, run.cfg))
    run.run()
    ((of_what, one),) = begun
    assert of_what == recipe
    assert run.trainee.better is one
    assert one.process is not None
    assert one.process.poll() is not None
    run.folder.close()


def test_each_of_several_processes_compiles_its_share(tmp_path: Path, begun: list) -> None:
    recipe = small(2)
    run = run_of(tmp_path, recipe)
    run.processes = Processes(rank=1, ranks=2)
    with run.compiling():
        pass
    ((of_what, _),) = begun
    assert 2 * of_what.train.batch == recipe.train.batch
    assert replace(of_what, train=recipe.train) == recipe


def test_nothing_is_compiled_if_that_is_not_wanted(tmp_path: Path, begun: list) -> None:
    run = run_of(tmp_path, small(2), compiled=False)
    with run.compiling():
        assert run.trainee.better is None
    run = run_of(tmp_path, small(2))
    run.deferred = None  # as on a CPU, or on the plain path
    with run.compiling():
        assert run.trainee.better is None
    assert not begun


def test_a_stage_before_shorter_videos_is_compiled_for_too(compiled: list) -> None:
    recipe = small(5)
    schedule = replace(recipe.model.schedule, lengths=((0, 3), (2, 1)))
    compile_step(replace(recipe, model=replace(recipe.model, schedule=schedule)), CPU)
    assert compiled


def test_when_it_is_too_late_the_other_process_ends() -> None:
    chosen = recipe("scalor-single-ball")
    schedule = replace(chosen.model.schedule, lengths=((0, 2),), prior_only=1)
    chosen = replace(chosen, model=replace(chosen.model, schedule=schedule))
    model: Any = build(chosen)
    trainee = rehearsal(model, chosen, CPU, Deferred(model), capture=False)
    other = trainee.better = start("import time; time.sleep(60)")
    process = other.process
    trainee.advance()
    assert process is not None
    assert process.poll() is None
    trainee.advance()
    assert process.poll() is not None
    assert trainee.better is None


def test_a_gpu_needs_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is then the one in use; torch refuses to be told so."""

    def reached(recipe: Recipe) -> None:
        raise InterruptedError

    monkeypatch.setattr(ahead, "build", reached)
    with pytest.raises(InterruptedError):
        compile_step(small(), torch.device("cuda"))


def test_a_last_stage_without_gradients_through_frames_is_not_compiled_for() -> None:
    chosen = recipe("scalor-interaction")
    schedule = replace(chosen.model.schedule, lengths=((0, 2),), prior_only=3)
    model: Any = build(replace(chosen, model=replace(chosen.model, schedule=schedule)))
    assert [last_through_frames(model, steps) for steps in (2, 3, 9)] == [1, 2, 2]
    alone = replace(chosen.model, schedule=replace(schedule, prior_only=0))
    assert last_through_frames(build(replace(chosen, model=alone)), 9) == -1

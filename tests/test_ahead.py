"""A training continues while another process compiles its steps, then uses the compiled ones."""

import io
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from training import small

from gswm.core.settings import to_dict
from gswm.fast import rehearsal as rehearsing
from gswm.fast.ahead import Ahead
from gswm.fast.rehearsal import compile_step, rehearsal
from gswm.fast.trainee import FastTrainee, last_through_frames
from gswm.models.recipe import Recipe
from gswm.models.registry import build, recipe
from gswm.train.distributed import Processes
from gswm.train.launch import training_loader
from gswm.train.step import Trainee

pytestmark = pytest.mark.usefixtures("small_trunk")
CPU = torch.device("cpu")
READ = "import json, sys; asked = json.load(sys.stdin); "


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Callable[..., Any]]:
    """Record the functions passed to `torch.compile`, which returns them unchanged."""
    asked: list[Callable[..., Any]] = []

    def compile(method: Callable[..., Any], dynamic: bool) -> Callable[..., Any]:
        assert dynamic is False
        asked.append(method)
        return method

    monkeypatch.setattr(torch, "compile", compile)
    return asked


def start(code: str, tell: Callable[[str], None] = print) -> Ahead:
    """Another process, which does something else."""
    return Ahead(small(), CPU, tell, (sys.executable, "-c", READ + code))


def ended(other: Ahead) -> Ahead:
    """After its process has."""
    other.process.wait(timeout=60)
    return other


def test_it_has_not_ended_while_the_process_runs() -> None:
    said: list[str] = []
    other = start("import time; time.sleep(60)", said.append)
    assert not other.ended()
    assert not said
    begin = time.monotonic()
    with other:
        pass
    assert other.process.poll() is not None
    assert time.monotonic() - begin < 30


def test_its_end_is_reported() -> None:
    said: list[str] = []
    other = ended(start("", said.append))
    assert other.ended()
    assert not other.failed
    (line,) = said
    assert line.startswith("compiled")


def test_kernels_are_there_once_the_process_says_so_or_ends() -> None:
    with start("import time; print('now', flush=True); time.sleep(60)") as other:
        begin = time.monotonic()
        while not other.has_kernels():
            assert time.monotonic() - begin < 30
        assert other.process.poll() is None
    with start("import time; time.sleep(60)") as other:
        assert not other.has_kernels()
    with ended(start("")) as other:
        assert other.has_kernels()


def test_steps_are_plain_until_kernels_are_compiled(
    compiled: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU; kernels are only counted."""
    chosen, used = small(6), []
    schedule = replace(chosen.model.schedule, lengths=((0, 2),))
    trainee = fast(replace(chosen, model=replace(chosen.model, schedule=schedule)))
    monkeypatch.setattr("gswm.fast.deferred.replace_operations", lambda *_: used.append(1) or [])
    trainee.on_gpu = True
    with start("import time; time.sleep(60)") as other:
        trainee.ahead = other
        trainee.advance()
        assert not used
        other.ready.write(b"now")
        other.ready.flush()
        trainee.advance()
        trainee.advance()
        assert used == [1]
        assert trainee.ahead is other
    trainee.ahead = ended(start(""))
    trainee.advance()
    assert used == [1]
    assert trainee.ahead is None
    assert compiled


def test_where_nothing_is_compiled_ahead_kernels_are_used_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainee, used = fast(small(2)), []
    monkeypatch.setattr("gswm.fast.deferred.replace_operations", lambda *_: used.append(1) or [])
    trainee.on_gpu, trainee.compiled = True, False
    with trainee.running(print):
        trainee.advance()
    assert used == [1]


def fast(chosen: Recipe) -> FastTrainee:
    """A trainee as on a GPU, where gradients are deferred."""
    torch.manual_seed(0)
    how = {"seed": 0, "device": CPU, "processes": Processes(), "compiled": True}
    loader = training_loader(chosen, CPU, Processes())
    return FastTrainee(build(chosen), loader, chosen.train, **how)


def test_it_is_told_the_recipe_and_the_device() -> None:
    said: list[str] = []
    code = "sys.exit(f\"{asked['recipe']['train']['batch']} on {asked['device']}\")"
    assert ended(start(code, said.append)).ended()
    assert said[0].endswith(f": {small().train.batch} on cpu")


@pytest.mark.parametrize(
    ("code", "why"),
    [("raise ValueError('no compiler here')", "no compiler here"), ("sys.exit(7)", "exit code 7")],
)
def test_a_compiler_that_fails_says_why(code: str, why: str) -> None:
    said: list[str] = []
    other = ended(start(code, said.append))
    assert other.ended()
    assert other.failed
    (line,) = said
    assert "the compiler failed" in line
    assert why in line


def test_one_that_says_much_does_not_wait_to_be_heard() -> None:
    said: list[str] = []
    much = "sys.stderr.buffer.write(b'\\xff warning' * 100_000 + b'\\n'); print('not this'); "
    other = start(much + "sys.exit('and ends')", said.append)
    assert ended(other).ended()
    assert said[0].endswith(": and ends")


@pytest.mark.parametrize("fails", [False, True])
def test_compiled_steps_are_taken_from_the_last_stage_on_and_not_before(
    compiled: list, fails: bool
) -> None:
    chosen = small(6)
    schedule = replace(chosen.model.schedule, lengths=((0, 2), (3, 3)))
    trainee = fast(replace(chosen, model=replace(chosen.model, schedule=schedule)))
    trainee.ahead = ended(start("sys.exit(1)" if fails else ""))
    model, since = trainee.model, []
    for _ in range(6):
        trainee.advance()
        since.append(trainee.ahead is None)
        assert bool(compiled) == (trainee.step > 3 and not fails)
    assert since == [False, False, False, True, True, True]
    if not fails:
        assert len(compiled) == 2 * len(model.recurrent()) + len(model.batched())


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
    monkeypatch.setattr(rehearsing, "compile_step", fail)
    monkeypatch.setattr(rehearsing, "end_with", lambda parent: None)
    monkeypatch.setattr("os.nice", lambda more: 0)
    with pytest.raises(SystemExit) as ended:
        rehearsing.main()
    assert ended.value.code == "RuntimeError: no compiler here"


def test_the_process_ends_when_there_is_nobody_to_compile_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parents, codes = iter([7, 7, 1]), []
    monkeypatch.setattr("os.getppid", lambda: next(parents))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr("os._exit", codes.append)
    rehearsing.end_with(7)
    assert codes == [1]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Recipe, Ahead]]:
    """Record the processes that were started, with their input; they only sleep."""
    all_of_them: list[tuple[Recipe, Ahead]] = []

    class Sleeping(Ahead):
        def __init__(self, recipe: Recipe, *args: Any) -> None:
            sleeping = (sys.executable, "-c", "import time; time.sleep(600)")
            super().__init__(recipe, *args, command=sleeping)
            all_of_them.append((recipe, self))

    monkeypatch.setattr("gswm.fast.trainee.Ahead", Sleeping)
    return all_of_them


def test_the_compiler_ends_with_the_run(begun: list) -> None:
    chosen = small(2)
    trainee = fast(chosen)
    with trainee.running(print):
        ((of_what, one),) = begun
        assert of_what == chosen
        assert trainee.ahead is one
        assert one.process.poll() is None
    assert one.process.poll() is not None
    assert trainee.ahead is None


def test_each_of_several_processes_compiles_its_share(begun: list) -> None:
    chosen = small(2)
    trainee = fast(chosen)
    trainee.processes = Processes(rank=1, ranks=2)
    with trainee.running(print):
        pass
    ((of_what, _),) = begun
    assert 2 * of_what.train.batch == chosen.train.batch
    assert replace(of_what, train=chosen.train) == chosen


def test_nothing_is_compiled_if_that_is_not_wanted_or_too_late(begun: list) -> None:
    unwanted, late = fast(small(2)), fast(small(2))
    unwanted.compiled, late.step = False, 2
    for trainee in (unwanted, late):
        with trainee.running(print):
            assert trainee.ahead is None
    assert not begun


def test_a_stage_before_shorter_videos_is_compiled_for_too(compiled: list) -> None:
    recipe = small(5)
    schedule = replace(recipe.model.schedule, lengths=((0, 3), (2, 1)))
    compile_step(replace(recipe, model=replace(recipe.model, schedule=schedule)), CPU)
    assert compiled


@pytest.mark.slow
def test_when_it_is_too_late_the_other_process_ends() -> None:
    chosen = recipe("scalor-single-ball")
    schedule = replace(chosen.model.schedule, lengths=((0, 2),), prior_only=1)
    chosen = replace(chosen, model=replace(chosen.model, schedule=schedule))
    trainee = rehearsal(build(chosen), chosen, CPU, FastTrainee)
    assert isinstance(trainee, FastTrainee)
    other = trainee.ahead = start("import time; time.sleep(60)")
    trainee.advance()
    assert other.process.poll() is None
    trainee.advance()
    assert other.process.poll() is not None
    assert trainee.ahead is None


def test_a_gpu_needs_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is then the one in use; torch refuses to be told so."""

    def reached(recipe: Recipe) -> None:
        raise InterruptedError

    monkeypatch.setattr(rehearsing, "build", reached)
    with pytest.raises(InterruptedError):
        compile_step(small(), torch.device("cuda"))


def test_a_last_stage_without_gradients_through_frames_is_not_compiled_for() -> None:
    chosen = recipe("scalor-interaction")
    schedule = replace(chosen.model.schedule, lengths=((0, 2),), prior_only=3)
    model: Any = build(replace(chosen, model=replace(chosen.model, schedule=schedule)))
    assert [last_through_frames(model, steps) for steps in (2, 3, 9)] == [1, 2, 2]
    alone = replace(chosen.model, schedule=replace(schedule, prior_only=0))
    assert last_through_frames(build(replace(chosen, model=alone)), 9) == -1

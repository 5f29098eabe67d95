"""Models by name: the package's own, and those of other packages."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from studio import Page
from training import small, train_here

import gswm
from gswm.cli import main
from gswm.core.errors import UserError
from gswm.core.plugins import Once
from gswm.core.records import tensors
from gswm.core.settings import from_dict, to_dict
from gswm.data.episode import Episodes
from gswm.data.worlds.base import World
from gswm.data.worlds.registry import WORLDS, world
from gswm.models.registry import REGISTRY, Registry, config_class
from gswm.studio.catalog import Catalog
from gswm.weights.files import fill, read_header

THEIRS = Path(__file__).parent / "third_party"
SETTINGS = ["--data.episodes", "8", "--train.validation-episodes", "2", "--device", "cpu"]


@contextmanager
def registered() -> Iterator[Any]:
    """The module of somebody else's model, registered by the public API."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(THEIRS))
        import blob_model

    before = dict(REGISTRY.entries), dict(REGISTRY.recipes)
    gswm.register(blob_model.MODEL)
    yield blob_model
    REGISTRY.entries, REGISTRY.recipes = before


@pytest.fixture
def blob() -> Iterator[Any]:
    with registered() as module:
        yield module


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training of it."""
    out = tmp_path_factory.mktemp("blob") / "run"
    with registered():
        assert main(["train", "blob", "--out", str(out), *SETTINGS]) == 0
    return out


@pytest.fixture
def run(trained: Path, blob: Any, tmp_path: Path) -> Path:
    """A copy of the training, to be changed."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_a_model_of_somebody_else_learns_what_it_can(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    trained, untrained = gswm.load(run), gswm.build("blob")
    video = next(gswm.world("single-ball").episodes(0, 4)).video

    def error(model: gswm.WorldModel) -> float:
        return float((model.infer(video).reconstruction.detach() - video / 255).square().mean())

    assert losses
    assert error(trained) < 0.8 * error(untrained)
    assert any("validation_error" in line for line in lines)


def test_it_is_evaluated(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "scores.json"
    some = ["--episodes", "4", "--device", "cpu", "--json", str(file)]
    assert main(["eval", str(run), *some]) == 0
    scores = json.loads(file.read_text())["scores"]
    assert scores["true_objects"] == scores["objects"] == 1


def test_it_is_saved_loaded_exported_and_resumed(run: Path, blob: Any, tmp_path: Path) -> None:
    model = gswm.load(run)
    assert isinstance(model, blob.Blob)
    gswm.save(tmp_path / "again.safetensors", model)
    again = gswm.load(tmp_path / "again.safetensors")
    assert torch.equal(again.color, model.color)
    assert again.recipe == model.recipe
    assert json.loads((run / "recipe.json").read_text())["model"]["kind"] == "blob"
    out = tmp_path / "released.safetensors"
    assert main(["export", str(run), "--out", str(out)]) == 0
    assert isinstance(gswm.load(out), blob.Blob)
    assert main(["train", "--resume", str(run), "--device", "cpu"]) == 0


def test_it_imagines_with_actions_refused_and_edits_refused(run: Path) -> None:
    model = gswm.load(run)
    video = torch.zeros(2, 5, 3, 64, 64)
    track = model.imagine(video, 5, 4, futures=3)
    assert track.xy.shape == (2, 3, 4, 1, 2)
    with pytest.raises(UserError, match="does not use actions"):
        model.imagine(video, 5, 4, actions=torch.zeros(2, 9, 1))
    with pytest.raises(UserError, match="cannot be edited"):
        model.view(track.state_at(0), video[:, 0])


def test_it_is_shown_in_the_studio_where_it_cannot_be_edited(blob: Any) -> None:
    shelf = Catalog()
    video = next(gswm.world("single-ball").episodes(0, 1)).video
    shelf.add_model("small", gswm.build("blob"), "noise", 4)
    shelf.add_source("noise", lambda index: Episodes(video))
    page = Page(shelf).open(settings={"steps": 5})
    ((opened, _),) = page.of("opened")
    assert opened["edits"] is False
    assert page.futures(0).shape[:3] == (2, 5, 1)
    page.edit({"kind": "move", "id": 0, "xy": [0.5, 0.5]})
    ((head, _),) = page.of("error")
    assert "cannot be edited" in head["line"]


def test_a_model_that_does_not_draw_is_not_shown(
    blob: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    track = blob.Blob.as_track
    monkeypatch.setattr(blob.Blob, "as_track", lambda self, states, _: track(self, states, False))
    shelf = Catalog()
    shelf.add_model("small", gswm.build("blob"), "noise", 4)
    shelf.add_source("noise", lambda index: Episodes(torch.zeros(1, 9, 3, 64, 64).byte()))
    ((head, _),) = Page(shelf).open().of("error")
    assert "does not render frames" in head["line"]


def test_its_weights_need_it(run: Path) -> None:
    del REGISTRY.entries["blob"]
    with pytest.raises(UserError, match="there is no model 'blob'"):
        gswm.load(run)


def install(folder: Path, value: str) -> dict[str, str]:
    """An installed package with an entry point; the environment in which Python finds it."""
    about = folder / "blob_model-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: blob-model\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[gswm.models]\nblob = {value}\n")
    source = Path(gswm.__file__).parents[1]
    return os.environ | {"PYTHONPATH": f"{folder}:{THEIRS}:{source}", "OMP_NUM_THREADS": "1"}


def gswm_of(environment: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gswm", *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


TRAINED_AND_SCORED = """
import sys
from gswm.cli import main
out, *settings = sys.argv[1:]
assert main(["train", "blob", "--out", out, "--train.steps", "2", *settings]) == 0
assert main(["eval", out, "--episodes", "2", "--device", "cpu"]) == 0
"""


@pytest.mark.slow
def test_an_installed_model_is_found_by_its_entry_point(tmp_path: Path) -> None:
    environment = install(tmp_path, "blob_model:MODEL")
    command = [sys.executable, "-c", TRAINED_AND_SCORED, str(tmp_path / "run"), *SETTINGS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "why"),
    [("no_such_module:MODEL", "no_such_module"), ("blob_model:Blob", "ModelEntry")],
)
def test_a_broken_plug_in_is_left_out_with_a_warning(tmp_path: Path, value: str, why: str) -> None:
    listed = gswm_of(install(tmp_path, value), "train", "--help")
    assert listed.returncode == 0
    assert "two-layer" in listed.stdout
    assert why in listed.stderr


@dataclass(frozen=True)
class OtherConfig(gswm.ModelConfig):
    kind: ClassVar[str] = "gswm"


@dataclass(frozen=True)
class NamelessConfig(gswm.ModelConfig):
    pass


def fresh() -> Registry:
    registry = Registry()
    registry.load()
    return registry


def test_names_that_are_taken_are_refused() -> None:
    registry = fresh()
    with pytest.raises(UserError, match="model 'gswm' is already registered"):
        registry.add(gswm.ModelEntry(OtherConfig, lambda cfg: None))
    ours = replace(gswm.recipe("scalor-interaction"), name="stove-interaction")
    theirs = replace(registry.entries["scalor"], recipes=(lambda: ours,))
    with pytest.raises(UserError, match="recipe 'stove-interaction' already exists"):
        registry.add(theirs)
    with pytest.raises(UserError, match="NamelessConfig has no name"):
        registry.add(gswm.ModelEntry(NamelessConfig, lambda cfg: None))


def test_a_model_that_is_defined_anew_replaces_the_old_one() -> None:
    registry = fresh()
    entry = registry.entries["stove"]
    registry.add(replace(entry, recipes=entry.recipes[:1]))
    assert "stove-interaction" in registry.recipes
    assert "stove-occlusion" not in registry.recipes


@pytest.mark.parametrize("name", gswm.RECIPES)
def test_settings_name_their_model_and_those_of_version_0_1_0_are_still_read(name: str) -> None:
    recipe = gswm.recipe(name)
    values = to_dict(recipe)
    kind = values["model"]["kind"]
    assert kind == recipe.model.kind
    assert from_dict(gswm.Recipe, values) == recipe
    if kind not in ("gswm", "scalor", "stove"):
        return  # later than 0.1.0
    del values["model"]["kind"]
    assert from_dict(gswm.Recipe, values) == recipe
    assert config_class(values["model"]) is type(recipe.model)


def test_an_unknown_kind_is_named() -> None:
    values = to_dict(gswm.recipe("maze"))
    values["model"]["kind"] = "unheard-of"
    with pytest.raises(UserError, match="there is no model 'unheard-of'"):
        from_dict(gswm.Recipe, values)


@pytest.mark.usefixtures("small_trunk")
def test_a_run_of_version_0_1_0_is_evaluated_exported_and_resumed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_here(small(2), run)
    recipe = json.loads((run / "recipe.json").read_text())
    assert recipe["model"].pop("kind") == "gswm"
    (run / "recipe.json").write_text(json.dumps(recipe))
    for name in ("best", "last"):
        file = run / f"{name}.safetensors"
        with safe_open(file, framework="pt") as opened:
            header = opened.metadata()
        recipe = json.loads(header["recipe"])
        del recipe["model"]["kind"]
        save_file(load_file(file), file, header | {"recipe": json.dumps(recipe)})
    assert main(["eval", str(run), "--episodes", "2", "--device", "cpu"]) == 0
    out = tmp_path / "released.safetensors"
    assert main(["export", str(run), "--out", str(out)]) == 0
    assert read_header(out)["recipe"].model == small(2).model
    assert main(["train", "--resume", str(run), "--device", "cpu"]) == 0


@dataclass(frozen=True)
class ListConfig(gswm.ModelConfig):
    kind: ClassVar[str] = "lists"
    widths: tuple[int, ...] | list[int] = (1, 2)


def recipe_of(model: gswm.ModelConfig) -> gswm.Recipe:
    return gswm.Recipe("lists", gswm.DataConfig("single-ball"), model)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (ListConfig, "register a ModelEntry, not type"),
        (gswm.ModelEntry(ListConfig, print, (recipe_of,)), None),
        (gswm.ModelEntry(ListConfig, print, (lambda: recipe_of(gswm.ModelConfig()),)), "returns a"),
        (gswm.ModelEntry(ListConfig, print, (lambda: None,)), "returns a Recipe"),
        (
            gswm.ModelEntry(ListConfig, print, (lambda: recipe_of(ListConfig(widths=[1])),)),
            "change when they are saved",
        ),
    ],
)
def test_entries_that_cannot_work_are_refused(entry: Any, why: str | None) -> None:
    with pytest.raises(UserError if why else TypeError, match=why):
        fresh().add(entry)


class Odd(gswm.WorldModel[gswm.ModelConfig]):
    """States as they come, a buffer that counts, large numbers, and weights that are tied."""

    def __init__(self, cfg: gswm.ModelConfig, state: Any) -> None:
        super().__init__(cfg)
        self.first = torch.nn.Linear(2, 2)
        self.second = torch.nn.Linear(2, 2)
        self.second.weight = self.first.weight
        self.register_buffer("count", torch.tensor(2**24 + 1))
        self.register_buffer("large", torch.tensor([1e6, float("inf")]))
        self.state = state

    def loss(self, *_: Any) -> Any:
        raise NotImplementedError

    def perceive(self, video: Any, **_: Any) -> gswm.Track:
        places = self.first(video.mean(dim=(2, 3, 4))[..., None].expand(-1, -1, 2))
        return self.track(places)

    def rollout(self, state: Any, steps: int, *_: Any, **__: Any) -> gswm.Track:
        return self.track(next(iter(tensors(state)))[:, None].expand(-1, steps, -1))

    def track(self, places: torch.Tensor) -> gswm.Track:
        one = torch.ones_like(places[..., :1])
        states = tuple(self.state(x) for x in places.unbind(dim=1))
        xy, ids = places[:, :, None], torch.zeros_like(one).long()
        return gswm.Track(xy, xy, one, one, ids, None, None, states=states)


class Pair(NamedTuple):
    place: torch.Tensor
    name: str = "kept"


@pytest.mark.parametrize(
    "state", [lambda x: x, lambda x: {"place": x}, Pair, lambda x: [x, (x, None)]]
)
def test_a_state_may_be_any_record_and_keeps_no_gradients(state: Any) -> None:
    model = Odd(gswm.ModelConfig(), state)
    video = torch.rand(2, 3, 3, 64, 64)
    future = model.imagine(video, 3, 2, futures=3, render=False)
    assert future.xy.shape == (2, 3, 2, 1, 2)
    seen = model.infer(video, render=False).xy
    assert not seen.requires_grad
    torch.testing.assert_close(future.xy[:, :, 0], seen[:, -1:].expand(-1, 3, -1, -1))
    with pytest.raises(UserError, match="state_at"):
        model.imagine_from(future, 2)


def test_a_model_without_samples_of_its_posterior_says_so() -> None:
    model, video = Odd(gswm.ModelConfig(), lambda x: x), torch.rand(2, 3, 3, 64, 64)
    for use in (
        lambda: model.infer(video, generator=torch.Generator()),
        lambda: model.imagine(video, 3, 2, sample_given=True),
    ):
        with pytest.raises(UserError, match="Odd cannot sample its posterior"):
            use()


def test_states_without_an_axis_of_videos_are_named() -> None:
    model = Odd(gswm.ModelConfig(), lambda x: x)
    model.rollout = lambda state, steps, *_, **__: model.track(torch.zeros(2, steps, 2))
    with pytest.raises(UserError, match="first axis"):
        model.imagine(torch.rand(2, 3, 3, 64, 64), 3, 2, futures=3, render=False)


def test_what_a_method_must_return_is_said() -> None:
    model, video = Odd(gswm.ModelConfig(), lambda x: x), torch.rand(2, 3, 3, 64, 64)
    model.rollout = lambda *_, **__: model.track(torch.zeros(2, 4, 2))
    with pytest.raises(UserError, match=r"Odd.rollout returned 4 frames; it must return 2"):
        model.imagine(video, 3, 2, render=False)
    model.perceive = lambda *_, **__: None
    with pytest.raises(UserError, match=r"Odd.perceive must return a Track, not a NoneType"):
        model.infer(video)


def test_later_chunks_are_checked_like_the_first_and_keep_no_gradients() -> None:
    model, chunk = Odd(gswm.ModelConfig(), lambda x: x), torch.rand(2, 3, 3, 64, 64)
    frames = [3, 2]
    model.infer_after = lambda *_, **__: model.perceive(chunk[:, : frames.pop(0)])
    first, second = islice(chunks := model.infer_chunks([chunk] * 3), 2)
    assert not first.xy.requires_grad
    assert not second.xy.requires_grad
    with pytest.raises(UserError, match=r"Odd.infer_after returned 2 frames; it must return 3"):
        next(chunks)


def test_a_model_without_parameters_is_where_its_buffers_are() -> None:
    model = Odd(gswm.ModelConfig(), lambda x: x)
    del model.first, model.second
    assert model.device == torch.device("cpu")
    assert model.to("meta").device == torch.device("meta")


class Windy(World):
    """A single ball in frames that also have actions, rewards and a background."""

    name, num_frames, image_size, num_objects = "windy", 9, 64, 1
    layout, protocol = "single-ball", "gswm-5-4"
    splits = world("single-ball").splits

    def episodes(self, *args: Any, **how: Any) -> Iterator[Episodes]:
        for some in world("single-ball").episodes(*args, **how):
            n, time = some.video.shape[:2]
            actions = torch.arange(n * time * 2.0).view(n, time, 2)
            extras = {"rewards": actions.sum(dim=2), "background": some.video[:, 0]}
            yield replace(some, actions=actions, **extras)


@pytest.fixture
def gust(blob: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe of a model that takes two numbers an action."""

    @dataclass(frozen=True)
    class GustConfig(blob.BlobConfig):
        kind: ClassVar[str] = "gust"

    class Gust(blob.Blob):
        num_actions = 2

        def loss(self, batch: gswm.Batch, noise: Any, step: Any, stage: Any) -> gswm.Loss:
            assert batch.actions is not None
            assert batch.actions.shape[:2] == batch.video.shape[:2]
            assert batch.rewards is not None
            assert batch.background is not None
            return super().loss(batch, noise, step, stage)

        def perceive(self, video: Any, *, actions: Any, **how: Any) -> gswm.Track:
            assert actions.shape == (len(video), video.shape[1] - 1, 2)
            return super().perceive(video, actions=None, **how)

        def rollout(self, state: Any, steps: int, *args: Any, actions: Any, **how: Any) -> Any:
            assert actions.shape == (len(state), steps, 2)
            return super().rollout(state, steps, *args, actions=None, **how)

    def gust() -> gswm.Recipe:
        base = blob.blob()
        model = GustConfig(**vars(base.model))
        return replace(base, name="gust", data=replace(base.data, world="windy"), model=model)

    monkeypatch.setattr(WORLDS, "_found", {**WORLDS, "windy": Windy()})
    gswm.register(gswm.ModelEntry(GustConfig, Gust, (gust,)))
    return "gust"


@pytest.mark.slow
def test_a_model_gets_the_actions_of_its_data_everywhere(gust: str, tmp_path: Path) -> None:
    out, here = tmp_path / "run", ["--device", "cpu"]
    few = ["--train.steps", "2", *SETTINGS]
    assert main(["train", gust, "--out", str(out), *few]) == 0
    assert (out / "best.safetensors").exists()
    assert main(["eval", str(out), "--episodes", "2", *here]) == 0
    seen = ["--futures", "2", "--out", str(tmp_path / "seen"), "--no-mp4", *here]
    assert main(["imagine", str(out), *seen]) == 0
    table = ["--out", str(tmp_path / "states.csv"), *here]
    assert main(["track", "windy", "--model", str(out), "--frames", "4", *table]) == 0
    assert main(["bench", "train", "--recipe", gust, "--steps", "1", *here]) == 0
    few = ["--given", "2", "--steps", "3", "--batch", "2", "--repeats", "1"]
    assert main(["bench", "imagine", "--recipe", gust, *few, *here]) == 0


def test_data_without_the_actions_a_model_needs_are_refused(
    gust: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data.world", "single-ball", "--out", str(tmp_path / "run"), *SETTINGS]
    assert main(["train", gust, *words]) == 2
    assert "needs actions of 2 numbers, but got none" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_model_that_takes_no_actions_is_given_none(
    gust: str, blob: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, loss = [], blob.Blob.loss

    def watched(self: Any, batch: gswm.Batch, *rest: Any) -> gswm.Loss:
        given.append(batch)
        return loss(self, batch, *rest)

    monkeypatch.setattr(blob.Blob, "loss", watched)
    words = ["--data.world", "windy", "--train.steps", "1", "--out", str(tmp_path / "run")]
    assert main(["train", "blob", *words, *SETTINGS]) == 0
    assert given[0].rewards is not None
    assert given[0].actions is None


def test_actions_that_do_not_fit_are_refused(gust: str) -> None:
    model: Any = gswm.build(gust)
    for wrong in ((3, 9, 2), (9, 2), (2, 9, 3), (2, 7, 2), (2, 3, 9, 2)):
        with pytest.raises(UserError, match=r"\(2, 8 or more, 2\) here, not \("):
            model.check_actions(torch.zeros(wrong), 8, (2,))
    model.check_actions(torch.zeros(2, 9, 2), 8, (2,))
    video, plan = torch.zeros(2, 5, 3, 64, 64), torch.zeros(2, 3, 9, 2)
    with pytest.raises(UserError, match="8 or more"):
        model.imagine(video, 5, 4, actions=torch.zeros(2, 7, 2))
    state = model.infer(video, actions=torch.zeros(2, 4, 2)).state_at(-1)
    assert model.imagine_from(state, 4, futures=3, actions=plan).xy.shape[:3] == (2, 3, 4)
    with pytest.raises(UserError, match=r"\(2, 4, 4 or more, 2\)"):
        model.imagine_from(state, 4, futures=4, actions=plan)


@pytest.mark.parametrize("half", [False, True])
def test_counts_large_numbers_and_tied_weights_are_saved_as_they_are(
    tmp_path: Path, half: bool
) -> None:
    model = Odd(gswm.ModelConfig(), lambda x: x)
    path = tmp_path / "odd.safetensors"
    gswm.save(path, model, recipe_of(replace(gswm.recipe("two-layer").model)), half=half)
    other = Odd(gswm.ModelConfig(), lambda x: x)
    fill(other, path)
    assert other.count == 2**24 + 1
    assert torch.equal(other.large, model.large)
    assert torch.allclose(other.second.weight, model.first.weight, atol=1e-2 if half else 0)


def test_threads_that_ask_for_a_model_at_once_wait_for_its_registration() -> None:
    code = """
import threading, gswm
errors, start = [], threading.Barrier(4)
def ask():
    start.wait()
    try:
        gswm.recipe("interaction")
        gswm.world("interaction")
    except Exception as error:
        errors.append(error)
threads = [threading.Thread(target=ask) for _ in range(4)]
[each.start() for each in threads]
[each.join() for each in threads]
assert not errors, errors
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_runs_once_runs_again_after_a_failure() -> None:
    runs: list[int] = []

    def make() -> None:
        once()  # from within
        runs.append(1)
        if len(runs) == 1:
            raise KeyboardInterrupt

    once = Once(make)
    with pytest.raises(KeyboardInterrupt):
        once()
    once()
    once()
    assert len(runs) == 2

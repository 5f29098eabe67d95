"""Worlds: their declarations, and adding and using one of another package."""

import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from measured import maze_result, result, saved, solid_result
from PIL import Image

from gswm.cli import main
from gswm.core.errors import UserError
from gswm.data.episode import Corridors, Episodes, Truth
from gswm.data.storage import hdf5
from gswm.data.worlds import registry
from gswm.data.worlds.balls import INTERACTION
from gswm.data.worlds.base import MEMORY, World, splits
from gswm.data.worlds.maze import frames_of
from gswm.data.worlds.maze_drawing import draw_mazes
from gswm.data.worlds.registry import WORLDS, Worlds, register_world, world
from gswm.eval.protocols import PROTOCOLS, Protocol, register_protocol, usual
from gswm.report.drawing import Drawing, Line
from gswm.report.figures import figures
from gswm.report.results import read, style_of

RING = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]
FRAMES, SIZE = 11, 24


class Roundabout(World):
    """One agent that drives round a block; episode i of seed s starts in cell s + i."""

    name = "roundabout"
    num_frames = FRAMES
    image_size = SIZE
    num_objects = 5
    splits = splits(0, train=8, others=4)
    layout = "maze"
    protocol = "gswm-5-4"
    style = "maze"

    def episodes(
        self,
        seed: int,
        n: int | None = None,
        device: str | torch.device = "cpu",
        memory: int = MEMORY,
        first: int = 0,
    ) -> Iterator[Episodes]:
        present = (torch.arange(5) == 0).expand(1, FRAMES, 5)
        colors = torch.tensor([1.0, 0, 0]).double() * present[..., None]
        grid = torch.tensor([[[1, 1, 1], [1, 0, 1], [1, 1, 1]]])
        for i in range(first, first + (n or 100)):
            cells = torch.zeros(1, (FRAMES + 1) // 2, 5, 2, dtype=torch.int64)
            cells[0, :, 0] = torch.tensor(RING).roll(-(seed + i), 0)[: (FRAMES + 1) // 2]
            positions = frames_of((cells.flip(-1) + 0.5).double() * SIZE / 3) * present[..., None]
            steps = positions.diff(dim=1)
            truth = Truth(
                positions=positions,
                velocities=torch.cat([steps, steps[:, -1:]], dim=1),
                sizes=present.double() * SIZE / 6,
                layers=torch.zeros(1, FRAMES, 5, dtype=torch.int64),
                order=torch.arange(5).expand(1, FRAMES, 5),
                colors=colors,
                ids=present.long(),
                present=present,
            )
            video = draw_mazes(grid, cells, colors[:, 0], present[:, 0], SIZE)
            yield Episodes(video, truth, Corridors(grid, cells)).to(device)


@pytest.fixture
def roundabout(monkeypatch: pytest.MonkeyPatch) -> Roundabout:
    """A registered world, until the test is over."""
    monkeypatch.setattr(WORLDS, "_found", dict(WORLDS))
    made = Roundabout()
    register_world(made)
    return made


def test_a_registered_world_is_made_and_read_back_without_loss(
    roundabout: Roundabout, tmp_path: Path
) -> None:
    out = tmp_path / "a.hdf5"
    assert main(["data", "make", "roundabout", "--split", "test", "--out", str(out)]) == 0
    made = hdf5.read(out)
    expected = list(roundabout.episodes(2, 4))
    assert hdf5.open_file(out).layout == "maze"
    for name in ("truth", "corridors"):
        for field in fields(getattr(made, name)):
            now = getattr(getattr(made, name), field.name)
            if now is not None:
                was = [getattr(getattr(each, name), field.name) for each in expected]
                torch.testing.assert_close(now, torch.cat(was), msg=field.name)
    assert torch.equal(made.video, torch.cat([each.video for each in expected]))


def test_a_registered_world_is_shown_like_its_file(roundabout: Roundabout, tmp_path: Path) -> None:
    made = tmp_path / "test.hdf5"
    assert main(["data", "make", "roundabout", "--split", "test", "--out", str(made)]) == 0
    drawn = []
    for source in ("roundabout", str(made)):
        out = tmp_path / "x.png"
        assert main(["data", "show", source, "--episode", "3", "--out", str(out), "--force"]) == 0
        with Image.open(out) as image:
            drawn.append(np.asarray(image.convert("RGB"))[60:])
    np.testing.assert_array_equal(*drawn)
    assert (drawn[0] == (255, 0, 0)).all(axis=-1).any()


@pytest.mark.parametrize("as_file", [False, True])
def test_a_registered_world_is_measured_by_the_protocol_that_it_declares(
    roundabout: Roundabout, as_file: bool, tmp_path: Path
) -> None:
    source = "roundabout"
    if as_file:
        source = str(tmp_path / "test.hdf5")
        assert main(["data", "make", "roundabout", "--split", "test", "--out", source]) == 0
    out = tmp_path / "a.json"
    args = ["eval", "--baseline", "stay", "--world", source, "--device", "cpu"]
    assert main([*args, "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["protocol"]["name"] == "gswm-5-4"
    assert found["data"]["of"] == "roundabout"
    assert found["episodes"] == 4
    assert found["scores"]["min_ade_1"] > 0


def test_episodes_are_told_in_a_line() -> None:
    episodes = next(world("interaction").episodes(seed=1, n=2))
    shape = "Episodes: 2 episodes × 100 frames, 64 × 64 px"
    assert repr(episodes) == f"{shape}, up to 3 objects"
    assert repr(Episodes(episodes.video)) == f"{shape}, no ground truth"


def test_a_file_of_a_world_that_is_not_installed_goes_by_its_layout(
    roundabout: Roundabout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "test.hdf5"
    assert main(["data", "make", "roundabout", "--split", "test", "--out", str(out)]) == 0
    assert hdf5.world_of(str(out)) == "roundabout"
    monkeypatch.setattr(WORLDS, "_found", {"maze": WORLDS["maze"]})
    assert hdf5.world_of(str(out)) == "maze"
    assert usual("roundabout").name == "gswm-10-90"
    assert style_of("roundabout") == "paths"


def walls(drawing: Drawing) -> int:
    return sum(isinstance(part, Line) and part.fill for part in drawing.parts)


def test_a_report_draws_a_registered_world_in_its_style(
    roundabout: Roundabout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {"data": {"world": "roundabout", "split": "test"}}
    flat, maze, solid = result() | ours, maze_result("maze") | ours, solid_result() | ours
    for style, measured, name in (
        ("maze", maze, "others"),
        ("paths", flat, "others"),
        ("stills", solid, "others-stills"),
    ):
        monkeypatch.setattr(Roundabout, "style", style)
        made = figures(read([saved(tmp_path / style, measured)]))
        assert {"others", "others-stills"} & made.keys() == {name}
        if style == "maze":  # one wall in each of a given frame, all futures and four samples
            assert walls(made[name]) == 6 + 6
        if style == "paths":
            assert walls(made[name]) == 2
    assert not {"others", "others-stills"} & figures(read([saved(tmp_path / "x", result())])).keys()


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_declares_what_exists(name: str) -> None:
    declared = world(name)
    registry.check(declared)
    assert declared.name == name
    assert declared.protocol in PROTOCOLS
    assert usual(name).frames <= declared.num_frames
    assert usual(name).split in declared.splits


def test_a_world_declares_a_protocol_of_its_own(
    roundabout: Roundabout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("gswm.eval.protocols.PROTOCOLS", dict(PROTOCOLS))
    mine = Protocol("mine", 3, 4, ("center", "corridor"))
    monkeypatch.setattr(Roundabout, "protocol", "mine")
    scores = ["--baseline", "stay", "--world", "roundabout", "--json", str(tmp_path / "a.json")]
    assert main(["eval", *scores]) == 2
    register_protocol(mine)
    register_protocol(mine)
    assert main(["eval", *scores]) == 0
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["protocol"]["name"] == "mine"
    assert "center_error" in found["scores"]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (Protocol("gswm-5-4", 5, 5, ("futures",)), "protocol 'gswm-5-4' already exists"),
        (Protocol("mine", 0, 5, ("center",)), "of 'mine' must be at least 1"),
    ],
)
def test_a_protocol_that_cannot_be_registered_is_refused(rules: Protocol, said: str) -> None:
    before = dict(PROTOCOLS)
    with pytest.raises(UserError, match=said):
        register_protocol(rules)
    assert before == PROTOCOLS


class Unstated(World):
    name = "unstated"
    num_frames = image_size = num_objects = 1
    splits = Roundabout.splits
    episodes = Roundabout.episodes


def test_a_world_must_state_its_layout() -> None:
    with pytest.raises(UserError, match="'unstated' does not state its layout"):
        register_world(Unstated())


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        ("layout", "cubes", "has the layout 'cubes': choose one of obj3d"),
        ("style", "oil", "has the style 'oil': choose one of paths"),
        ("name", "a:b", "names must not contain a colon"),
        ("name", "", "names must not contain a colon"),
        ("name", "maze", "world 'maze' is already registered by gswm.data.worlds.maze.Maze"),
    ],
)
def test_a_world_that_cannot_be_registered_is_refused_in_one_line(
    attribute: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Roundabout, attribute, value)
    before = dict(WORLDS)
    with pytest.raises(UserError, match=said) as error:
        register_world(Roundabout())
    assert len(str(error.value).splitlines()) == 1
    assert dict(WORLDS) == before


def test_a_world_of_ones_own_can_be_registered_anew_and_a_shipped_one_cannot(
    roundabout: Roundabout,
) -> None:
    again = Roundabout()
    register_world(again)
    assert world("roundabout") is again
    register_world(INTERACTION)
    with pytest.raises(UserError, match="'interaction' is already registered"):
        register_world(type(INTERACTION)(**vars(INTERACTION)))


PLUG_IN = {
    "instance": "{module}:WORLD",
    "function": "{module}:make",
    "class": "{module}:Second",
    "broken": "{module}:nothing",
    "raises": "{module}:fail",
    "number": "{module}:NUMBER",
    "taken": "{module}:taken",
}


def install(folder: Path, names: list[str]) -> None:
    """A package with entry points, as installed by pip."""
    about = folder / "plugged-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: plugged\nVersion: 1\n")
    points = [f"{name} = {PLUG_IN[name].format(module='plugged_worlds')}" for name in names]
    (about / "entry_points.txt").write_text("\n".join(["[gswm.worlds]", *points]))


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is searched for packages, and the module of one."""

    def named(name: str) -> World:
        return type("Other", (Roundabout,), {"name": name})()

    def fail() -> World:
        raise RuntimeError("no\nway")

    module = ModuleType("plugged_worlds")
    module.__dict__.update(
        WORLD=named("first"), Second=type("S", (Roundabout,), {"name": "second"})
    )
    module.__dict__.update(make=lambda: named("third"), fail=fail, NUMBER=3)
    module.__dict__.update(taken=lambda: named("maze"))
    monkeypatch.setitem(sys.modules, "plugged_worlds", module)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_entry_points_are_loaded_at_the_first_lookup(plugged: Path) -> None:
    install(plugged, ["instance", "function", "class"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Worlds()
        assert found.load.done is False
        assert {"first", "second", "third", "maze"} <= found.keys()
        assert isinstance(found["second"], Roundabout)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", "no attribute 'nothing'"),
        ("raises", "no way"),
        ("number", "a World, not int"),
        ("taken", "'maze' is already registered"),
    ],
)
def test_a_broken_plug_in_is_one_line_and_leaves_the_others(
    name: str, said: str, plugged: Path
) -> None:
    install(plugged, [name, "instance"])
    found = Worlds()
    with pytest.warns(UserWarning, match=rf"'{name}' of plugged_worlds:\w+ is skipped") as caught:
        assert "first" in found
    (warning,) = caught
    assert said in str(warning.message)
    assert len(str(warning.message).splitlines()) == 1
    assert found["maze"] is WORLDS["maze"]
    assert set(found) == {*WORLDS, "first"}


KINDS = ("interaction", "single-ball", "maze", "clips", "digits", "obj3d")
"""One world of each kind."""


@pytest.mark.parametrize("name", KINDS)
def test_no_episodes_are_none(name: str) -> None:
    assert next(WORLDS[name].episodes(0, 0), None) is None


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_that_no_generator_takes_is_refused(name: str, seed: int) -> None:
    with pytest.raises(UserError, match="seed is "):
        next(WORLDS[name].episodes(seed, 1))

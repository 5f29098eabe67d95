"""Episodes of the 3D world: their contents and sources, and the commands."""

import json
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from gswm.cli import main
from gswm.core.errors import UserError
from gswm.core.records import regroup
from gswm.data.batches.loader import open_loader
from gswm.data.episode import Episodes, Space, Truth
from gswm.data.storage import hdf5
from gswm.data.storage.writer import Writer
from gswm.data.worlds.base import World
from gswm.data.worlds.obj3d import scene_file, simulation
from gswm.data.worlds.obj3d.scene_file import SceneFile
from gswm.data.worlds.obj3d.scenes import Scenes, join, make_scenes
from gswm.data.worlds.obj3d.settings import CUBE, SHADOWS, SPHERE, Settings
from gswm.data.worlds.obj3d.world import Obj3D
from gswm.data.worlds.registry import base_name, world
from gswm.eval.baselines import Baseline
from gswm.eval.evaluate import evaluate
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.collisions import collisions
from gswm.eval.protocols import Protocol

SHORT = Settings(num_frames=14, first_contact=(3.5, 10.0))


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return join(list(make_scenes(SHORT, seed=9, n=3, workers=1)))


@pytest.fixture(scope="module")
def made(scenes: Scenes) -> Episodes:
    return Obj3D(settings=SHORT).show(scenes)


@pytest.fixture
def folder(scenes: Scenes, tmp_path: Path) -> Path:
    for name, seed, part in (("train", 9, scenes), ("val", 8, scenes[1:3])):
        scene_file.save(tmp_path / f"{name}.hdf5", SceneFile(part, SHORT, name, seed))
    return tmp_path


def known(episodes: Episodes) -> tuple[Truth, Space]:
    assert episodes.truth is not None
    assert episodes.space is not None
    return episodes.truth, episodes.space


def test_boxes_are_those_of_the_masks_where_nothing_hides_anything(made: Episodes) -> None:
    truth, space = known(made)
    assert truth.hw is not None
    clear = truth.present & (space.visibility == 1)
    compared = 0
    for episode, time, slot in clear.nonzero().tolist():
        rows, columns = (space.masks[episode, time] == slot + 1).nonzero(as_tuple=True)
        x, y = truth.positions[episode, time, slot].tolist()
        h, w = truth.hw[episode, time, slot].tolist()
        if min(x - w / 2, y - h / 2) < 0 or max(x + w / 2, y + h / 2) > 64:
            continue
        compared += 1
        assert float(columns.min()) == pytest.approx(x - w / 2, abs=1.6)
        assert float(columns.max()) + 1 == pytest.approx(x + w / 2, abs=1.6)
        assert float(rows.min()) == pytest.approx(y - h / 2, abs=1.6)
        assert float(rows.max()) + 1 == pytest.approx(y + h / 2, abs=1.6)
    assert compared > 50


def test_masks_hold_ids_of_objects_that_are_there(made: Episodes) -> None:
    truth, space = known(made)
    for episode in range(len(made)):
        ids = set(space.masks[episode].unique().tolist()) - {0}
        assert ids <= set(truth.ids[episode][truth.present[episode]].tolist())
    assert (truth.ids > 0).sum() == (space.shapes > 0).sum() * SHORT.num_frames
    assert not truth.present[:, :, (space.shapes == 0).all(dim=0)].any()
    assert space.visibility[~truth.present].sum() == 0


def test_velocities_are_the_next_step_where_nothing_touches(made: Episodes) -> None:
    truth, space = known(made)
    steps = truth.positions.diff(dim=1)
    touched = space.contacts.sum(dim=-1) > 0
    free = ~touched[:, 1:] & ~touched[:, :-1]  # a contact may last into the next frame
    free &= truth.present[:, 1:] & truth.present[:, :-1]
    off = (steps - truth.velocities[:, :-1])[free]
    assert off.abs().max() < 0.05
    assert truth.velocities[:, 0, 0].norm(dim=-1).min() > 0.5


def test_every_object_stays_on_the_plane(made: Episodes) -> None:
    _, space = known(made)
    z = space.poses[..., 2]
    assert torch.equal(z, z[:, :1].expand_as(z))
    assert not space.motions[..., 2].any()
    halves = torch.where(space.shapes == CUBE, space.radii / 2**0.5, space.radii)
    torch.testing.assert_close(z[:, 0], halves * (space.shapes > 0))


def test_the_depth_order_says_who_hides_whom(made: Episodes) -> None:
    truth, space = known(made)
    for episode, time, slot in ((space.visibility < 0.9) & truth.present).nonzero().tolist():
        order = truth.order[episode, time]
        others = [
            i for i in range(SHORT.num_slots) if i != slot and truth.present[episode, time, i]
        ]
        assert max(int(order[i]) for i in others) > int(order[slot])


def test_the_boxes_of_evaluation_are_not_squares_here(made: Episodes) -> None:
    truth, _ = known(made)
    assert truth.hw is not None
    boxes = Boxes.of_truth(truth, 64)
    torch.testing.assert_close(boxes.hw, truth.hw / 64)
    square = Boxes.of_truth(replace(truth, hw=None), 64)
    torch.testing.assert_close(square.hw[..., 0], 2 * truth.sizes / 64)
    torch.testing.assert_close(square.hw.prod(dim=-1), boxes.hw.prod(dim=-1))


def test_a_file_gives_back_all_that_is_true(made: Episodes, tmp_path: Path) -> None:
    with Writer(tmp_path / "a.hdf5", "obj3d") as writer:
        writer.append(made)
    with hdf5.open_file(tmp_path / "a.hdf5") as file:
        assert file.layout == "obj3d"
    back = hdf5.read(tmp_path / "a.hdf5")
    assert torch.equal(back.video, made.video)
    (truth, space), (truth_back, space_back) = known(made), known(back)
    seen = truth.present
    assert torch.equal(truth_back.present, seen)
    assert torch.equal(truth_back.ids, truth.ids)
    assert torch.equal(truth_back.order, truth.order)
    for name in ("positions", "velocities", "sizes", "colors", "hw"):
        torch.testing.assert_close(
            getattr(truth_back, name), getattr(truth, name), atol=1e-4, rtol=0
        )
    for name in ("masks", "visibility", "poses", "motions", "contacts", "shapes", "materials"):
        assert torch.equal(getattr(space_back, name), getattr(space, name)), name
    torch.testing.assert_close(space_back.depth, space.depth, rtol=1e-3, atol=0)


def test_slots_are_present_in_all_frames_or_none_and_there_are_no_layers(
    made: Episodes, tmp_path: Path
) -> None:
    with Writer(tmp_path / "a.hdf5", "obj3d") as writer:
        writer.append(made)
    _, space = known(made)
    with h5py.File(tmp_path / "a.hdf5", "r") as file:
        present, layers = np.asarray(file["present"]), np.asarray(file["layers"])
    exists = (space.shapes > 0).numpy()
    assert (present == exists[:, None]).all()
    assert 0 < exists.mean() < 1
    assert not layers.any()


def test_episodes_are_the_same_however_they_are_cut(folder: Path) -> None:
    there = world(f"obj3d:{folder}")
    assert isinstance(there, World)
    whole = list(there.episodes(9, 2))
    parts = list(there.episodes(9, 2, memory=1))
    assert len(whole) == 1
    assert len(parts) == 2
    assert torch.equal(whole[0].video, torch.cat([part.video for part in parts]))
    assert torch.equal(next(there.episodes(9, 1, first=1)).video, parts[1].video)


def test_a_world_of_files_has_their_splits_and_no_more(folder: Path) -> None:
    there = world(f"obj3d:{folder}")
    assert {name: split.episodes for name, split in there.splits.items()} == {"train": 3, "val": 2}
    assert there.num_frames == 14
    with pytest.raises(UserError, match="5 episodes were requested, but there are 3"):
        next(there.episodes(9, 5))
    with pytest.raises(UserError, match="without end"):
        next(there.episodes(9))
    with pytest.raises(UserError, match="seeds 9, 8"):
        next(there.episodes(7, 1))
    with pytest.raises(UserError, match=r"no train.hdf5, val.hdf5 or test.hdf5"):
        world(f"obj3d:{folder / 'nowhere'}")
    loader = open_loader(there, batch=2, length=5, first_frames=8)
    assert next(loader).video.shape == (2, 5, 3, 64, 64)


def test_files_that_do_not_belong_together_are_refused(folder: Path, scenes: Scenes) -> None:
    other = SceneFile(scenes[:1], replace(SHORT, grip=0.1), "test", 3)
    scene_file.save(folder / "test.hdf5", other)
    with pytest.raises(UserError, match="different settings"):
        world(f"obj3d:{folder}")
    scene_file.save(folder / "test.hdf5", replace(other, settings=SHORT, split="val"), force=True)
    with pytest.raises(UserError, match="of the same split"):
        world(f"obj3d:{folder}")


def test_existing_scenes_are_drawn_without_mujoco(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulation, "import_mujoco", lambda: pytest.fail("MuJoCo was asked for"))
    monkeypatch.setitem(__import__("sys").modules, "mujoco", None)
    out = folder / "out.hdf5"
    args = ["data", "make", "obj3d", "--split", "val", "--scenes", str(folder / "val.hdf5")]
    assert main([*args, "--size", "32", "--out", str(out)]) == 0
    made = hdf5.read(out)
    assert made.video.shape == (2, 14, 3, 32, 32)
    args[args.index("val")] = "train"
    assert main([*args, "--out", str(folder / "x.hdf5")]) == 2
    assert "use --split val" in capsys.readouterr().err


@pytest.mark.parametrize("by_folder", [False, True])
def test_scenes_are_not_replaced_by_their_drawing(
    by_folder: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "val.hdf5"
    before = file.read_bytes()
    what = [f"obj3d:{folder}"] if by_folder else ["obj3d", "--scenes", str(file)]
    args = ["data", "make", *what, "--split", "val", "--out", str(file), "--force"]
    assert main(args) == 2
    assert "it is also an input" in capsys.readouterr().err
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["maze", "--size", "4"], "maze has no frames of 4 pixels; use 16 to 1024"),
        (["maze", "--scenes", "no.hdf5"], "maze does not use scene files"),
        (["maze", "--renderer", "torch"], "maze has only one renderer"),
        (["obj3d", "--size", "4"], "use 8 to 1024"),
        (["obj3d", "--scenes", "no.hdf5"], "no.hdf5 does not exist"),
        (["obj3d:nowhere"], "has no train.hdf5"),
    ],
)
def test_a_mistake_is_one_line(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["data", "make", *args, "--out", str(tmp_path / "a.hdf5")]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_simulating_without_mujoco_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mujoco", None)
    with pytest.raises(UserError, match=r"\.\[sim\]"):
        next(world("obj3d").episodes(31, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["data", "show", "WORLD", "--out", "a.png", "--frames", "2"],
        ["eval", "--baseline", "stay", "--world", "WORLD", "--episodes", "1"],
    ],
)
def test_the_advice_where_there_is_no_mujoco_is_for_every_command(
    command: list[str],
    scenes: Scenes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "mujoco", None)

    def run(name: str) -> int:
        return main([name if word == "WORLD" else word for word in command])

    assert run("obj3d") == 2
    assert "or use the world obj3d:FOLDER" in capsys.readouterr().err
    (tmp_path / "made.elsewhere").mkdir()
    held = SceneFile(long(scenes[:1]), Settings(), "test", 9)
    scene_file.save(tmp_path / "made.elsewhere" / "test.hdf5", held)
    assert run("obj3d:made.elsewhere") == 0


def long(scenes: Scenes) -> Scenes:
    """The same, over the frames that an evaluation asks for; in the end nothing moves."""
    more = ((0, 0), (0, 100 - SHORT.num_frames), (0, 0), (0, 0))
    poses, motions = np.pad(scenes.poses, more, "edge"), np.pad(scenes.motions, more)
    return replace(scenes, poses=poses, motions=motions)


def test_a_file_of_scenes_says_what_draws_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = folder / "val.hdf5", folder / "out.hdf5"
    for args in (["info", str(file)], ["show", str(file), "--out", str(folder / "a.png")]):
        assert main(["data", *args]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"gswm: {file} is a scene file")
    command = line.split("`")[1].replace("FILE", str(out))
    assert main(command.split()[1:]) == 0
    assert len(hdf5.read(out)) == 2


@pytest.mark.parametrize("settings", ["[1]", "5", "{", '{"camera": 5}'])
def test_a_file_of_scenes_with_damaged_settings_is_refused(settings: str, folder: Path) -> None:
    with h5py.File(folder / "val.hdf5", "r+") as file:
        file.attrs["settings"] = settings
    with pytest.raises(UserError, match=r"val\.hdf5"):
        scene_file.load(folder / "val.hdf5")


def test_obj3d_shadows_is_what_obj3d_was_in_the_first_release() -> None:
    """Checks episode 0 of the test split; other processors may round the last bit differently."""
    there = world("obj3d-shadows")
    assert isinstance(there, Obj3D)
    scenes = next(there.scenes(33, 1, 1))
    with np.load(Path(__file__).parent / "obj3d_shadows.npz") as before:
        for name in ("shapes", "materials", "colors", "radii", "masses"):
            np.testing.assert_array_equal(getattr(scenes, name)[0], before[name])
        np.testing.assert_allclose(scenes.poses[0, :41], before["poses"], atol=1e-4)
        chosen = before["frames"].tolist()
        parts = (scenes.poses[:, chosen], scenes.motions[:, chosen], scenes[:0].contacts)
        poses, motions, contacts = parts
        shown = there.show(replace(scenes, poses=poses, motions=motions, contacts=contacts))
        off = np.abs(shown.video[0].numpy().astype(int) - before["video"])
        assert off.max() <= 1
        assert (off > 0).mean() < 1e-3
        assert shown.space is not None
        assert (shown.space.masks[0].numpy() != before["masks"]).mean() < 1e-3


def test_a_shortened_world_draws_the_first_frames_of_the_same_episodes(
    folder: Path, made: Episodes
) -> None:
    there = world(f"obj3d:{folder}").shortened(9)
    assert there.num_frames == 9
    short = next(there.episodes(9, 3))
    (truth, space), (whole, whole_space) = known(short), known(made)
    assert torch.equal(short.video, made.video[:, :9])
    assert torch.equal(truth.positions, whole.positions[:, :9])
    assert torch.equal(space.contacts, whole_space.contacts[:, :9])
    assert whole_space.contacts.any()
    assert world(f"obj3d:{folder}").shortened(50).num_frames == 14


def test_a_loader_draws_no_more_frames_than_it_needs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, show = [], Obj3D.show
    monkeypatch.setattr(
        Obj3D, "show", lambda self, *args: drawn.append(self.num_frames) or show(self, *args)
    )
    open_loader(world(f"obj3d:{folder}"), batch=2, length=5, first_frames=8).close()
    assert drawn == [8]


def test_objects_come_to_rest_by_friction() -> None:
    there = Obj3D(settings=Settings())
    scenes = next(there.scenes(33, 4, 4))
    speeds = np.linalg.norm(scenes.motions[..., :2].astype(np.float64), axis=-1)
    assert speeds[:, 0].max() > 0.15
    assert (speeds[:, -1].max(axis=-1) < 0.5 * speeds[:, 0].max(axis=-1)).all()
    assert (speeds[:, -1] < 0.1).all()


def test_files_of_the_first_release_keep_their_look(scenes: Scenes, tmp_path: Path) -> None:
    path = tmp_path / "old.hdf5"
    scene_file.save(path, SceneFile(scenes, replace(SHADOWS, num_frames=14), "test", 9))
    with h5py.File(path, "r+") as file:
        about = json.loads(str(file.attrs["settings"]))
        for name in ("look", "entry_across", "shot_materials", "cube_scale", "mass"):
            del about[name]
        file.attrs["settings"] = json.dumps(about)
    assert scene_file.load(path).settings == replace(SHADOWS, num_frames=14)


def test_a_larger_picture_shows_the_same_scene(scenes: Scenes, made: Episodes) -> None:
    first = replace(
        scenes[:1],
        poses=scenes.poses[:1, :2],
        motions=scenes.motions[:1, :2],
        contacts=scenes[:0].contacts,
    )
    large = Obj3D(settings=SHORT, image_size=128).show(first)
    (truth, _), (small, _) = known(large), known(made)
    torch.testing.assert_close(truth.positions[0, 0], 2 * small.positions[0, 0], atol=1e-3, rtol=0)
    pooled = torch.nn.functional.avg_pool2d(large.video[0].float(), 2)
    assert (pooled - made.video[0, :2].float()).abs().mean() < 1.5


def test_rules_are_measured_beside_the_truth_collisions_too(made: Episodes) -> None:
    rules = Protocol("short", 3, 11, ("center", "collisions"))
    straight = evaluate(Baseline("straight"), [made], rules).scores
    assert straight["center_error"] > 0
    assert straight["collision_recall"] == 0
    truth, space = known(made)
    boxes = Boxes.of_truth(truth, 64)
    exact = collisions(boxes, boxes, space.contacts, 3).scores()
    assert exact["collision_recall"] == 1
    assert exact["collision_precision"] > 0.7
    with pytest.raises(UserError, match="needs contacts"):
        evaluate(Baseline("stay"), [replace(made, space=None)], rules)


def test_the_name_of_a_world_may_say_where_its_scenes_are(folder: Path) -> None:
    assert world(f"obj3d-hard:{folder}").name == "obj3d-hard"
    assert base_name(f"obj3d:{folder}") == "obj3d"
    assert base_name("film:1.mp4") == "film:1.mp4"


def test_scenes_come_in_the_numbers_that_were_asked_for(scenes: Scenes) -> None:
    for step in (1, 2, 3, 5):
        parts = list(regroup([scenes[:1], scenes[1:3]], step, join))
        assert [len(part) for part in parts] == [step] * (3 // step) + [3 % step] * (3 % step > 0)
        again = join(parts)
        assert (again.poses == scenes.poses).all()
        assert (again.impulses() == scenes.impulses()).all()


def test_a_world_goes_on_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gswm.data.worlds.obj3d.world.ROUND", 1)
    there = Obj3D(settings=SHORT)
    endless = there.scenes(9, None, 1)
    first = [next(endless) for _ in range(2)]
    assert (join(first).poses == next(there.scenes(9, 2, 2)).poses).all()
    assert (first[1].poses == next(there.scenes(9, 1, 1, first=1)).poses).all()


def test_the_world_of_two_has_a_sphere_that_hits_one_object() -> None:
    two = world("obj3d-two")
    scenes = join(list(make_scenes(two.settings, seed=4, n=2, workers=1)))
    assert two.num_objects == scenes.shapes.shape[1] == 2
    assert (scenes.shapes[:, 0] == SPHERE).all()
    assert (scenes.shapes[:, 1] > 0).all()
    assert set(scenes.contacts.episode.tolist()) == {0, 1}

"""HDF5 files: the release's layouts, written completely or not at all."""

import os
import pickle
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from gswm.core.errors import UserError
from gswm.core.records import concatenate
from gswm.data.episode import Corridors, Episodes, Truth
from gswm.data.storage.hdf5 import open_file, read
from gswm.data.storage.layouts import Layout
from gswm.data.storage.writer import Writer
from gswm.data.worlds.sprites import draw

GENERATOR = torch.Generator().manual_seed(3)
COLORS = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=torch.float64)


def random(*shape: int, low: float = 0, high: float = 1) -> torch.Tensor:
    return torch.rand(shape, generator=GENERATOR, dtype=torch.float64) * (high - low) + low


def drawn(truth: Truth) -> torch.Tensor:
    flat = [getattr(truth, name).flatten(0, 1) for name in ("positions", "sizes", "colors")]
    return draw(*flat, 64).unflatten(0, truth.sizes.shape[:2])


def disks(positions: torch.Tensor, radius: float, present: torch.Tensor, **known) -> Episodes:
    """Episodes of colored disks; empty slots are zeros."""
    there = present[..., None].double()
    n, t, o = present.shape
    slot = torch.arange(o).expand(n, t, o)
    steps = positions.diff(dim=1)
    truth = Truth(
        positions=positions * there,
        velocities=torch.cat([steps, steps[:, -1:]], dim=1) * there,
        sizes=radius * present.double(),
        layers=known.pop("layers", torch.zeros_like(slot)),
        order=known.pop("order", slot).clone(),
        colors=COLORS[slot % 3] * there,
        ids=(slot + 1) * present,
        present=present.clone(),
    )
    return Episodes(drawn(truth), truth, **known)


def balls(episodes: int = 4, frames: int = 6) -> Episodes:
    """Two layers, and one slot of five that is empty."""
    present = torch.tensor([1, 1, 1, 1, 0]).bool().expand(episodes, frames, 5)
    layers = torch.tensor([0, 0, 1, 1, 0]).expand(episodes, frames, 5)
    return disks(random(episodes, frames, 5, 2, low=8, high=56), 8.0, present, layers=layers)


def single_ball() -> Episodes:
    time = torch.arange(9.0, dtype=torch.float64)
    x = 32 + torch.tensor([[-6.25], [6.25], [6.25]]) * (time - 4).clamp_min(0)
    positions = torch.stack([x, (7 + 6.25 * time).expand(3, 9)], dim=-1)[:, :, None]
    return disks(positions, 7.0, torch.ones(3, 9, 1, dtype=torch.bool))


def maze(slots: int = 5) -> Episodes:
    """Agents that walk round the outer ring of corridors, in 3 of the slots."""
    ring = [(0, c) for c in range(7)] + [(r, 6) for r in range(1, 7)]
    ring += [(6, c) for c in range(5, -1, -1)] + [(r, 0) for r in range(5, 0, -1)]
    steps = torch.tensor(ring)
    cells = torch.zeros(2, 10, slots, 2, dtype=torch.long)
    for episode in range(2):
        for agent in range(3):
            cells[episode, :, agent] = steps.roll(-(5 * agent + episode), 0)[:10]
    present = torch.zeros(2, 19, slots, dtype=torch.bool)
    present[:, :, :3] = True
    grid = torch.zeros(2, 7, 7, dtype=torch.long)
    grid[:, 0] = grid[:, -1] = grid[:, :, 0] = grid[:, :, -1] = 1
    at = (cells.flip(-1).double() + 0.5) * 64 / 7
    frames = torch.stack([at[:, :-1], (at[:, :-1] + at[:, 1:]) / 2], dim=2).flatten(1, 2)
    positions = torch.cat([frames, at[:, -1:]], dim=1)
    return disks(positions, 64 / 14, present, corridors=Corridors(grid, cells))


def video() -> Episodes:
    return Episodes((random(5, 4, 3, 8, 12) * 256).byte())


WORLDS: list[tuple[Layout, Episodes]] = [
    ("balls", balls()),
    ("single-ball", single_ball()),
    ("maze", maze()),
    ("video", video()),
]
RELEASE = {
    "balls": {
        "imgs": ((4, 6, 64, 64, 3), "uint8"),
        "positions": ((4, 6, 5, 2), "float64"),
        "velocities": ((4, 6, 5, 2), "float64"),
        "sizes": ((4, 6, 5), "float64"),
        "masses": ((4, 6, 5), "float64"),
        "layers": ((4, 6, 5), "float64"),
        "shapes": ((4, 6, 5), "float64"),
        "present": ((4, 6, 5), "float64"),
        "in_camera": ((4, 6, 5), "float64"),
        "ids": ((4, 6, 5), "float64"),
        "colors": ((4, 6, 5, 3), "float64"),
    },
    "single-ball": {
        "imgs": ((3, 9, 64, 64, 3), "uint8"),
        "positions": ((3, 9, 2), "float64"),
        "directions": ((3,), "int64"),
    },
    "maze": {
        "imgs": ((2, 19, 64, 64, 3), "uint8"),
        "grids": ((2, 7, 7), "int8"),
        "trajs": ((2, 10, 5, 2), "int64"),
        "pres": ((2, 10, 5), "float64"),
    },
    "video": {"imgs": ((5, 4, 8, 12, 3), "uint8")},
}


def write(path: Path, layout: Layout, episodes: Episodes, **settings) -> Path:
    with Writer(path, layout, **settings) as writer:
        for i in range(0, len(episodes), 2):
            writer.append(episodes[i : i + 2])
    return path


def assert_same(a: Episodes, b: Episodes) -> None:
    assert torch.equal(a.video, b.video)
    for part in ("truth", "corridors"):
        one, other = getattr(a, part), getattr(b, part)
        assert (one is None) == (other is None)
        for field in fields(one) if one is not None else ():
            wanted, found = getattr(one, field.name), getattr(other, field.name)
            torch.testing.assert_close(found, wanted, msg=f"{part}.{field.name}")


@pytest.mark.parametrize(("layout", "episodes"), WORLDS)
def test_what_is_written_is_read(layout: Layout, episodes: Episodes, tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", layout, episodes)
    assert_same(read(path), episodes)
    assert_same(read(path, slice(1, 3)), episodes[1:3])
    assert open_file(path).layout == layout
    assert os.listdir(tmp_path) == ["a.hdf5"]


def acting(episodes: Episodes) -> Episodes:
    """The same with actions, rewards and backgrounds."""
    n, time, _, height, width = episodes.video.shape
    ground = (random(n, 3, height, width) * 256).byte()
    return replace(
        episodes,
        actions=random(n, time, 2).float(),
        rewards=random(n, time).float(),
        background=ground,
    )


@pytest.mark.parametrize(("layout", "episodes"), WORLDS)
def test_any_layout_holds_actions_rewards_and_backgrounds(
    layout: Layout, episodes: Episodes, tmp_path: Path
) -> None:
    whole = acting(episodes)
    path = write(tmp_path / "a.hdf5", layout, whole)
    found = read(path)
    assert_same(found, episodes)
    for name in ("actions", "rewards", "background"):
        assert torch.equal(getattr(found, name), getattr(whole, name))
        assert torch.equal(getattr(read(path, slice(1, 2)), name), getattr(whole, name)[1:2])
    n, time, _, height, width = episodes.video.shape
    with h5py.File(path) as file:
        held = {key: (data.shape, str(data.dtype)) for key, data in file.items()}
    assert held == RELEASE[layout] | {
        "actions": ((n, time, 2), "float32"),
        "rewards": ((n, time), "float32"),
        "backgrounds": ((n, height, width, 3), "uint8"),
    }


def test_episodes_with_other_parts_than_those_before_them_are_refused(tmp_path: Path) -> None:
    whole = acting(video())
    assert whole.actions is not None
    wide = replace(whole, actions=whole.actions.repeat(1, 1, 2))
    few = "only some of its episodes have `rewards`"
    differ = "`actions` has the shape .* in some episodes, but .* in earlier ones"
    with Writer(tmp_path / "a.hdf5", "video") as writer:
        writer.append(whole)
        for other, said in ((replace(whole, rewards=None), few), (wide, differ)):
            with pytest.raises(UserError, match=said):
                writer.append(other)
    assert len(read(tmp_path / "a.hdf5")) == len(whole)


@pytest.mark.parametrize(("layout", "episodes"), WORLDS)
def test_a_file_has_the_keys_shapes_and_types_of_the_release(
    layout: Layout, episodes: Episodes, tmp_path: Path
) -> None:
    with h5py.File(write(tmp_path / "a.hdf5", layout, episodes)) as file:
        found = {key: (data.shape, str(data.dtype)) for key, data in file.items()}
    assert found == RELEASE[layout]


def test_the_values_of_a_ball_file_mean_what_they_do_in_the_release(tmp_path: Path) -> None:
    episodes = balls()
    assert episodes.truth is not None
    episodes.truth.present[0, 2, 1] = False  # seen before, and out of sight in frame 2
    with h5py.File(write(tmp_path / "a.hdf5", "balls", episodes)) as file:
        held = {key: data[:] for key, data in file.items()}
    assert held["ids"][0, 1].tolist() == [1, 2, 3, 4, 0]
    assert held["ids"][0, 2].tolist() == [1, 0, 3, 4, 0]
    assert held["in_camera"][0, 2].tolist() == [1, 0, 1, 1, 0]
    assert held["present"][0, 2].tolist() == [1, 1, 1, 1, 0]
    assert held["masses"][0, 2].tolist() == [1, 1, 1, 1, 0]
    assert held["sizes"][0, 2].tolist() == [8, 0, 8, 8, 0]
    assert held["positions"][0, 2, 1].tolist() == [0, 0]
    assert not held["shapes"].any()
    pixel = episodes.video[3, 5, :, 20, 30].tolist()
    assert held["imgs"][3, 5, 20, 30].tolist() == pixel


def test_directions_of_a_single_ball_are_0_left_and_1_right(tmp_path: Path) -> None:
    with h5py.File(write(tmp_path / "a.hdf5", "single-ball", single_ball())) as file:
        assert file["directions"][:].tolist() == [0, 1, 1]


def test_the_color_of_an_agent_is_found_though_another_covers_it(tmp_path: Path) -> None:
    episodes = maze()
    assert episodes.corridors is not None
    cells = episodes.corridors.cells.clone()
    cells[:, :7, 1] = cells[:, :7, 0]  # the second covers the first, but for three steps,
    cells[:, 5:, 2] = cells[:, 5:, 1]  # and the third the second in the end
    at = (cells.flip(-1).double() + 0.5) * 64 / 7
    positions = torch.zeros(2, 19, 5, 2, dtype=torch.float64)
    positions[:, ::2], positions[:, 1::2] = at, (at[:, :-1] + at[:, 1:]) / 2
    assert episodes.truth is not None
    corridors = Corridors(episodes.corridors.grid, cells)
    covered = disks(positions, 64 / 14, episodes.truth.present, corridors=corridors)
    assert_same(read(write(tmp_path / "a.hdf5", "maze", covered)), covered)


def test_a_maze_of_fewer_slots_is_padded_to_the_release_s_five(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", "maze", maze(slots=4))
    assert_same(read(path), maze(slots=5))


def released(path: Path, layout: Layout) -> dict[str, np.ndarray]:
    """A file as the release's generators write it: plain, contiguous, no attributes."""
    rng = np.random.default_rng(0)
    arrays = {
        key: rng.integers(0, 2, shape).astype(kind)
        for key, (shape, kind) in RELEASE[layout].items()
    }
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array)
    return arrays


@pytest.mark.parametrize("layout", RELEASE)
def test_a_file_of_the_release_opens(layout: Layout, tmp_path: Path) -> None:
    arrays = released(tmp_path / "val.hdf5", layout)
    file = open_file(tmp_path / "val.hdf5")
    assert file.layout == layout
    episodes = read(file.path, split="val")
    assert torch.equal(episodes.video.permute(0, 1, 3, 4, 2), torch.tensor(arrays["imgs"]))
    if layout == "balls":
        assert episodes.truth is not None
        assert torch.equal(episodes.truth.velocities, torch.tensor(arrays["velocities"]))
        assert torch.equal(episodes.truth.present, torch.tensor(arrays["in_camera"] == 1))
    if layout == "maze":
        assert episodes.corridors is not None
        assert torch.equal(episodes.corridors.grid, torch.tensor(arrays["grids"]).long())


def test_layer_1_is_in_front_of_layer_0_and_in_a_layer_the_later_slot(tmp_path: Path) -> None:
    layers, order = (torch.tensor(x).expand(1, 2, 4) for x in ([1, 0, 1, 0], [2, 0, 3, 1]))
    present = torch.ones(1, 2, 4, dtype=torch.bool)
    episodes = disks(random(1, 2, 4, 2), 8.0, present, layers=layers, order=order)
    truth = read(write(tmp_path / "a.hdf5", "balls", episodes)).truth
    assert truth is not None
    assert truth.order.tolist() == [[[2, 0, 3, 1]] * 2]


WRONG: list[tuple[Layout, Episodes, str]] = [
    ("balls", maze(), "'balls' cannot store the corridors of these episodes: choose maze"),
    ("single-ball", maze(), "cannot store the corridors"),
    ("video", balls(), "'video' cannot store the truth"),
    ("maze", balls(), "'maze' needs the corridors"),
    ("obj3d", balls(), "'obj3d' needs the space"),
    ("balls", video(), "'balls' needs the truth"),
    ("single-ball", balls(), "cannot store the presence"),
]


@pytest.mark.parametrize(("layout", "episodes", "said"), WRONG)
def test_a_layout_that_cannot_hold_all_parts_of_the_episodes_is_refused(
    layout: Layout, episodes: Episodes, said: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=said) as error:
        write(tmp_path / "a.hdf5", layout, episodes)
    assert len(str(error.value).splitlines()) == 1
    assert os.listdir(tmp_path) == []


CHANGES = {
    "balls": {"hw": 3.0, "order": -1},
    "single-ball": {"sizes": 2.0, "velocities": 2.0, "layers": 1},
    "maze": {"positions": 1.01, "velocities": -1.0, "sizes": 0.5, "ids": 2, "order": -1},
}


@pytest.mark.parametrize(
    ("layout", "name", "factor"),
    [(a, n, f) for a, each in CHANGES.items() for n, f in each.items()],
)
def test_a_layout_from_which_other_objects_would_be_read_is_refused(
    layout: Layout, name: str, factor: float, tmp_path: Path
) -> None:
    episodes = dict(WORLDS)[layout]
    assert episodes.truth is not None
    values = episodes.truth.boxes_hw() if name == "hw" else getattr(episodes.truth, name)
    changed = values + 1 if name == "layers" else values * factor
    other = replace(episodes, truth=replace(episodes.truth, **{name: changed}))
    with pytest.raises(UserError, match=f"the layout '{layout}' cannot store the {name}"):
        write(tmp_path / "a.hdf5", layout, other)


def test_an_object_out_of_the_frame_may_be_anywhere(tmp_path: Path) -> None:
    episodes = balls()
    assert episodes.truth is not None
    episodes.truth.positions[~episodes.truth.present] = 5.0
    episodes.truth.order[~episodes.truth.present] = -3
    assert read(write(tmp_path / "a.hdf5", "balls", episodes)).truth is not None


def test_windows_are_those_of_the_whole_episodes(tmp_path: Path) -> None:
    episodes = balls()
    file = open_file(write(tmp_path / "a.hdf5", "balls", episodes))
    assert (len(file), file.frames, file.height, file.width) == (4, 6, 64, 64)
    assert torch.equal(file.video([3, 0, 3], 2, 3), episodes.video[[3, 0, 3], 2:5])
    each = file.video([1, 2], [0, 4], 2)
    assert torch.equal(each, torch.stack([episodes.video[1, 0:2], episodes.video[2, 4:6]]))
    assert torch.equal(file.video([2]), episodes.video[[2]])
    for wrong in ([4], 0, 2), ([-1], 0, 2), ([0], 5, 2):
        with pytest.raises(IndexError):
            file.video(*wrong)


def test_a_file_can_be_sent_to_another_process(tmp_path: Path) -> None:
    episodes = video()
    file = pickle.loads(pickle.dumps(open_file(write(tmp_path / "a.hdf5", "video", episodes))))
    assert torch.equal(file.video([4]), episodes.video[[4]])
    if (child := os.fork()) == 0:
        inherited = file._handle
        same = torch.equal(file.video([4]), episodes.video[[4]])
        os._exit(0 if same and file._handle is not inherited else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_splits_and_sources_are_kept(tmp_path: Path) -> None:
    episodes = video()
    with Writer(tmp_path / "a.hdf5", "video") as writer:
        writer.append(episodes[:2], split="train", source="ä.mp4")
        writer.append(episodes[2:3], split="test", source="b.mp4")
        writer.append(episodes[3:], split="train", source="c.mp4")
    file = open_file(tmp_path / "a.hdf5")
    assert file.sources == ["ä.mp4", "ä.mp4", "b.mp4", "c.mp4", "c.mp4"]
    assert torch.equal(read(file.path, split="test").video, episodes.video[2:3])
    train = concatenate([episodes[:2], episodes[3:]])
    assert torch.equal(read(file.path, slice(1, 3), split="train").video, train.video[1:3])
    with pytest.raises(UserError, match="no episodes of split 'val'; it has test, train"):
        read(file.path, split="val")


def test_a_file_of_one_split_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", "video", video(), attributes={"split": "val", "seed": 8})
    assert len(read(path, split="val")) == 5
    with pytest.raises(UserError, match="no episodes of split 'train'"):
        read(path, split="train")
    unnamed = write(tmp_path / "b.hdf5", "video", video())
    with pytest.raises(UserError, match=r"belong to 'train': add the key `splits`.*train\.hdf5"):
        read(unnamed, split="train")


def test_an_existing_file_stays_unless_forced(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", "video", video())
    before = path.read_bytes()
    with pytest.raises(UserError, match="exists; use --force"):
        write(path, "video", video())
    assert path.read_bytes() == before
    write(path, "balls", balls(), force=True)
    assert open_file(path).layout == "balls"


def interrupted(path: Path, stop: type[BaseException], **settings) -> None:
    with Writer(path, "video", **settings) as writer:
        writer.append(video())
        raise stop


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError, UserError])
def test_a_run_that_stops_leaves_nothing(stop: type[BaseException], tmp_path: Path) -> None:
    with pytest.raises(stop):
        interrupted(tmp_path / "a.hdf5", stop)
    assert os.listdir(tmp_path) == []


def test_a_run_that_stops_leaves_the_file_it_would_have_replaced(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", "video", video())
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        interrupted(path, KeyboardInterrupt, force=True)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.hdf5"]


def test_nothing_to_write_is_an_error_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no episodes"), Writer(tmp_path / "a.hdf5", "video"):
        pass
    assert os.listdir(tmp_path) == []


LIMITED = """
import resource, sys, torch
from gswm.data.episode import Episodes
from gswm.data.storage.writer import Writer
from gswm.core.errors import UserError

path, *limits = sys.argv[1:]
for limit in map(int, limits):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        with Writer(path, "video") as writer:
            for _ in range(4):
                writer.append(Episodes(torch.zeros(1, 10, 3, 64, 64, dtype=torch.uint8)))
    except UserError as error:
        print(limit, error)
"""


@pytest.mark.slow
def test_a_file_that_cannot_grow_is_one_line_and_no_file(tmp_path: Path) -> None:
    path, limits = tmp_path / "a.hdf5", ("100", "100000", "300000", "494000")
    command = [sys.executable, "-c", LIMITED, str(path), *limits]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    said = f"{path}: cannot be written: the file is larger than the system allows"
    assert run.stdout.splitlines() == [f"{limit} {said}" for limit in limits]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("code", "said"), [(28, "the disk is full"), (122, "the disk is full")])
def test_a_full_disk_is_one_line_and_no_file(
    code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(f"Can't write data (file write failed: errno = {code}, error message = ...)")

    monkeypatch.setattr(h5py.Dataset, "__setitem__", full)
    with pytest.raises(UserError, match=rf"a\.hdf5: cannot be written: {said}"):
        write(tmp_path / "a.hdf5", "video", video())
    assert os.listdir(tmp_path) == []


def test_no_permission_is_one_line_for_writing_and_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.hdf5", "video", video())

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Unable to open file (errno = 13)")

    monkeypatch.setattr(h5py, "File", denied)
    with pytest.raises(UserError, match=r"b\.hdf5: cannot be written: permission denied"):
        write(tmp_path / "b.hdf5", "video", video())
    with pytest.raises(UserError, match=r"a\.hdf5: cannot be read: permission denied"):
        read(path)
    assert os.listdir(tmp_path) == ["a.hdf5"]


def test_a_file_in_place_of_the_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        write(tmp_path / "folder" / "a.hdf5", "video", video())
    with pytest.raises(UserError, match="is a folder"):
        write(tmp_path, "video", video())


def broken_files(folder: Path) -> dict[str, Path]:
    whole = write(folder / "whole.hdf5", "balls", balls()).read_bytes()
    (folder / "text.hdf5").write_text("no HDF5")
    (folder / "cut.hdf5").write_bytes(whole[: len(whole) // 2])
    kinds = {
        "none.hdf5": {"frames": np.zeros(3)},
        "float.hdf5": {"imgs": np.zeros((1, 2, 8, 8, 3))},
        "flat.hdf5": {"imgs": np.zeros((2, 8, 8, 3), np.uint8)},
        "grey.hdf5": {"imgs": np.zeros((1, 2, 8, 8, 1), np.uint8)},
        "steps.hdf5": {
            "imgs": np.zeros((1, 9, 8, 8, 3), np.uint8),
            "grids": np.zeros((1, 7, 7), np.int8),
            "trajs": np.zeros((1, 9, 5, 2), np.int64),
            "pres": np.zeros((1, 9, 5)),
        },
        "short.hdf5": {
            "imgs": np.zeros((4, 9, 8, 8, 3), np.uint8),
            "positions": np.zeros((4, 8, 2)),
            "directions": np.zeros(4, np.int64),
        },
    }
    imgs = np.zeros((2, 3, 8, 9, 3), np.uint8)
    for name, key, array in (
        ("actions-flat", "actions", np.zeros((2, 3), np.float32)),
        ("actions-short", "actions", np.zeros((2, 2, 4), np.float32)),
        ("actions-none", "actions", np.zeros((2, 3, 0), np.float32)),
        ("actions-text", "actions", np.full((2, 3, 1), b"up")),
        ("rewards-few", "rewards", np.zeros((1, 3), np.float32)),
        ("actions-long", "actions", np.zeros((2, 3, 4), np.longdouble)),
        ("ground-turned", "backgrounds", np.zeros((2, 9, 8, 3), np.uint8)),
        ("ground-float", "backgrounds", np.zeros((2, 8, 9, 3), np.float32)),
    ):
        kinds[f"{name}.hdf5"] = {"imgs": imgs, key: array}
    for name, arrays in kinds.items():
        with h5py.File(folder / name, "w") as file:
            for key, array in arrays.items():
                file[key] = array
    return {path.stem: path for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("missing", "does not exist"),
        ("text", "cannot be read: it is not an HDF5 file"),
        ("cut", "cannot be read: the file is truncated"),
        ("none", "has no key `imgs`, the video; it has frames"),
        ("float", "`imgs` is float64; expected uint8"),
        ("flat", r"`imgs` has the shape (2, 8, 8, 3); expected (N, T, H, W, 3)"),
        ("grey", r"`imgs` has the shape (1, 2, 8, 8, 1); expected (N, T, H, W, 3)"),
        ("steps", "`trajs` has 9 steps for 9 frames; expected one every two"),
        ("short", "`positions` has the shape (4, 8, 2); expected (4, 9, 2)"),
        ("actions-flat", "`actions` has the shape (2, 3); expected (2, 3, A)"),
        ("actions-short", "`actions` has the shape (2, 2, 4); expected (2, 3, A)"),
        ("actions-none", "`actions` has no values"),
        ("actions-text", "`actions` is text; expected float32"),
        pytest.param(
            *("actions-long", "; expected float32"),
            marks=pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="none here"),
        ),
        ("rewards-few", "`rewards` has the shape (1, 3); expected (2, 3)"),
        ("ground-turned", "`backgrounds` has the shape (2, 9, 8, 3); expected (2, 8, 9, 3)"),
        ("ground-float", "`backgrounds` is float32; expected uint8"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(kind: str, said: str, tmp_path: Path) -> None:
    path = broken_files(tmp_path).get(kind, tmp_path / "missing.hdf5")
    with pytest.raises(UserError) as error:
        read(path)
    assert str(error.value).startswith(str(path))
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_a_file_that_lacks_some_of_the_truth_is_a_video(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", "balls", balls())
    with h5py.File(path, "r+") as file:
        del file["velocities"]
        del file["masses"]
    assert read(path).truth is None
    with open_file(path) as opened:
        assert opened.layout == "video"
        said = opened.ignored or ""
    assert "positions, present" in said
    assert said.endswith("are ignored: the layout balls also needs velocities, masses")


def test_a_key_of_other_axes_is_named_with_its_shape(tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        file["imgs"] = np.zeros((3, 9, 8, 8, 3), np.uint8)
        file["positions"] = np.zeros((3, 9, 2))
        file["directions"] = np.zeros((3, 9))
    with open_file(path) as opened:
        assert "directions of shape (N)" in (opened.ignored or "")


def test_complete_files_ignore_nothing(tmp_path: Path) -> None:
    for layout, episodes in (("balls", balls()), ("video", video())):
        with open_file(write(tmp_path / f"{layout}.hdf5", layout, episodes)) as file:
            assert file.ignored is None

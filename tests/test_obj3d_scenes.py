"""Physics of the 3D world, its scenes, and scene files."""

import math
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

import gswm
from gswm.cli import main
from gswm.core.errors import UserError
from gswm.data.worlds.obj3d import scene_file
from gswm.data.worlds.obj3d.camera import Camera
from gswm.data.worlds.obj3d.scene_file import SceneFile
from gswm.data.worlds.obj3d.scenes import (
    Scenes,
    first_touch,
    join,
    make_scenes,
    on_plane,
    one_scene,
    record,
)
from gswm.data.worlds.obj3d.settings import (
    COLORS,
    CUBE,
    CYLINDER,
    HARD,
    SHADOWS,
    SPHERE,
    TWO,
    Settings,
)
from gswm.data.worlds.obj3d.simulation import (
    SUBSTEPS,
    Looks,
    SceneStart,
    height,
    masses,
    mujoco_xml,
    simulate,
)
from gswm.data.worlds.obj3d.world import solids_of

MOMENTUM = 1e-9
"""Relative change of momentum that a simulated scene may have."""
DEPTH = 0.08
"""The largest overlap of two objects: two thirds of a pixel of 64."""
EPISODES = 12
FREE = Settings(friction=0.0, mass=None)


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return join(list(make_scenes(Settings(), seed=5, n=EPISODES, workers=1)))


def two(
    shape: int = SPHERE, radii: tuple[float, float] = (0.7, 0.7), off: float = 0.0, yaw: float = 0.0
) -> SceneStart:
    """A sphere that comes along y at 0.2 a frame, and something `off` its way."""
    looks = Looks(np.array([SPHERE, shape]), np.zeros(2, int), np.ones((2, 3)), np.array(radii))
    poses = np.array([[0, -3.0, 0], [off, 0, yaw]])
    return SceneStart(looks, poses, np.array([[0, 0.2, 0], [0, 0, 0.0]]))


@pytest.mark.parametrize(("e", "off"), [(1.0, 0.005), (0.9, 0.005), (0.6, 0.04), (0.3, 0.08)])
@pytest.mark.parametrize("radii", [(0.7, 0.7), (0.4, 0.4)])
def test_spheres_part_at_the_restitutions_share_of_the_speed_they_meet_at(
    e: float, off: float, radii: tuple[float, float]
) -> None:
    path = simulate(two(radii=radii), replace(FREE, restitution=e))
    one, other = path.motions[-1, :, 1]
    assert (other - one) / 0.2 == pytest.approx(e, abs=off)
    assert one + other == pytest.approx(0.2, abs=1e-9)


def test_a_contact_is_when_the_distance_says_and_gives_what_the_other_takes() -> None:
    start = two(CYLINDER, (0.7, 0.4), off=0.3)
    path = simulate(start, FREE)
    assert len(path.contacts) == 1
    contact = path.contacts[0]
    assert contact.pair == (0, 1)
    meet = (3 - math.sqrt((0.7 + 0.4) ** 2 - 0.3**2)) / 0.2
    assert meet <= contact.time < meet + 2  # the rim of a low cylinder is met a little later
    taken = masses(start.looks, FREE)[1] * path.motions[-1, 1, :2]
    np.testing.assert_allclose(contact.impulse, taken, atol=1e-9)


@pytest.mark.parametrize("shape", [CYLINDER, CUBE])
def test_what_is_hit_off_its_center_spins(shape: int) -> None:
    straight, off = (simulate(two(shape, off=by), FREE).motions[-1] for by in (0.0, 0.35))
    assert abs(straight[1, 2]) < 1e-6
    assert abs(off[1, 2]) > 0.003


def test_a_turned_cube_moves_in_the_directions_of_the_plane() -> None:
    path = simulate(two(CUBE, yaw=math.pi / 4), replace(FREE, grip=0.0))
    assert abs(path.motions[-1, 1, 0]) < 1e-3
    assert path.motions[-1, 1, 1] > 0.1


def test_masses_are_all_alike_or_as_volumes_are() -> None:
    looks = Looks(
        np.array([SPHERE, CYLINDER, CUBE]), np.array([0, 0, 1]), np.ones((3, 3)), np.full(3, 0.5)
    )
    np.testing.assert_array_equal(masses(looks, Settings(mass=2.0)), [2, 2, 2])
    by_volume = masses(looks, Settings(mass=None, densities=(1.0, 3.0)))
    volumes = [4 / 3 * math.pi * 0.5**3, math.pi * 0.5**2 * 1.0, 3 * (math.sqrt(2) * 0.5) ** 3]
    np.testing.assert_allclose(by_volume, volumes)


def test_friction_of_the_surface_takes_its_share_in_every_frame() -> None:
    start = two(off=5.0)
    path = simulate(start, Settings(friction=0.05, num_frames=30))
    speeds = path.motions[:, 0, 1]
    np.testing.assert_allclose(speeds, 0.2 * 0.95 ** np.arange(30), rtol=1e-2)


@pytest.mark.parametrize("shape", [SPHERE, CYLINDER, CUBE])
def test_nothing_falls_tips_or_leaves_the_plane(shape: int) -> None:
    start = two(shape, radii=(0.7, 0.4), off=0.3, yaw=0.4)  # hit above its middle
    model = mujoco.MjModel.from_xml_string(mujoco_xml(start, Settings()))
    data = mujoco.MjData(model)
    data.qpos[2::3], data.qvel[:] = start.poses[:, 2], start.motions.ravel()
    touched = False
    for _ in range(30 * SUBSTEPS):
        mujoco.mj_step(model, data)
        touched |= data.ncon > 0
        np.testing.assert_allclose(data.xpos[1:, 2], [0.7, height(shape, 0.4)], atol=1e-12)
        np.testing.assert_allclose(data.xmat[1:].reshape(-1, 3, 3)[:, 2], [[0, 0, 1]] * 2)
    assert touched


def test_momentum_is_kept_and_nothing_leaves_its_way_without_a_contact() -> None:
    start = two(CUBE, off=0.3, yaw=0.4)
    path = simulate(start, FREE)
    momentum = (masses(start.looks, FREE)[:, None] * path.motions[..., :2]).sum(axis=1)
    assert np.abs(momentum - momentum[0]).max() < MOMENTUM * np.linalg.norm(momentum[0])
    before = int(path.contacts[0].time)
    np.testing.assert_allclose(path.poses[before, 0, 1], -3 + 0.2 * before, atol=1e-9)


def test_momentum_of_recorded_scenes_is_kept_to_half_precision() -> None:
    scenes = join([one_scene(SHADOWS, seed=5, index=i) for i in range(4)])
    speeds = scenes.motions[..., :2].astype(np.float64)
    momentum = (scenes.masses[:, None, :, None] * speeds).sum(axis=2)
    lost = np.linalg.norm(momentum - momentum[:, :1], axis=-1)
    assert (lost < 4e-3 * np.linalg.norm(momentum[:, :1], axis=-1)).all()


def test_motions_are_the_steps_of_poses_where_nothing_touches(scenes: Scenes) -> None:
    steps = np.diff(scenes.poses, axis=1)
    free = scenes.impulses()[:, 1:].sum(axis=-1) == 0
    free[:, 1:] &= scenes.impulses()[:, 1:-1].sum(axis=-1) == 0
    assert free.mean() > 0.9
    speeds = scenes.motions.astype(np.float32)
    means = (speeds[:, 1:] + speeds[:, :-1]) / 2  # friction slows objects down on the way
    free[:, 1:] &= free[:, :-1]
    free[:, 0] = False
    np.testing.assert_allclose(steps[free], means[free], atol=1e-3)


def test_no_two_objects_are_in_each_other(scenes: Scenes) -> None:
    assert scenes.contacts.depth.max() < DEPTH
    for episode in range(4):
        there = scenes.shapes[episode] > 0
        looks = Looks(
            scenes.shapes[episode, there].astype(np.int64),
            scenes.materials[episode, there].astype(np.int64),
            scenes.colors[episode, there].astype(np.float64),
            scenes.radii[episode, there].astype(np.float64),
        )
        poses = scenes.poses[episode, :, there].swapaxes(0, 1).astype(np.float64)
        model = mujoco.MjModel.from_xml_string(
            mujoco_xml(SceneStart(looks, poses[0], np.zeros_like(poses[0])), Settings())
        )
        data = mujoco.MjData(model)
        for frame in range(0, 100, 3):
            data.qpos[:] = (poses[frame] - poses[0] * [1, 1, 0]).ravel()
            mujoco.mj_forward(model, data)
            assert all(contact.dist > -DEPTH for contact in data.contact)


def test_the_first_contact_comes_after_the_tenth_frame(scenes: Scenes) -> None:
    for episode in range(EPISODES):
        assert 10.5 <= scenes.contacts.time[scenes.contacts.episode == episode].min() <= 28
    assert not scenes.impulses()[:, :11].any()
    assert (scenes.impulses()[:, 11:29].sum(axis=(1, 2, 3)) > 0).all()


def test_only_the_sphere_moves_at_first_and_everything_is_in_view(scenes: Scenes) -> None:
    assert (scenes.shapes[:, 0] == SPHERE).all()
    assert not scenes.motions[:, :11, 1:].any()
    first = replace(scenes, poses=scenes.poses[:, :1], motions=scenes.motions[:, :1])
    boxes = Camera(Settings().camera, 64).boxes(solids_of(first))
    others = torch.from_numpy(first.shapes[:, 1:] > 0)
    assert boxes[:, 1:][others].min() > 0
    assert boxes[:, 1:][others].max() < 64
    center = (boxes[:, 0, :2] + boxes[:, 0, 2:]) / 2  # of the sphere, which the frame may cut
    assert center.min() > 0
    assert center.max() < 64


def test_numbers_of_objects_are_as_the_settings_say(scenes: Scenes) -> None:
    counts = (scenes.shapes > 0).sum(axis=1) - 1
    assert set(counts) == {3, 4}
    assert (np.sort(scenes.shapes == 0, axis=1) == (scenes.shapes == 0)).all()
    hard = one_scene(HARD, seed=1, index=0)
    assert 6 <= (hard.shapes > 0).sum() - 1 <= 8
    usual = {COLORS[name] for name in Settings().colors}
    assert not usual & {tuple(map(float, color)) for color in hard.colors[0].round(4)}


def test_an_episode_does_not_depend_on_the_others(scenes: Scenes) -> None:
    alone = one_scene(Settings(), seed=5, index=7)
    np.testing.assert_array_equal(alone.poses[0], scenes.poses[7])
    np.testing.assert_array_equal(alone.impulses()[0], scenes.impulses()[7])
    np.testing.assert_array_equal(scenes[7:8].impulses()[0], scenes.impulses()[7])
    assert not np.array_equal(one_scene(Settings(), seed=6, index=7).poses, alone.poses)


def test_impulses_are_contacts_by_frame(scenes: Scenes) -> None:
    expected = np.zeros((EPISODES, 100, 5, 5))
    c = scenes.contacts
    for i, episode in enumerate(c.episode):
        frame = min(math.floor(c.time[i]) + 1, 99)
        one, other = c.pair[i]
        expected[episode, frame, one, other] += math.hypot(*c.impulse[i])
        expected[episode, frame, other, one] += math.hypot(*c.impulse[i])
    np.testing.assert_allclose(scenes.impulses(), expected, rtol=1e-5)


@pytest.mark.parametrize("substep", [0, 1, 63])
def test_an_impulse_is_in_the_frame_that_shows_what_it_did(substep: int) -> None:
    start, settings = two(), FREE
    start.poses[0, 1] -= 0.2 * (substep - 0.5) / SUBSTEPS
    scene = record(start, simulate(start, settings), settings)
    assert scene.contacts.time.tolist() == [8 + substep / SUBSTEPS]
    moved = scene.motions[0, :, 1].any(axis=-1)
    pushed = scene.impulses()[0, :, 0, 1] > 0
    assert pushed.argmax() == moved.argmax() == 9


def test_the_first_touch_of_disks_is_found() -> None:
    start = two(off=0.5)
    assert first_touch(start) == pytest.approx((3 - math.sqrt(1.4**2 - 0.5**2)) / 0.2)
    assert first_touch(two(off=1.5)) == math.inf


def test_the_first_touch_is_later_with_friction_and_never_where_the_sphere_stops() -> None:
    settings = Settings(friction=0.05, num_frames=40)
    path = simulate(two(), settings)
    found = first_touch(two(), 0.05)
    assert found > first_touch(two())
    assert path.contacts[0].time == pytest.approx(found, abs=2 / SUBSTEPS)
    assert first_touch(two(), 0.5) == math.inf


def test_the_sphere_that_is_shot_is_of_its_own_materials(scenes: Scenes) -> None:
    assert (scenes.materials[:, 0] == 0).all()
    assert set(scenes.materials[:, 1:][scenes.shapes[:, 1:] > 0]) == {0, 1}
    shot = [one_scene(SHADOWS, seed=5, index=i).materials[0, 0] for i in range(8)]
    assert set(shot) == {0, 1}


def test_shares_of_the_picture_are_where_the_camera_sees_them() -> None:
    camera = Camera(Settings().camera, 64)
    xy = on_plane(camera.settings, np.array([0.25]), np.array([0.7]))[0]
    offset = torch.tensor([*xy, 0.0]) - torch.tensor(camera.settings.position)
    right, up, ahead = camera.axes(offset.float()) @ offset.float()
    assert (right / ahead / camera.half + 1) / 2 == pytest.approx(0.25, abs=1e-5)
    assert (-up / ahead / camera.half + 1) / 2 == pytest.approx(0.7, abs=1e-5)


def test_a_scene_file_gives_back_what_it_was_given(scenes: Scenes, tmp_path: Path) -> None:
    held = SceneFile(scenes, Settings(), "val", 5)
    scene_file.save(tmp_path / "a.hdf5", held)
    back = scene_file.load(tmp_path / "a.hdf5")
    assert (back.settings, back.split, back.seed) == (Settings(), "val", 5)
    for name in scene_file.ARRAYS:
        np.testing.assert_array_equal(getattr(back.scenes, name), getattr(scenes, name))
    np.testing.assert_array_equal(back.scenes.impulses(), scenes.impulses())
    scene_file.save(tmp_path / "b.hdf5", back)
    assert (tmp_path / "a.hdf5").read_bytes() == (tmp_path / "b.hdf5").read_bytes()
    size = (tmp_path / "a.hdf5").stat().st_size
    assert size / EPISODES * 3320 < 48e6


def test_scenes_are_made_by_a_command_and_refused_where_they_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "scenes" / "test.hdf5"
    args = ["data", "scenes", "--split", "test", "--episodes", "2", "--workers", "1"]
    assert main([*args, "--out", str(out)]) == 0
    assert "2 scenes of 100 frames" in capsys.readouterr().out
    assert scene_file.load(out).seed == 33
    assert main([*args, "obj3d-two", "--out", str(tmp_path / "two.hdf5")]) == 0
    assert scene_file.load(tmp_path / "two.hdf5").settings == TWO
    assert gswm.world(f"obj3d-two:{tmp_path / 'two.hdf5'}").name == "obj3d-two"
    with pytest.raises(UserError, match="has scenes of obj3d-two"):
        gswm.world(f"obj3d:{tmp_path / 'two.hdf5'}")
    assert main([*args, "--out", str(out)]) == 2
    assert "use --force" in capsys.readouterr().err
    (tmp_path / "no.hdf5").write_bytes(b"nothing")
    with pytest.raises(UserError, match="create it again"):
        scene_file.load(tmp_path / "no.hdf5")
    with pytest.raises(UserError, match="does not exist"):
        scene_file.load(tmp_path / "nowhere.hdf5")


def test_scenes_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gswm.data.worlds.obj3d.scenes.PLACES", 5)
    crowd = Settings(objects=(20, 20), radii=(1.5,))
    with pytest.raises(UserError, match="use fewer"):
        one_scene(crowd, seed=0, index=0)

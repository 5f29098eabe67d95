"""Requests to Blender, and the use of its output; Blender itself is not run here."""

import ast
import sys
from pathlib import Path

import pytest
import torch

from gswm.cli import main
from gswm.core.errors import UserError
from gswm.data.worlds.obj3d import blender, blender_program, scene_file
from gswm.data.worlds.obj3d.scene_file import SceneFile
from gswm.data.worlds.obj3d.scenes import Scenes, one_scene
from gswm.data.worlds.obj3d.settings import Settings
from gswm.data.worlds.obj3d.world import Obj3D, solids_of

SHORT = Settings(num_frames=3)
STAND_IN = """#!{python}
import sys
import numpy as np
held = dict(np.load(sys.argv[2]))
frames, size = len(held["shapes"]), int(held["size"])
masks = np.zeros((frames, size, size), np.uint8)
masks[:, 2:6, 2:6] = 1
video = np.full((frames, size, size, 3), int(held["samples"]), np.uint8)
np.savez(sys.argv[3], video=video, masks=masks)
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "python"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("GSWM_BLENDER", str(program))
    return program


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    scenes = one_scene(Settings(), seed=1, index=0)
    return Scenes(
        **{name: getattr(scenes, name) for name in scene_file.ARRAYS[:5]},
        poses=scenes.poses[:, :3],
        motions=scenes.motions[:, :3],
        contacts=scenes[:0].contacts,
    )


def test_blender_draws_the_video_and_rays_tell_the_truth(stand_in: Path, scenes: Scenes) -> None:
    drawn = Obj3D(settings=SHORT, image_size=16, renderer="blender").show(scenes)
    rays = Obj3D(settings=SHORT, image_size=16).show(scenes)
    assert (drawn.video == blender.SAMPLES).all()
    assert drawn.space is not None
    assert rays.space is not None
    assert torch.equal(drawn.space.masks, rays.space.masks)


def test_everything_that_the_program_reads_is_given(scenes: Scenes) -> None:
    given = blender.described(solids_of(scenes), Settings(), 16, 4)
    tree = ast.parse(Path(blender_program.__file__).read_text())
    read = {
        node.slice.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "held"
        and isinstance(node.slice, ast.Constant)
    }
    assert len(read) > 10
    assert read <= set(given)


def test_the_program_needs_nothing_of_this_package() -> None:
    tree = ast.parse(Path(blender_program.__file__).read_text())
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    own = {"importlib", "math", "os", "sys", "tempfile", "typing", "numpy"}
    assert names == own


def test_agreement_is_intersection_over_union_of_each_object() -> None:
    one, other = (torch.zeros(2, 4, 4, dtype=torch.uint8) for _ in range(2))
    one[0, :2], other[0, :1] = 1, 1
    one[1, 3], other[1, 3] = 2, 2
    other[1, 0, 0] = 3
    assert blender.agreement(one, other) == pytest.approx([0.5, 1.0, 0.0])


def test_renderers_are_compared_by_a_command(
    stand_in: Path, scenes: Scenes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "s.hdf5", tmp_path / "both.png"
    scene_file.save(file, SceneFile(scenes, SHORT, "test", 1))
    args = ["data", "compare", "--scenes", str(file), "--frames", "2", "--size", "16"]
    assert main([*args, "--out", str(out)]) == 0
    assert "objects in 2 frames of 16 pixels" in capsys.readouterr().out
    assert out.exists()
    assert main([*args, "--out", "x.gif"]) == 2


def test_what_blender_says_is_passed_on(
    stand_in: Path, scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.write_text(f"#!{sys.executable}\nraise SystemExit('no light')\n")
    with pytest.raises(UserError, match="no light"):
        blender.draw(solids_of(scenes), Settings(), 16)
    stand_in.write_text("no program")
    for named in (stand_in, stand_in.with_name("nonexistent")):
        monkeypatch.setenv("GSWM_BLENDER", str(named))
        with pytest.raises(UserError, match=f"GSWM_BLENDER is '{named}', which cannot be run"):
            blender.draw(solids_of(scenes), Settings(), 16)
    monkeypatch.delenv("GSWM_BLENDER")
    monkeypatch.setattr(blender.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install bpy"):
        blender.find_python()

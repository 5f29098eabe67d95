"""Every world, by its name."""

from dataclasses import replace
from pathlib import Path

from gswm.core.errors import UserError
from gswm.data.storage import hdf5
from gswm.data.worlds import balls
from gswm.data.worlds.base import World
from gswm.data.worlds.maze import Maze
from gswm.data.worlds.obj3d.world import OBJ3D, OBJ3D_HARD, Obj3D
from gswm.data.worlds.single_ball import SingleBall

BALLS = (balls.INTERACTION, balls.OCCLUSION, balls.TWO_LAYER, balls.TWO_LAYER_DENSE)
SOLIDS = (OBJ3D, OBJ3D_HARD)
WORLDS: dict[str, World] = {world.name: world for world in (*BALLS, SingleBall(), Maze(), *SOLIDS)}


def world(name: str) -> World:
    """The world called `name`; obj3d:FOLDER is that of the scene files in a folder."""
    if (base := base_name(name)) != name:
        return replace(Obj3D.of_folder(Path(name.removeprefix(f"{base}:"))), name=base)
    if name not in WORLDS:
        raise UserError(f"there is no world '{name}'; there are {', '.join(WORLDS)}")
    return WORLDS[name]


def base_name(name: str) -> str:
    """The name of a world, without the folder of its scenes."""
    base, _, folder = name.partition(":")
    return base if folder and base in (each.name for each in SOLIDS) else name


def world_of(name: str) -> str:
    """The name of a world, or of the one that is in a file; its layout where it does not say."""
    if not hdf5.is_name_of_file(name):
        return base_name(name)
    with hdf5.open_file(name) as file:
        return str(file.attributes.get("world", file.layout))

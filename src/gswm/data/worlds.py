"""Every world, by its name."""

from gswm.data import balls
from gswm.data.maze import Maze
from gswm.data.single_ball import SingleBall
from gswm.data.world import World
from gswm.errors import UserError

BALLS = (balls.INTERACTION, balls.OCCLUSION, balls.TWO_LAYER, balls.TWO_LAYER_DENSE)
WORLDS: dict[str, World] = {world.name: world for world in (*BALLS, SingleBall(), Maze())}


def world(name: str) -> World:
    """The world called `name`."""
    if name not in WORLDS:
        raise UserError(f"there is no world '{name}'; there are {', '.join(WORLDS)}")
    return WORLDS[name]

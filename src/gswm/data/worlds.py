"""Every world, by its name."""

from gswm.data import balls
from gswm.data.world import World
from gswm.errors import UserError

WORLDS: dict[str, World] = {
    world.name: world
    for world in (balls.INTERACTION, balls.OCCLUSION, balls.TWO_LAYER, balls.TWO_LAYER_DENSE)
}


def world(name: str) -> World:
    """The world called `name`."""
    if name not in WORLDS:
        raise UserError(f"there is no world '{name}'; there are {', '.join(WORLDS)}")
    return WORLDS[name]

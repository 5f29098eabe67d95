"""Worlds by name.

The package's own worlds are listed in `BUILT_IN`. Others are added by `register_world`, or by a
Python entry point of the group `gswm.worlds` whose value is a `World` or a function that makes one:

    [project.entry-points."gswm.worlds"]
    mine = "my_package:WORLD"
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from gswm.core.errors import UserError
from gswm.core.plugins import Once, load_plug_ins
from gswm.core.words import no_such
from gswm.data.splits import SplitName
from gswm.data.worlds import balls
from gswm.data.worlds.base import Layout, Style, World
from gswm.data.worlds.clips.world import CLIPS, CLIPS_64
from gswm.data.worlds.digits import DIGITS
from gswm.data.worlds.maze import Maze
from gswm.data.worlds.obj3d.world import OBJ3D, OBJ3D_128, OBJ3D_HARD, OBJ3D_SHADOWS, OBJ3D_TWO
from gswm.data.worlds.single_ball import SingleBall

GROUP = "gswm.worlds"
BALLS = (balls.INTERACTION, balls.OCCLUSION, balls.TWO_LAYER, balls.TWO_LAYER_DENSE)
SOLIDS = (OBJ3D, OBJ3D_128, OBJ3D_HARD, OBJ3D_SHADOWS, OBJ3D_TWO)
BUILT_IN = (*BALLS, SingleBall(), Maze(), *SOLIDS, CLIPS, CLIPS_64, DIGITS)
STATED = ("num_frames", "image_size", "num_objects", "splits", "layout", "protocol", "style")
"""Attributes that a world must have besides its name."""


class Worlds(Mapping[str, World]):
    """All worlds by name; entry points are loaded when one is first looked up."""

    def __init__(self) -> None:
        self._found: dict[str, World] = {}
        self.load = Once(self.load_all)
        for each in BUILT_IN:
            self.add(each)

    def add(self, world: World) -> None:
        """Add a world; a new definition, as in a notebook, replaces the old one."""
        check(world)
        before = self._found.get(world.name)
        same = before is world or (source(before) == source(world) and before not in BUILT_IN)
        if before is not None and not same:
            raise UserError(
                f"world '{world.name}' is already registered by {source(before)}: choose "
                f"another `name` for {source(world)}"
            )
        self._found[world.name] = world

    def load_all(self) -> None:
        """Load the worlds of installed packages."""
        load_plug_ins(GROUP, "world", lambda value: self.add(made(value)))

    def __getitem__(self, name: str) -> World:
        self.load()
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        self.load()
        return iter(self._found)

    def __len__(self) -> int:
        self.load()
        return len(self._found)


def made(value: Any) -> World:
    """A world, or the result of a class or function."""
    world = value if isinstance(value, World) or not callable(value) else value()
    if not isinstance(world, World):
        raise UserError(f"register a World, not {type(world).__name__}")
    return world


def check(world: World) -> None:
    """Raise a UserError for a world without required attributes."""
    name = getattr(world, "name", "")
    if not name or ":" in name:
        raise UserError(f"{source(world)} has the name '{name}': names must not contain a colon")
    if lacks := [attribute for attribute in STATED if not hasattr(world, attribute)]:
        raise UserError(f"the world '{name}' does not state its {', '.join(lacks)}")
    if lacks := [split for split in get_args(SplitName) if split not in world.splits]:
        raise UserError(f"the world '{name}' has no split {', '.join(lacks)}: state it in `splits`")
    for attribute, kinds in (("layout", get_args(Layout)), ("style", get_args(Style))):
        if getattr(world, attribute) not in kinds:
            stated = f"the world '{name}' has the {attribute} '{getattr(world, attribute)}'"
            raise UserError(f"{stated}: choose one of {', '.join(kinds)}")


def source(world: World | None) -> str:
    """The module that defines the class of a world."""
    return f"{type(world).__module__}.{type(world).__qualname__}"


WORLDS = Worlds()


def register_world(world: World | Callable[[], World]) -> None:
    """Register a world, or the one that a class or function returns, by its name."""
    WORLDS.load()
    WORLDS.add(made(world))


def world(name: str) -> World:
    """Return a world by name; obj3d:FOLDER uses the scene files in a folder."""
    if (base := base_name(name)) != name:
        return WORLDS[base].with_scenes(Path(name.removeprefix(f"{base}:")))
    if name not in WORLDS:
        raise UserError(no_such("world", name, WORLDS))
    return WORLDS[name]


def base_name(name: str) -> str:
    """The name of a world, without the folder of its scenes."""
    base, _, folder = name.partition(":")
    found = WORLDS.get(base) if folder else None
    return base if found is not None and found.has_scene_files else name

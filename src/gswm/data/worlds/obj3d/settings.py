"""All numbers of the 3D world: what is in a scene, how it moves, who looks at it, what lights it.

Camera and lights are those of CLEVR's base scene, turned so that the camera looks along y, and the
lights further away.
"""

from dataclasses import dataclass, field

SHAPES = ("none", "sphere", "cylinder", "cube")
"""By number. A cube of radius r has a half side of r / √2, so that all stand on a disk of r."""
SPHERE, CYLINDER, CUBE = 1, 2, 3
MATERIALS = ("rubber", "metal")
RUBBER, METAL = 0, 1
COLORS: dict[str, tuple[float, float, float]] = {
    "pink": (0.90, 0.30, 0.55),
    "red": (0.68, 0.14, 0.14),
    "blue": (0.16, 0.29, 0.84),
    "green": (0.11, 0.41, 0.08),
    "yellow": (1.00, 0.93, 0.20),
    "gray": (0.34, 0.34, 0.34),
    "brown": (0.51, 0.29, 0.10),
    "purple": (0.51, 0.15, 0.75),
    "cyan": (0.16, 0.82, 0.82),
}
"""Linear red, green and blue."""
Range = tuple[float, float]
Point = tuple[float, float, float]


@dataclass(frozen=True)
class CameraSettings:
    """A camera in the plane x = 0 that looks at the middle of the scene."""

    position: Point = (0.0, -9.92, 5.34)
    target: Point = (0.0, 0.0, 0.0)
    field_of_view: float = 38.0
    """Degrees, from one side of the square picture to the other."""


@dataclass(frozen=True)
class LightSettings:
    """A disk that shines, with its face to the middle of the scene."""

    position: Point
    radius: float
    power: float
    """What it adds to a white surface that faces it at the middle of the scene."""


LIGHTS = (
    LightSettings(position=(3.25, -10.8, 6.8), radius=0.7, power=0.48),
    LightSettings(position=(-9.7, 1.4, 5.4), radius=0.7, power=0.40),
    LightSettings(position=(2.0, 4.2, 9.3), radius=0.7, power=0.36),
)
"""Key, fill and back."""


@dataclass(frozen=True)
class Settings:
    """What scenes are drawn from, and how they move."""

    objects: tuple[int, int] = (3, 5)
    """The fewest and the most that stand on the plane; the sphere that is shot comes on top."""
    colors: tuple[str, ...] = ("pink", "red", "blue", "green", "yellow")
    shapes: tuple[str, ...] = ("sphere", "cylinder", "cube")
    materials: tuple[str, ...] = ("rubber", "metal")
    radii: tuple[float, ...] = (0.4, 0.55, 0.7)
    gap: float = 0.15
    """The least distance between two objects in the first frame."""
    across: Range = (0.22, 0.78)
    """Where objects stand, as a share of the picture from its left side to its right."""
    down: Range = (0.34, 0.66)
    """The same from its top to its bottom."""
    entry: Range = (0.80, 0.90)
    """Where the sphere starts, from the picture's top to its bottom."""
    speed: Range = (0.14, 0.22)
    """Of the sphere, in lengths a frame."""
    first_contact: Range = (10.5, 28.0)
    """Between these frames two objects touch for the first time."""
    densities: tuple[float, float] = (1.0, 1.0)
    """Of rubber and of metal: a mass is this times the volume."""
    restitution: float = 0.9
    """The share of the speed at which two objects near that they part with; exact to 0.01 from
    0.8 on, to 0.08 below."""
    grip: float = 0.3
    """Friction between two objects, by which round ones spin too."""
    friction: float = 0.0
    """The share of its speed that the surface takes from an object in a frame, when small."""
    num_frames: int = 100
    camera: CameraSettings = field(default_factory=CameraSettings)

    @property
    def num_slots(self) -> int:
        """Objects of a scene at the most: the first is the sphere that is shot."""
        return self.objects[1] + 1


HARD = Settings(objects=(6, 8), colors=("gray", "brown", "purple", "cyan"), across=(0.14, 0.86))
"""More objects than the usual scenes have, and none of their colors."""

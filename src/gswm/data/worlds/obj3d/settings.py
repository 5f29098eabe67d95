"""All numbers of the 3D world: scenes, motion, camera and light.

Camera and lights are those of CLEVR's base scene, rotated so that the camera looks along y. The
lights' powers and colors are fitted to the gray of the original videos.
"""

from dataclasses import dataclass, field

SHAPES = ("none", "sphere", "cylinder", "cube")
"""Shapes by number. A cube of radius r has a half side of r / √2, so all stand on a disk of r."""
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
    "crimson": (0.59, 0.145, 0.145),
    "leaf": (0.145, 0.57, 0.22),
    "navy": (0.14, 0.135, 0.58),
    "olive": (0.54, 0.61, 0.155),
    "plum": (0.60, 0.24, 0.53),
}
"""Linear red, green and blue."""
Range = tuple[float, float]
Point = tuple[float, float, float]


@dataclass(frozen=True)
class CameraSettings:
    """A camera in the plane x = 0, directed at the middle of the scene."""

    position: Point = (0.0, -9.92, 5.34)
    target: Point = (0.0, 0.0, 0.0)
    field_of_view: float = 49.13
    """Degrees, from one side of the square picture to the other."""


@dataclass(frozen=True)
class LightSettings:
    """A light disk, facing the middle of the scene."""

    position: Point
    radius: float
    power: float
    """Contribution to a white surface that faces it at the middle of the scene."""
    color: Point = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class LookSettings:
    """Light, and reflection by the plane and the objects."""

    lights: tuple[LightSettings, ...] = (
        LightSettings((2.04, -6.77, 4.26), radius=0.7, power=0.239, color=(1.0, 0.93, 0.80)),
        LightSettings((-6.09, 0.89, 3.01), radius=0.7, power=0.097, color=(0.80, 0.87, 1.0)),
        LightSettings((1.23, 2.62, 5.82), radius=0.7, power=0.175, color=(1.0, 0.985, 0.945)),
    )
    """Key, fill and back."""
    points: int = 4
    """Points of each light that a ray on the plane tests, for soft shadows; a pixel has 9 such
    rays. A ray on an object tests one point.
    """
    ambient: float = 0.375
    """Ambient light, without shadows."""
    bounce: float = 0.08
    """Fraction of a light that other surfaces reflect into its shadows on the plane."""
    ground: float = 0.35
    """Diffuse reflection of the plane."""
    far: Range = (12.0, 60.0)
    """Distances between which the plane fades into the backdrop."""
    backdrop: float = 0.131
    around: Range = (0.15, 0.04)
    """Surroundings that metal reflects: at the horizon, and above."""
    mirrored: float = 0.15
    """The brightness of other objects in metal; their own lighting is not traced."""
    clear: float = 0.85
    """Opacity of these objects in metal."""
    rubber: float = 0.61
    """Diffuse reflection of rubber, relative to the object's color."""
    rubber_gloss: tuple[float, float] = (16.0, 0.0)
    """Exponent and strength of highlights on rubber."""
    metal: float = 0.08
    """Diffuse reflection of metal, relative to the object's color."""
    mirror: float = 1.0
    """Mirror reflection of metal."""
    metal_gloss: tuple[float, float] = (120.0, 0.7)
    """Exponent and strength of highlights on metal."""
    white: float = 0.7
    """The color of these highlights, from 0 (the object's) to 1 (the light's)."""
    bevel: float = 0.12
    """Width of the bevel along the edges of a cube, relative to half its side. The normals are
    rounded, the shape is not.
    """


SHADOWS_LOOK = LookSettings(
    lights=(
        LightSettings(position=(3.25, -10.8, 6.8), radius=0.7, power=0.48),
        LightSettings(position=(-9.7, 1.4, 5.4), radius=0.7, power=0.40),
        LightSettings(position=(2.0, 4.2, 9.3), radius=0.7, power=0.36),
    ),
    points=1,
    ambient=0.16,
    far=(4.0, 22.0),
    backdrop=0.12,
    bounce=0.0,
    around=(0.16, 0.10),
    mirrored=0.5,
    clear=0.7,
    rubber=1.0,
    rubber_gloss=(16.0, 0.05),
    mirror=0.90,
    metal_gloss=(90.0, 0.60),
    white=0.0,
    bevel=0.0,
)
"""Distant lights and little ambient light: dark shadows."""


@dataclass(frozen=True)
class Settings:
    """Distributions of scenes, and their physics."""

    objects: tuple[int, int] = (3, 4)
    """Smallest and largest number of objects on the plane, without the sphere that is shot."""
    colors: tuple[str, ...] = ("crimson", "leaf", "navy", "olive", "plum")
    shapes: tuple[str, ...] = ("sphere", "cylinder", "cube")
    materials: tuple[str, ...] = ("rubber", "metal")
    shot_materials: tuple[str, ...] = ("rubber",)
    """Materials of the sphere that is shot; the others have any of `materials`."""
    radii: tuple[float, ...] = (0.70, 0.76, 0.82)
    cube_scale: float = 1.3
    """The radius of a cube, relative to other shapes. At √2 its sides are as wide as a sphere."""
    gap: float = 0.15
    """Smallest distance between two objects in the first frame."""
    across: Range = (0.25, 0.75)
    """Horizontal range of objects, as fractions of the picture from left to right."""
    down: Range = (0.40, 0.62)
    """Vertical range of objects, from top to bottom."""
    entry_across: Range = (0.05, 0.95)
    """Horizontal range of the sphere's start, from left to right."""
    entry: Range = (0.84, 0.96)
    """Vertical range of the sphere's start, from top to bottom."""
    speed: Range = (0.18, 0.28)
    """Speed of the sphere in the first frame, in lengths per frame."""
    first_contact: Range = (10.5, 28.0)
    """Range of the time of the first contact, in frames."""
    mass: float | None = 1.0
    """Mass of every object; None for density times volume."""
    densities: tuple[float, float] = (1.0, 1.0)
    """Densities of rubber and of metal, if `mass` is None."""
    restitution: float = 0.9
    """Ratio of the speeds after and before a collision; exact to 0.01 from 0.8 on, to 0.08 below.
    """
    grip: float = 0.3
    """Friction between two objects, which also makes round ones spin."""
    friction: float = 0.018
    """Fraction of its speed that an object loses to the surface per frame, if small."""
    num_frames: int = 100
    camera: CameraSettings = field(default_factory=CameraSettings)
    look: LookSettings = field(default_factory=LookSettings)

    @property
    def num_slots(self) -> int:
        """Largest number of objects of a scene; the first is the sphere that is shot."""
        return self.objects[1] + 1


HARD = Settings(
    objects=(6, 8),
    colors=("gray", "brown", "purple", "cyan"),
    across=(0.12, 0.88),
    down=(0.33, 0.66),
)
"""More objects than usual scenes, in other colors."""
TWO = Settings(objects=(1, 1))
"""One object on the plane, and the sphere that is shot at it."""
SHADOWS = Settings(
    objects=(3, 5),
    colors=("pink", "red", "blue", "green", "yellow"),
    shot_materials=("rubber", "metal"),
    radii=(0.4, 0.55, 0.7),
    cube_scale=1.0,
    across=(0.22, 0.78),
    down=(0.34, 0.66),
    entry_across=(0.22, 0.78),
    entry=(0.80, 0.90),
    speed=(0.14, 0.22),
    mass=None,
    friction=0.0,
    camera=CameraSettings(field_of_view=38.0),
    look=SHADOWS_LOOK,
)
"""Dark shadows, smaller objects in brighter colors, and no friction."""

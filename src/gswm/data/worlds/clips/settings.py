"""All ranges of the world of clips. Lengths are fractions of the picture's side, times frames."""

from dataclasses import dataclass, replace

Range = tuple[float, float]


@dataclass(frozen=True)
class ClipSettings:
    """Distributions of clips. A share is the probability that a clip or an object has something."""

    num_frames: int = 24
    objects: tuple[int, int] = (0, 10)
    """Smallest and largest number of objects of a clip, including those outside the frame."""
    sizes: Range = (0.03, 0.5)
    """Longer side of an object at the lower edge of the picture, before rotation."""
    usual_sizes: Range = (0.05, 0.45)
    """Range of a clip's typical size; the sizes of its objects scatter around it."""
    speeds: Range = (0.003, 0.06)
    """Speeds of moving objects at the lower edge of the picture."""
    covered: float = 0.6
    """Largest fraction of the picture that the squares around all objects may cover together.
    Further objects are left out, so clips with large objects have few.
    """
    resting: float = 0.1
    """Share of objects that never move, though the background picture does not show them."""
    alike: float = 0.45
    """Share of clips whose objects all look the same except for details."""
    camouflaged: float = 0.2
    """Share of objects whose colors are close to the ground's."""
    transparent: float = 0.12
    """Share of translucent objects."""
    monochrome: float = 0.12
    """Share of clips without color."""
    shadows: float = 0.5
    clutter: int = 8
    """Largest number of static things in a background."""
    occluders: float = 0.15
    """Share of clips with static things in front of the objects."""
    ghosts: float = 0.2
    """Share of clips whose background picture also shows things that stood there before or after
    the clip, as in a median of objects that rest for long.
    """
    sway: float = 0.25
    """Share of clips in which parts of the background move slightly, as leaves do."""
    blur: float = 0.6
    """Share of clips with motion blur."""
    drift: float = 0.6
    """Share of clips whose light changes slowly."""
    exposure: float = 0.2
    """Share of clips whose exposure changes suddenly."""
    own_light: float = 0.6
    """Share of clips whose background picture has another light than the frames."""
    focus: float = 0.6
    """Share of clips that are slightly out of focus, or sharpened."""
    noise: float = 0.85
    """Share of clips with sensor noise."""
    compression: float = 0.5
    """Share of clips that lost detail to compression."""

    def without_camera(self) -> "ClipSettings":
        """The same settings, but frames show exactly the background with objects in front of it."""
        light = ("drift", "exposure", "own_light")
        lens = ("sway", "blur", "focus", "noise", "compression")
        return replace(self, **dict.fromkeys(("ghosts", *light, *lens), 0.0))

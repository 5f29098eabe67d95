"""Motion: the positions of objects in every frame.

Objects move on the ground: straight, in curves, with sudden turns and stops, back and forth between
borders, or thrown. Paths pass a random position of the picture at a random time, so that many
objects enter, leave, or do both.
"""

from dataclasses import dataclass
from math import pi

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from gswm.data.worlds.clips.camera import Perspective
from gswm.data.worlds.clips.dice import Dice
from gswm.data.worlds.clips.settings import ClipSettings
from gswm.data.worlds.clips.themes import KINDS, THEMES, UPRIGHT, of_themes

MARGIN = 0.04
"""Distance from the picture's edges at which objects turn back."""
EMPTY = 0.05
"""Fraction of clips without objects, if that is allowed."""
CROSSING = 0.35
"""Fraction of objects that cross the border of the picture at some time."""
FARTHEST = 0.25
"""Smallest scale at which objects start."""
SEEN_SIZES = (0.02, 0.55)
"""Smallest and largest apparent size of an object at any distance."""
OUTSIDE = 5.0
"""Largest distance of objects from the middle."""


@dataclass(frozen=True)
class Routes:
    """The roads of several episodes, drawn or not: a line on the ground, and its width."""

    middle: Float[Tensor, "episode 2"]
    angle: Float[Tensor, " episode"]
    half: Float[Tensor, " episode"]
    lanes: Int64[Tensor, " episode"]


@dataclass(frozen=True)
class Dish:
    """The round area of several episodes that objects do not leave."""

    middle: Float[Tensor, "episode 2"]
    radius: Float[Tensor, " episode"]


@dataclass(frozen=True)
class Motion:
    """Objects in every frame, and in one more after the last."""

    exists: Bool[Tensor, "episode object"]
    size: Float64[Tensor, "episode object"]
    """The longer side at a scale of 1."""
    xy: Float64[Tensor, "episode time object 2"]
    """Position in the picture, whose side is 1."""
    scale: Float64[Tensor, "episode time object"]
    angle: Float64[Tensor, "episode time object"]
    """Rotation of the sprite."""
    flip: Float64[Tensor, "episode time object"]
    """-1 if the sprite is mirrored."""
    phase: Int64[Tensor, "episode time object"]
    """0 or 1: the current step of a walking object."""
    order: Int64[Tensor, "episode time object"]
    """Depth order: larger is in front."""


def draw_tracks(dice: Dice, camera: Perspective) -> Routes:
    """Roads that cross the picture; in perspective most lead away from the camera."""
    deep = camera.kappa > 0
    away = pi / 2 + dice.uniform(-0.25, 0.25)
    angle = torch.where(deep & dice.chance(0.8), away, dice.uniform(0.0, pi))
    middle = 0.5 + dice.uniform(-0.2, 0.2, 2)
    return Routes(middle, angle, dice.uniform(0.12, 0.42), dice.choice(torch.ones(4)) + 1)


def draw_dish(dice: Dice) -> Dish:
    """Dishes that fill most of the picture."""
    return Dish(0.5 + dice.uniform(-0.06, 0.06, 2), dice.uniform(0.36, 0.52))


@dataclass(frozen=True)
class Habits:
    """Motion parameters of the objects of several episodes."""

    pace: Float64[Tensor, "episode object"]
    """Typical speed; 0 for resting objects."""
    in_lanes: Bool[Tensor, " episode"]
    in_box: Bool[Tensor, " episode"]
    """Whether objects turn back at the borders of the picture,"""
    in_dish: Bool[Tensor, " episode"]
    """or at those of the dish."""
    pull: Float64[Tensor, "episode 2"]
    """Change of velocity in each frame."""
    turn: Float64[Tensor, "episode object"]
    """Drift of directions."""
    saccade: Float64[Tensor, " episode"]
    """Probability of a sudden turn."""
    stops: Float64[Tensor, " episode"]
    """Probability of a stop or a start."""
    eager: Float64[Tensor, "episode object"]
    """Fraction of the target speed that is reached in a frame."""


def draw_motion(
    dice: Dice,
    settings: ClipSettings,
    theme: Int64[Tensor, " episode"],
    kind: Int64[Tensor, "episode object"],
    camera: Perspective,
    tracks: Routes,
    dish: Dish,
    in_dish: Bool[Tensor, " episode"],
) -> Motion:
    """Draw paths, sizes and rotations of all objects."""
    low, most = settings.objects
    number = kind.shape[1]
    some = 1 + (dice.unit() ** 1.3 * most).floor()
    count = torch.where(dice.chance(EMPTY), 0, some).clamp(low, most)
    size = draw_sizes(dice, settings, theme, number)
    habits = draw_habits(dice, settings, theme, camera, in_dish, number)
    ground, heading, speed = walk(dice, settings, camera, tracks, dish, habits)
    xy, scale = camera.seen(ground)
    grows = dice.chance(0.1, number) * dice.uniform(0.1, 0.4, number)
    wave = dice.uniform(0.0, 2 * pi, number)[:, None]
    time = torch.arange(xy.shape[1])[None, :, None]
    scale = scale * (grows[:, None] * (2 * pi * time / 40 + wave).sin()).exp()
    scale = (size[:, None] * scale).clamp(*SEEN_SIZES) / size[:, None]

    upright = torch.tensor([name in UPRIGHT for name in KINDS])[kind][:, None]
    spins = dice.chance(of_themes("spin")[theme][:, None], number)[:, None]
    spun = dice.uniform(-pi, pi, number)[:, None] + time * (0.08 * dice.normal(number))[:, None]
    sway = 0.05 * (0.7 * time + wave).sin() * (speed > 1e-4)
    angle = torch.where(spins, spun, torch.where(upright, sway, heading))
    mirrored = upright & dice.chance(0.5, number)[:, None] & (heading.cos() < 0)
    travelled = (speed * scale).cumsum(1) / (0.5 * size[:, None] * scale)
    fits = (size.square().cumsum(dim=1) < settings.covered) | (torch.arange(number) == 0)
    rank = torch.where((camera.kappa > 0)[:, None, None], xy[..., 1], wave.expand_as(scale))
    return Motion(
        exists=(torch.arange(number) < count[:, None]) & fits,
        size=size,
        xy=xy,
        scale=scale,
        angle=angle,
        flip=1 - 2 * mirrored.double(),
        phase=(travelled + wave).floor().long() % 2,
        order=rank.argsort(dim=-1, stable=True).argsort(dim=-1),
    )


def draw_habits(
    dice: Dice,
    settings: ClipSettings,
    theme: Int64[Tensor, " episode"],
    camera: Perspective,
    in_dish: Bool[Tensor, " episode"],
    number: int,
) -> Habits:
    """Draw motion parameters for the themes of several episodes."""
    named = {name: of_themes(name)[theme] for name in ("lanes", "bounce", "thrown", "turn")}
    in_lanes = dice.chance(named["lanes"])
    in_box = dice.chance(named["bounce"]) & (camera.kappa == 0) & ~in_dish
    thrown = dice.chance(named["thrown"]) & ~in_lanes & ~in_dish
    return Habits(
        pace=draw_pace(dice, settings, camera, number),
        in_lanes=in_lanes,
        in_box=in_box,
        in_dish=in_dish,
        pull=thrown[:, None] * dice.uniform(-0.004, 0.004, 2),
        turn=0.6 * named["turn"][:, None] * dice.uniform(0.0, 2.0, number),
        saccade=of_themes("saccade")[theme],
        stops=of_themes("stops")[theme],
        eager=dice.uniform(0.15, 0.8, number),
    )


def walk(
    dice: Dice,
    settings: ClipSettings,
    camera: Perspective,
    tracks: Routes,
    dish: Dish,
    habits: Habits,
) -> tuple[
    Float64[Tensor, "episode time object 2"],
    Float64[Tensor, "episode time object"],
    Float64[Tensor, "episode time object"],
]:
    """Positions on the ground, directions and speeds."""
    pace, frames = habits.pace, settings.num_frames + 1
    number, moves = pace.shape[1], pace > 0
    place, heading = starts(dice, settings, camera, tracks, dish, habits)
    turning, wished, speed = torch.zeros_like(pace), pace, pace
    fall = torch.zeros_like(place)
    turn, jump = dice.normal(frames, number), 1.2 * dice.normal(frames, number)
    jumps = dice.chance(habits.saccade[:, None, None], frames, number)
    toggles = dice.chance(habits.stops[:, None, None], frames, number)
    bounces = (habits.in_box | habits.in_dish)[:, None]
    places, headings, speeds = [], [], []
    for t in range(frames):
        places.append(place)
        headings.append(heading)
        speeds.append(speed)
        turning = 0.8 * turning + habits.turn * turn[:, t]
        heading = heading + turning * moves + jumps[:, t] * jump[:, t]
        wished = torch.where(toggles[:, t], pace - wished, wished)
        speed = speed + habits.eager * (wished - speed)
        fall = fall + habits.pull[:, None] * moves[..., None]
        step = speed[..., None] * towards(heading) + fall
        fast = step.norm(dim=-1, keepdim=True).clamp_min(1e-9)
        step = step * (settings.speeds[1] / fast).clamp_max(1)
        step, fall = bounced(place, step, fall, dish, habits)
        own = step - fall
        heading = torch.where(
            bounces & (speed > 1e-6), torch.atan2(own[..., 1], own[..., 0]), heading
        )
        place = (place + step).clamp(0.5 - OUTSIDE, 0.5 + OUTSIDE)
    ground, heading, speed = (torch.stack(each, dim=1) for each in (places, headings, speeds))
    return ground, heading, speed


def starts(
    dice: Dice,
    settings: ClipSettings,
    camera: Perspective,
    tracks: Routes,
    dish: Dish,
    habits: Habits,
) -> tuple[Float64[Tensor, "episode object 2"], Float64[Tensor, "episode object"]]:
    """Positions and directions in the first frame.

    On a straight path, an object would pass a random position of the picture at a random time.
    """
    number = habits.pace.shape[1]
    in_lanes = habits.in_lanes[:, None]
    both_ways = dice.choice(torch.ones(2))[:, None] * 0.5
    along = tracks.angle[:, None] + dice.chance(both_ways, number) * pi
    along = along + 0.03 * dice.normal(number)
    heading = torch.where(in_lanes, along, dice.uniform(-pi, pi, number))
    direction = towards(heading)

    seen = dice.unit(number, 2)
    # Some cross the border just then, on their way in or out.
    sign = torch.where(dice.chance(0.5, number), 1.0, -1.0)[..., None]
    crossing = dice.chance(CROSSING, number)[..., None]
    main = direction.abs() == direction.abs().amax(-1, keepdim=True)
    seen = torch.where(crossing & main, (sign * direction < 0).double(), seen)
    high = (1 - (1 - FARTHEST) / camera.kappa.clamp_min(1e-3)).clamp_min(0)[:, None]
    seen = torch.stack([seen[..., 0], high + (1 - high) * seen[..., 1]], dim=-1)
    there, _ = camera.ground(seen)
    there = torch.where(in_lanes[..., None], on_lanes(dice, there, tracks), there)
    when = dice.uniform(0.0, float(settings.num_frames), number)
    place = there - direction * (habits.pace * when)[..., None]
    in_round = dish.middle[:, None] + (there - 0.5) * dish.radius[:, None, None] * 1.2
    place = torch.where(habits.in_box[:, None, None], 0.5 + (there - 0.5) * 0.8, place)
    return torch.where(habits.in_dish[:, None, None], in_round, place), heading


def towards(heading: Float64[Tensor, "*object"]) -> Float64[Tensor, "*object 2"]:
    """The unit vector of a direction."""
    return torch.stack([heading.cos(), heading.sin()], dim=-1)


def on_lanes(
    dice: Dice, there: Float64[Tensor, "episode object 2"], tracks: Routes
) -> Float64[Tensor, "episode object 2"]:
    """Positions in the middle of lanes, at the same distance from the camera, or along the road."""
    number = there.shape[1]
    angle, lanes = tracks.angle[:, None], tracks.lanes[:, None]
    lane = (dice.unit(number) * lanes).floor()
    sideways = ((lane + 0.5) / lanes * 2 - 1) * tracks.half[:, None]
    ahead, aside = towards(angle), towards(angle + pi / 2)
    start = tracks.middle[:, None] + sideways[..., None] * aside
    offset = there - start
    deep = angle.sin().abs() > 0.5
    far = torch.where(deep, offset[..., 1] / angle.sin(), offset[..., 0] / angle.cos())
    return start + far[..., None] * ahead


def draw_sizes(
    dice: Dice, settings: ClipSettings, theme: Int64[Tensor, " episode"], number: int
) -> Float64[Tensor, "episode object"]:
    """Draw sizes around a size that is typical of the clip."""
    low, high = settings.usual_sizes
    part = torch.tensor([theme.sizes for theme in THEMES], dtype=torch.float64)[theme]
    u = part[:, 0] + dice.unit() * (part[:, 1] - part[:, 0])
    usual = low * (high / low) ** u
    spread = dice.uniform(0.05, 0.5)[:, None]
    return (usual[:, None] * (spread * dice.normal(number)).exp()).clamp(*settings.sizes)


def draw_pace(
    dice: Dice, settings: ClipSettings, camera: Perspective, number: int
) -> Float64[Tensor, "episode object"]:
    """Draw speeds around a speed that is typical of the clip; 0 for resting objects."""
    low, high = settings.speeds
    usual = low * (high / low) ** dice.uniform(0.2, 1.0) * (1 + camera.kappa)
    pace = usual[:, None] * dice.uniform(0.4, 1.4, number)
    return pace.clamp(low, high) * ~dice.chance(settings.resting, number)


def bounced(
    place: Float64[Tensor, "episode object 2"],
    step: Float64[Tensor, "episode object 2"],
    fall: Float64[Tensor, "episode object 2"],
    dish: Dish,
    habits: Habits,
) -> tuple[Float64[Tensor, "episode object 2"], Float64[Tensor, "episode object 2"]]:
    """Steps, and velocities gained by falling, reflected at the borders."""
    after = place + step
    low, high = (after < MARGIN) & (step < 0), (after > 1 - MARGIN) & (step > 0)
    back = (low | high) & habits.in_box[:, None, None]
    step, fall = torch.where(back, -step, step), torch.where(back, -0.8 * fall, fall)
    out = after - dish.middle[:, None]
    far = out.norm(dim=-1, keepdim=True).clamp_min(1e-9)
    outward = out / far
    speed_out = (step * outward).sum(-1, keepdim=True)
    beyond = (far > 0.92 * dish.radius[:, None, None]) & (speed_out > 0)
    leaves = habits.in_dish[:, None, None] & beyond
    return torch.where(leaves, step - 2 * speed_out * outward, step), fall

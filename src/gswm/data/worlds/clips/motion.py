"""Motion: where objects are in every frame.

Objects move on the ground: straight, in curves, with sudden turns and stops, back and forth between
borders, or thrown. An object is made to be near some place of the picture at some time, so that
many enter, leave, or do both.
"""

from dataclasses import dataclass
from math import pi

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from gswm.data.worlds.clips.camera import Camera
from gswm.data.worlds.clips.dice import Dice
from gswm.data.worlds.clips.settings import Settings
from gswm.data.worlds.clips.themes import KINDS, THEMES, UPRIGHT, of_themes

MARGIN = 0.04
"""How far from the picture's edges objects turn back."""
EMPTY = 0.05
"""Share of clips without objects, where that is allowed."""
CROSSING = 0.35
"""Share of objects that cross the border of the picture at some time."""
FARTHEST = 0.25
"""Objects start where the scale is no less."""
SEEN_SIZES = (0.02, 0.45)
"""No object looks smaller or larger, however far away or near it is."""
OUTSIDE = 2.5
"""Objects go no further from the middle than this."""


@dataclass(frozen=True)
class Tracks:
    """The roads of some episodes, drawn or not: a line on the ground, and how wide it is."""

    middle: Float64[Tensor, "episode 2"]
    angle: Float64[Tensor, " episode"]
    half: Float64[Tensor, " episode"]
    lanes: Int64[Tensor, " episode"]


@dataclass(frozen=True)
class Dish:
    """The round area of some episodes that objects do not leave."""

    middle: Float64[Tensor, "episode 2"]
    radius: Float64[Tensor, " episode"]


@dataclass(frozen=True)
class Motion:
    """Objects in every frame, and in one more after the last."""

    exists: Bool[Tensor, "episode object"]
    size: Float64[Tensor, "episode object"]
    """The longer side, where the scale is 1."""
    xy: Float64[Tensor, "episode time object 2"]
    """In the picture, whose side is 1."""
    scale: Float64[Tensor, "episode time object"]
    angle: Float64[Tensor, "episode time object"]
    """By which the sprite is turned."""
    flip: Float64[Tensor, "episode time object"]
    """-1 where the sprite is seen in a mirror."""
    phase: Int64[Tensor, "episode time object"]
    """0 or 1: which step an object that walks is taking."""
    order: Int64[Tensor, "episode time object"]
    """The larger is in front."""


def draw_tracks(dice: Dice, camera: Camera) -> Tracks:
    """Roads that cross the picture; in perspective most lead away from the camera."""
    deep = camera.kappa > 0
    away = pi / 2 + dice.uniform(-0.25, 0.25)
    angle = torch.where(deep & dice.chance(0.8), away, dice.uniform(0, pi))
    middle = 0.5 + dice.uniform(-0.2, 0.2, 2)
    return Tracks(middle, angle, dice.uniform(0.12, 0.42), dice.choice(torch.ones(4)) + 1)


def draw_dish(dice: Dice) -> Dish:
    """Dishes that fill most of the picture."""
    return Dish(0.5 + dice.uniform(-0.06, 0.06, 2), dice.uniform(0.36, 0.52))


def draw_motion(
    dice: Dice,
    settings: Settings,
    theme: Int64[Tensor, " episode"],
    kind: Int64[Tensor, "episode object"],
    camera: Camera,
    tracks: Tracks,
    dish: Dish,
    in_dish: Bool[Tensor, " episode"],
) -> Motion:
    """Paths, sizes and turns of all objects."""
    low, most = settings.objects
    frames, number = settings.num_frames + 1, kind.shape[1]
    some = 1 + (dice.unit() ** 1.3 * most).floor()
    count = torch.where(dice.chance(EMPTY), 0, some).clamp(low, most)
    exists = torch.arange(number) < count[:, None]
    size = draw_sizes(dice, settings, theme, number)
    pace = draw_pace(dice, settings, camera, number)

    of_theme = {name: of_themes(name)[theme] for name in ("lanes", "bounce", "thrown", "spin")}
    in_lanes = dice.chance(of_theme["lanes"])
    bounces = in_dish | (dice.chance(of_theme["bounce"]) & (camera.kappa == 0))
    heading = dice.uniform(-pi, pi, number)
    backward = dice.chance(dice.choice(torch.ones(2))[:, None] * 0.5, number)
    along = tracks.angle[:, None] + backward * pi + 0.03 * dice.normal(number)
    heading = torch.where(in_lanes[:, None], along, heading)

    # At time `when`, the object is at `there`, were it to go straight.
    seen = dice.unit(number, 2)
    high = (1 - (1 - FARTHEST) / camera.kappa.clamp_min(1e-3)).clamp_min(0)[:, None]
    # Some cross the border just then, on their way in or out.
    sign = torch.where(dice.chance(0.5, number), 1.0, -1.0)[..., None]
    direction = torch.stack([heading.cos(), heading.sin()], dim=-1)
    crossing = dice.chance(CROSSING, number)[..., None]
    main = direction.abs() == direction.abs().amax(-1, keepdim=True)
    seen = torch.where(crossing & main, (sign * direction < 0).double(), seen)
    seen = torch.stack([seen[..., 0], high + (1 - high) * seen[..., 1]], dim=-1)
    there, _ = camera.ground(seen)
    there = torch.where(in_lanes[:, None, None], on_lanes(dice, there, tracks), there)
    when = dice.uniform(0, settings.num_frames, number)
    place = there - direction * (pace * when)[..., None]
    inside = 0.5 + (there - 0.5) * 0.8
    in_round = dish.middle[:, None] + (there - 0.5) * dish.radius[:, None, None] * 1.2
    place = torch.where(bounces[:, None, None], inside, place)
    place = torch.where(in_dish[:, None, None], in_round, place)

    turns, stops = (of_themes(name)[theme][:, None] for name in ("turn", "stops"))
    saccades = of_themes("saccade")[theme][:, None]
    lively = dice.uniform(0, 2, number)
    thrown = dice.chance(of_theme["thrown"]) & ~in_lanes & ~in_dish
    pull = thrown[:, None] * dice.uniform(-0.004, 0.004, 2)
    turning, wished, speed = torch.zeros_like(pace), pace.clone(), pace.clone()
    fall = torch.zeros(len(theme), number, 2, dtype=torch.float64)
    random = {name: dice.normal(frames, number) for name in ("turn", "jump")}
    chance = {name: dice.unit(frames, number) for name in ("stop", "jump")}
    eager = dice.uniform(0.15, 0.8, number)
    places, headings, speeds = [], [], []
    for t in range(frames):
        places.append(place)
        headings.append(heading)
        speeds.append(speed)
        turning = 0.8 * turning + 0.6 * turns * lively * random["turn"][:, t]
        jumps = chance["jump"][:, t] < saccades
        heading = heading + turning * (pace > 0) + jumps * random["jump"][:, t] * 1.2
        toggled = chance["stop"][:, t] < stops
        other = torch.where(wished > 0, 0.0, pace * (0.6 + lively / 2).clamp_max(1))
        wished = torch.where(toggled, other, wished)
        speed = speed + eager * (wished - speed)
        direction = torch.stack([heading.cos(), heading.sin()], dim=-1)
        fall = fall + pull[:, None] * (pace > 0)[..., None]
        step = speed[..., None] * direction + fall
        fast = torch.hypot(step[..., 0], step[..., 1])[..., None].clamp_min(1e-9)
        step = step * (settings.speeds[1] / fast).clamp_max(1)
        step, fall = bounced(place, step, fall, bounces & ~in_dish, dish, in_dish)
        turned = torch.atan2(step[..., 1] - fall[..., 1], step[..., 0] - fall[..., 0])
        heading = torch.where(bounces[:, None] & (speed > 1e-6), turned, heading)
        place = (place + step).clamp(0.5 - OUTSIDE, 0.5 + OUTSIDE)
    ground, heading, speed = (torch.stack(each, dim=1) for each in (places, headings, speeds))
    xy, scale = camera.seen(ground)
    grows = dice.chance(0.1, number) * dice.uniform(0.1, 0.4, number)
    wave = dice.uniform(0, 2 * pi, number)[:, None]
    time = torch.arange(frames)[None, :, None]
    scale = scale * (grows[:, None] * (2 * pi * time / 40 + wave).sin()).exp()
    scale = (size[:, None] * scale).clamp(*SEEN_SIZES) / size[:, None]

    upright = torch.tensor([name in UPRIGHT for name in KINDS])[kind]
    spins = dice.chance(of_theme["spin"][:, None], number)
    spun = dice.uniform(-pi, pi, number)[:, None] + time * (dice.normal(number) * 0.08)[:, None]
    sway = 0.05 * (0.7 * time + wave).sin() * (speed > 1e-4)
    angle = torch.where(spins[:, None], spun, torch.where(upright[:, None], sway, heading))
    faces = torch.where(dice.chance(0.5, number)[:, None] | ~upright[:, None], 1.0, -1.0)
    travelled = (speed * scale).cumsum(1) / (0.5 * size[:, None] * scale)
    phase = (travelled + wave).floor().long() % 2
    rank = torch.where((camera.kappa > 0)[:, None, None], xy[..., 1], wave.expand_as(scale))
    order = rank.argsort(dim=-1, stable=True).argsort(dim=-1)
    return Motion(exists, size, xy, scale, angle, faces.expand_as(scale), phase, order)


def on_lanes(
    dice: Dice, there: Float64[Tensor, "episode object 2"], tracks: Tracks
) -> Float64[Tensor, "episode object 2"]:
    """Places in the middle of lanes, as far from the camera, or as far along, as those given."""
    number = there.shape[1]
    angle, lanes = tracks.angle[:, None], tracks.lanes[:, None]
    lane = (dice.unit(number) * lanes).floor()
    sideways = ((lane + 0.5) / lanes * 2 - 1) * tracks.half[:, None]
    ahead = torch.stack([angle.cos(), angle.sin()], dim=-1)
    aside = torch.stack([-angle.sin(), angle.cos()], dim=-1)
    start = tracks.middle[:, None] + sideways[..., None] * aside
    offset = there - start
    deep = angle.sin().abs() > 0.5
    far = torch.where(deep, offset[..., 1] / angle.sin(), offset[..., 0] / angle.cos())
    return start + far[..., None] * ahead


def draw_sizes(
    dice: Dice, settings: Settings, theme: Int64[Tensor, " episode"], number: int
) -> Float64[Tensor, "episode object"]:
    """Sizes around one that is typical of the clip."""
    low, high = settings.usual_sizes
    part = torch.tensor([theme.sizes for theme in THEMES], dtype=torch.float64)[theme]
    u = part[:, 0] + dice.unit() * (part[:, 1] - part[:, 0])
    usual = low * (high / low) ** u
    spread = dice.uniform(0.05, 0.5)[:, None]
    return (usual[:, None] * (spread * dice.normal(number)).exp()).clamp(*settings.sizes)


def draw_pace(
    dice: Dice, settings: Settings, camera: Camera, number: int
) -> Float64[Tensor, "episode object"]:
    """Speeds around one that is typical of the clip; 0 for objects that rest."""
    low, high = settings.speeds
    usual = low * (high / low) ** dice.uniform(0.2, 1.0) * (1 + camera.kappa)
    pace = usual[:, None] * dice.uniform(0.4, 1.4, number)
    return pace.clamp(low, high) * ~dice.chance(settings.resting, number)


def bounced(
    place: Float64[Tensor, "episode object 2"],
    step: Float64[Tensor, "episode object 2"],
    fall: Float64[Tensor, "episode object 2"],
    in_box: Bool[Tensor, " episode"],
    dish: Dish,
    in_dish: Bool[Tensor, " episode"],
) -> tuple[Float64[Tensor, "episode object 2"], Float64[Tensor, "episode object 2"]]:
    """Steps, and the speed gained by falling, turned back at the borders."""
    after = place + step
    low, high = (after < MARGIN) & (step < 0), (after > 1 - MARGIN) & (step > 0)
    back = (low | high) & in_box[:, None, None]
    step, fall = torch.where(back, -step, step), torch.where(back, -0.8 * fall, fall)
    out = after - dish.middle[:, None]
    far = torch.hypot(out[..., 0], out[..., 1])[..., None].clamp_min(1e-9)
    outward = out / far
    speed_out = (step * outward).sum(-1, keepdim=True)
    leaves = in_dish[:, None, None] & (far > 0.92 * dish.radius[:, None, None]) & (speed_out > 0)
    return torch.where(leaves, step - 2 * speed_out * outward, step), fall

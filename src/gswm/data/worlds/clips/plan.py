"""Plans: all random choices of episodes, before anything is drawn."""

from dataclasses import dataclass, replace
from math import pi

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from gswm.core.records import map_tensors
from gswm.data.worlds.clips.camera import Perspective
from gswm.data.worlds.clips.dice import Dice
from gswm.data.worlds.clips.film import FilmLook, draw_film
from gswm.data.worlds.clips.looks import Appearances, draw_looks
from gswm.data.worlds.clips.motion import (
    Dish,
    Motion,
    Routes,
    draw_dish,
    draw_motion,
    draw_sizes,
    draw_tracks,
)
from gswm.data.worlds.clips.scenery import Scenery, draw_scenery
from gswm.data.worlds.clips.settings import ClipSettings
from gswm.data.worlds.clips.themes import GROUNDS, KINDS, UPRIGHT, of_themes, weights

MOST_GHOSTS = 3


@dataclass(frozen=True)
class Things:
    """Static things in the backgrounds."""

    exists: Bool[Tensor, "episode thing"]
    in_front: Bool[Tensor, "episode thing"]
    """Whether objects pass behind it."""
    looks: Appearances
    xy: Float64[Tensor, "episode thing 2"]
    size: Float64[Tensor, "episode thing"]
    """In the picture."""
    angle: Float64[Tensor, "episode thing"]


@dataclass(frozen=True)
class Ghosts:
    """Things that background pictures show and frames do not."""

    exists: Bool[Tensor, "episode ghost"]
    looks: Appearances
    xy: Float64[Tensor, "episode ghost 2"]
    size: Float64[Tensor, "episode ghost"]
    """In the picture."""
    angle: Float64[Tensor, "episode ghost"]
    flip: Float64[Tensor, "episode ghost"]
    smear: Float64[Tensor, "episode ghost 2"]
    """Amount of smear, relative to its size."""


@dataclass(frozen=True)
class Shadows:
    """The shadows of several episodes."""

    offset: Float64[Tensor, "episode 2"]
    """Offset from an object to its shadow, relative to the object's size."""
    strength: Float64[Tensor, " episode"]


@dataclass(frozen=True)
class Plan:
    """All random choices for several episodes, on the CPU."""

    camera: Perspective
    tracks: Routes
    dish: Dish
    scenery: Scenery
    looks: Appearances
    motion: Motion
    things: Things
    ghosts: Ghosts
    shadows: Shadows
    film: FilmLook

    def __getitem__(self, which: slice) -> "Plan":
        return map_tensors(lambda values: values[which], self)

    def __len__(self) -> int:
        return len(self.motion.exists)


def make_plan(settings: ClipSettings, seed: int, first: int, n: int) -> Plan:
    """Draw all random choices of `n` episodes of a seed."""
    dice = Dice(seed, first, n, settings.num_frames)
    theme = dice.choice(of_themes("share"))
    deep = dice.chance(of_themes("perspective")[theme])
    camera = Perspective(deep * dice.uniform(0.3, 1.4), (0.2 * dice.normal()).clamp(-0.4, 0.4))
    tracks, dish = draw_tracks(dice, camera), draw_dish(dice)
    scenery = draw_scenery(dice, weights("grounds", GROUNDS)[theme])
    ground = scenery.colors[:, 0]
    number = settings.objects[1]
    looks = draw_looks(dice, settings, weights("kinds", KINDS)[theme], number, ground)
    in_dish = (scenery.ground == GROUNDS.index("dish")) & ~deep
    motion = draw_motion(dice, settings, theme, looks.kind, camera, tracks, dish, in_dish)
    angle, far = dice.uniform(-pi, pi), dice.uniform(0.03, 0.35)
    offset = torch.stack([angle.cos(), angle.sin()], dim=-1) * far[:, None]
    dark = dice.chance(settings.shadows) * dice.uniform(0.2, 0.65)
    things = draw_things(dice, settings, theme, camera, ground)
    shadows = Shadows(offset, dark)
    filmed = draw_film(dice, settings)
    vivid = 1 - dice.chance(settings.monochrome).double()
    ghosts = draw_ghosts(dice, settings, camera, looks, motion)
    plan = Plan(camera, tracks, dish, scenery, looks, motion, things, ghosts, shadows, filmed)
    return faded(plan, vivid)


def faded(plan: Plan, vivid: Float64[Tensor, " episode"]) -> Plan:
    """The same episodes with less color; 0 gives grayscale."""

    def fade(colors: Float64[Tensor, "episode *rest 3"]) -> Float64[Tensor, "episode *rest 3"]:
        grey = colors.mean(-1, keepdim=True)
        return grey + (colors - grey) * vivid.reshape(-1, *[1] * (colors.ndim - 1))

    film = plan.film
    things = replace(plan.things.looks, colors=fade(plan.things.looks.colors))
    ghosts = replace(plan.ghosts.looks, colors=fade(plan.ghosts.looks.colors))
    return replace(
        plan,
        scenery=replace(plan.scenery, colors=fade(plan.scenery.colors)),
        looks=replace(plan.looks, colors=fade(plan.looks.colors)),
        things=replace(plan.things, looks=things),
        ghosts=replace(plan.ghosts, looks=ghosts),
        film=replace(
            film,
            gain=fade(film.gain),
            still_gain=fade(film.still_gain),
            noise=film.noise * torch.stack([torch.ones_like(vivid), vivid], dim=-1),
        ),
    )


def draw_things(
    dice: Dice,
    settings: ClipSettings,
    theme: Int64[Tensor, " episode"],
    camera: Perspective,
    ground: Float64[Tensor, "episode 3"],
) -> Things:
    """Draw static things: half of the clips have some, of the kinds that move there."""
    number = settings.clutter
    same = weights("kinds", KINDS)[theme]
    kinds = torch.where(dice.chance(0.5)[:, None], same, weights("kinds", KINDS)[:1])
    cluttered = dice.chance(0.65)
    exists = torch.arange(number) < (cluttered * dice.unit() ** 1.5 * (number + 1)).long()[:, None]
    looks = draw_looks(dice, settings, kinds, number, ground)
    xy = dice.uniform(0.0, 1.0, number, 2)
    size = draw_sizes(dice, settings, theme, number) * camera.scale(xy[..., 1]).clamp(0.15, 1)
    upright = torch.tensor([name in UPRIGHT for name in KINDS])[looks.kind]
    angle = dice.uniform(-pi, pi, number) * ~upright
    in_front = dice.chance(settings.occluders)[:, None] & dice.chance(0.5, number)
    size = torch.where(in_front, size * 1.3, size).clamp(0.02, 0.5)
    return Things(exists, in_front & exists, looks, xy, size, angle)


def draw_ghosts(
    dice: Dice, settings: ClipSettings, camera: Perspective, looks: Appearances, motion: Motion
) -> Ghosts:
    """Draw ghosts, each of which looks like one of the clip's objects.

    It stands where an object that the clip left out would have been at some time, or anywhere if
    there is no such place. Half of the ghosts are faint and smeared, like the median of something
    that stood there only for a part of the time.
    """
    frames, number = motion.scale.shape[1:]
    most = MOST_GHOSTS if number else 0
    row = torch.arange(dice.n)[:, None]
    haunted = dice.chance(settings.ghosts) * (1 + dice.choice(torch.ones(MOST_GHOSTS)))
    exists = torch.arange(most) < haunted[:, None]
    count = motion.exists.sum(1, keepdim=True).clamp_min(1)
    who, where = (dice.unit(most) * count).long(), (dice.unit(most) * number).long()
    when = (dice.unit(most) * frames).long()
    on_path = motion.xy[row, when, where]
    inside = ((on_path > 0.02) & (on_path < 0.98)).all(-1) & ~motion.exists[row, where]
    xy = torch.where(inside[..., None], on_path, dice.uniform(0.05, 0.95, most, 2))
    seen = map_tensors(lambda values: values[row, who], looks)
    worn = dice.chance(0.5, most)
    faint = torch.where(worn, dice.uniform(0.3, 0.9, most), 1.0)
    way, far = dice.uniform(-pi, pi, most), worn * dice.uniform(0.0, 0.5, most)
    upright = torch.tensor([name in UPRIGHT for name in KINDS])[seen.kind]
    return Ghosts(
        exists=exists,
        looks=replace(seen, opacity=seen.opacity * faint),
        xy=xy,
        size=(motion.size[row, who] * camera.scale(xy[..., 1]).clamp(0.15, 1)).clamp(0.02, 0.5),
        angle=motion.angle[row, when, where] * ~upright,
        flip=motion.flip[row, when, where],
        smear=torch.stack([way.cos(), way.sin()], dim=-1) * far[..., None],
    )

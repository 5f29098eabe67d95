"""Showing: pictures and ground truth of planned episodes."""

from dataclasses import dataclass

import torch
from jaxtyping import Float32, Float64, Int64, UInt8
from torch import Tensor

from gswm.core.records import Record, concatenate, map_tensors
from gswm.data.episode import Episodes, Truth
from gswm.data.worlds.clips import film
from gswm.data.worlds.clips.film import FilmLook
from gswm.data.worlds.clips.looks import BODY
from gswm.data.worlds.clips.painting import Painted, Placed, boxes, cast, paint, place
from gswm.data.worlds.clips.plan import Plan
from gswm.data.worlds.clips.scenery import draw_background
from gswm.data.worlds.clips.sprites import Sprites, make_sprites
from gswm.data.worlds.threads import in_threads

SHOWN = 0.4
"""Smallest fraction of an object inside the frame for it to be present."""
CLUTTER_SHADOW = 0.7
"""Strength of shadows of static things, relative to those of objects."""


@dataclass(frozen=True)
class Backdrop:
    """Scenery behind and in front of the objects of several episodes."""

    picture: Float32[Tensor, "episode 3 side side"]
    field: Float32[Tensor, "episode side side"]
    """A field from 0 to 1 that distinguishes parts of the picture."""
    through: Float32[Tensor, "episode side side"]
    """Transmission of the static things in front of the objects."""


@dataclass(frozen=True)
class Cast:
    """The objects of several episodes, in every frame and in one more after the last."""

    sprite: Int64[Tensor, "episode time object"]
    xy: Float64[Tensor, "episode time object 2"]
    """Positions of sprites, in pixels."""
    turn: Float64[Tensor, "episode time object 2 2"]
    center: Float64[Tensor, "episode time object 2"]
    """Center of the box."""
    wh: Float64[Tensor, "episode time object 2"]


def show(plan: Plan, side: int, device: torch.device) -> Episodes:
    """Episodes with their pictures."""
    moving, static = plan.motion.exists, plan.things.exists
    looks = concatenate(
        [
            map_tensors(lambda values: values[moving], plan.looks),
            map_tensors(lambda values: values[static], plan.things.looks),
            map_tensors(lambda values: values[plan.ghosts.exists], plan.ghosts.looks),
        ]
    )
    sprites = make_sprites(looks, device)
    backdrop = draw_backdrop(plan, sprites, side, device)
    actors = placed_objects(plan, sprites, side)
    items, where = items_of(plan, actors)
    frames = len(plan) * plan.film.gain.shape[1]
    through = backdrop.through.repeat_interleave(frames // len(plan), dim=0)
    painted = paint(items, sprites, frames, side, through)
    light = cast_shadows(plan, items, where, sprites, frames, side)
    filmed = on(plan.film, device)
    video = film_frames(plan.film, filmed, painted, light, backdrop)
    picture = film.refocused(haunted(plan, backdrop, sprites, side), filmed.focus)
    picture = film.expose(picture, filmed.still_gain, filmed.still_offset)
    truth = truth_of(plan, actors, items, where, painted, sprites)
    return Episodes(
        video, map_tensors(lambda v: v.to(device), truth), background=film.to_bytes(picture)
    )


def on(record: Record, device: torch.device) -> Record:
    """Parameters on the device of the pictures, in single precision."""
    return map_tensors(lambda v: (v.float() if v.is_floating_point() else v).to(device), record)


def draw_backdrop(plan: Plan, sprites: Sprites, side: int, device: torch.device) -> Backdrop:
    """Backgrounds with the static things in them."""
    scenery, camera = on(plan.scenery, device), on(plan.camera, device)
    tracks, dish = on(plan.tracks, device), on(plan.dish, device)
    picture, field = draw_background(scenery, camera, tracks, dish, side)
    things, episodes = plan.things, len(plan)
    which = things.exists
    rank = torch.arange(which.shape[1]).expand(which.shape)[which]
    sprite = sprites.first[int(plan.motion.exists.sum()) :][: int(which.sum())]
    angle = things.angle[which]
    items = Placed(
        frame=torch.arange(episodes)[:, None].expand(which.shape)[which],
        rank=rank,
        sprite=sprite,
        xy=things.xy[which] * side,
        turn=place(sprite, sprites, things.size[which] * side, angle, torch.ones_like(angle)),
        smear=torch.zeros_like(things.xy[which]),
    )
    strength = CLUTTER_SHADOW * plan.shadows.strength[items.frame]
    if bool((strength > 0).any()):
        moved = plan.shadows.offset[items.frame] * (things.size[which] * side)[:, None]
        picture = picture * cast(
            *(shifted(items, moved), strength, sprites, episodes, side)
        ).unsqueeze(1)
    painted = paint(items, sprites, episodes, side)
    picture = painted.color + painted.through[:, None] * picture
    front = things.in_front[which]
    through = paint(items[front], sprites, episodes, side).through
    return Backdrop(picture, field, through)


def haunted(
    plan: Plan, backdrop: Backdrop, sprites: Sprites, side: int
) -> Float32[Tensor, "episode 3 side side"]:
    """The backgrounds with their ghosts."""
    ghosts, which, episodes = plan.ghosts, plan.ghosts.exists, len(plan)
    number = int(which.sum())
    if not number:
        return backdrop.picture
    sprite = sprites.first[-number:]
    size = ghosts.size[which] * side
    items = Placed(
        frame=torch.arange(episodes)[:, None].expand(which.shape)[which],
        rank=torch.arange(which.shape[1]).expand(which.shape)[which],
        sprite=sprite,
        xy=ghosts.xy[which] * side,
        turn=place(sprite, sprites, size, ghosts.angle[which], ghosts.flip[which]),
        smear=ghosts.smear[which] * size[:, None],
    )
    painted = paint(items, sprites, episodes, side, backdrop.through)
    strength = plan.shadows.strength[items.frame]
    light = painted.through
    if bool((strength > 0).any()):
        moved = shifted(items, plan.shadows.offset[items.frame] * size[:, None])
        light = light * cast(moved, strength, sprites, episodes, side)
    light = light + (1 - backdrop.through)
    return painted.color + light[:, None] * backdrop.picture


def shifted(items: Placed, by: Float64[Tensor, "item 2"]) -> Placed:
    """The same items, shifted."""
    return Placed(**{**vars(items), "xy": items.xy + by})


def placed_objects(plan: Plan, sprites: Sprites, side: int) -> Cast:
    """Sprites and boxes of all objects, in the frame or not; empty slots have arbitrary values."""
    motion = plan.motion
    index = (motion.exists.flatten().cumsum(0) - 1).clamp_min(0).view_as(motion.exists)
    first, phases = (
        values[index][:, None].expand(motion.scale.shape) if len(values) else motion.phase * 0
        for values in (sprites.first, sprites.phases)
    )
    if not len(sprites.first):
        empty = torch.zeros_like(motion.xy)
        turn = torch.eye(2, dtype=torch.float64).expand(*motion.scale.shape, 2, 2)
        return Cast(first, empty, turn, empty, empty)
    sprite = first + motion.phase % phases
    size = motion.size[:, None] * motion.scale * side
    turn = place(first, sprites, size, motion.angle, motion.flip)
    middle, wh = boxes(turn, sprites.hull[sprite])
    xy = motion.xy * side
    return Cast(sprite, xy, turn, xy + middle, wh)


def items_of(plan: Plan, actors: Cast) -> tuple[Placed, Tensor]:
    """All objects of all frames in sequence, and their slots."""
    motion, time = plan.motion, plan.film.gain.shape[1]
    exists = motion.exists[:, None].expand(-1, time, -1)
    hidden = motion.order[:, :time].masked_fill(~exists, -1)
    rank = hidden.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    frame = torch.arange(exists.shape[0] * time).view(-1, time, 1).expand(exists.shape)
    smear = actors.xy.diff(dim=1) * plan.film.shutter[:, None, None, None]
    values = (frame, rank, actors.sprite[:, :time], actors.xy[:, :time], actors.turn[:, :time])
    return Placed(*(each[exists] for each in (*values, smear))), exists


def cast_shadows(
    plan: Plan, items: Placed, where: Tensor, sprites: Sprites, frames: int, side: int
) -> Float32[Tensor, "frame side side"] | None:
    """The light on the ground, after the shadows of objects."""
    time = where.shape[1]
    strength = plan.shadows.strength[items.frame // time]
    dark = (strength > 0).nonzero()[:, 0]
    if not len(dark):
        return None
    size = (plan.motion.size[:, None] * plan.motion.scale * side)[:, :time][where][dark]
    offset = plan.shadows.offset[items.frame[dark] // time] * size[:, None]
    return cast(shifted(items[dark], offset), strength[dark], sprites, frames, side)


def film_frames(
    plan: FilmLook,
    filmed: FilmLook,
    painted: Painted,
    light: Float32[Tensor, "frame side side"] | None,
    backdrop: Backdrop,
) -> UInt8[Tensor, "episode time 3 side side"]:
    """Every frame as the camera records it; `plan` is `filmed` on the CPU."""
    episodes, time = plan.gain.shape[:2]
    device, side = painted.color.device, painted.color.shape[-1]
    out = torch.empty(episodes, time, side, side, 3, dtype=torch.uint8, device=device)
    frame_key = torch.arange(time, dtype=torch.int32, device=device) * 7919

    def record(episode: int) -> None:
        here = slice(episode * time, (episode + 1) * time)
        picture, each = backdrop.picture[episode : episode + 1], slice(episode, episode + 1)
        if bool(plan.sways[episode]):
            part = map_tensors(lambda values: values[each], filmed)
            behind = film.swayed(picture, backdrop.field[each], part)[0]
        else:
            behind = picture
        through = painted.through[here]
        if light is not None:
            through = through * light[here]
        through = through + (1 - backdrop.through[each])
        frames = torch.addcmul(painted.color[here], behind, through[:, None])
        if plan.focus[episode] != 0:
            frames = film.refocused(frames, filmed.focus[each].expand(time))
        frames = film.expose(frames, filmed.gain[episode], filmed.offset[episode])
        if plan.noise[episode, 0] > 0:
            key, sigma = filmed.key[episode] + frame_key, filmed.noise[each].expand(time, 2)
            frames += film.grain(key, sigma, side)
        if plan.step[episode] > 0:
            frames = film.compressed(frames, filmed.step[each].expand(time))
        out[episode] = film.to_bytes(frames).permute(0, 2, 3, 1)

    in_threads(record, range(episodes), device)
    return out.permute(0, 1, 4, 2, 3)


def truth_of(
    plan: Plan,
    actors: Cast,
    items: Placed,
    where: Tensor,
    painted: Painted,
    sprites: Sprites,
) -> Truth:
    """Ground truth of all objects; boxes enclose whole objects, hidden or out of the frame."""
    time = where.shape[1]
    whole = sprites.area[items.sprite] * torch.linalg.det(items.turn).abs()
    shares = []
    for area in (painted.shown, painted.seen):
        share = torch.zeros(where.shape, dtype=torch.float64)
        share[where] = (area / whole).clamp(0, 1)
        shares.append(share)
    shown, seen = shares
    there = where[..., None]
    hw = (actors.wh[:, :time] * there).flip(-1)
    number = torch.arange(1, where.shape[2] + 1)
    colors = plan.looks.colors[:, None, :, BODY].expand(-1, time, -1, -1)
    return Truth(
        positions=actors.center[:, :time] * there,
        velocities=actors.center.diff(dim=1) * there,
        sizes=hw.prod(dim=-1).sqrt() / 2,
        layers=torch.zeros_like(plan.motion.order[:, :time]),
        order=plan.motion.order[:, :time],
        colors=colors * there,
        ids=number * where,
        present=shown >= SHOWN,
        hw=hw,
        visibility=seen,
    )

"""Throws: render an object's past along a new path, and infer it again.

Velocity is encoded in the hidden state of an object, which cannot be edited directly. Instead, the
last few frames are rendered with the object on the path of the throw and all other objects where
they were. The model infers these frames, so that its hidden state contains the new motion.
"""

import math
from typing import Any

import torch

from gswm.core.errors import UserError
from gswm.models.base import WorldModel
from gswm.models.scene import FARTHEST
from gswm.models.state import State
from gswm.models.track import Track
from gswm.studio.protocol import XY

FRAMES = 4
"""Maximum number of frames to render again."""
FASTEST = 0.2
"""Maximum speed along x and y, in units of `xy` per frame; trained models know no faster ones."""

JUMP = 0.3
"""Larger displacements between frames, in units of `xy`, count as jumps."""
NEAR = 0.15
"""Maximum distance between a rendered and an inferred position, in units of `xy`."""
FAR = (9.0, 9.0)
"""Position of an object that is not found."""


def throw(model: WorldModel[Any], track: Track, id: int, xy: XY, velocity: XY) -> Track:
    """Infer the last frames of a track again, with an object that flies to `xy`.

    The objects are those of the last, possibly edited state, on their previous paths.
    `velocity` is per frame, in the units of `xy`.
    """
    if not model.editable:
        raise UserError("this model cannot render edited scenes, so objects cannot be thrown")
    time = track.pres.shape[1]
    if time < 2:
        raise UserError("objects have no history in the first frame: throw it in a later one")
    velocity = (limited(velocity[0]), limited(velocity[1]))
    best, least = None, math.inf
    for frames in range(min(FRAMES, time - 1), 0, -1):
        flown = flight(model, track, id, xy, velocity, frames)
        off = astray(track, flown, id, xy)
        if off < least:
            best, least = flown, off
        if least < NEAR:
            break
    assert best is not None
    return best


def flight(
    model: WorldModel[Any], track: Track, id: int, xy: XY, velocity: XY, frames: int
) -> Track:
    """Render and infer the last frames again."""
    assert track.background is not None
    time, room = track.pres.shape[1], inside(track, id)
    scene, way_of = track.state_at(-1), ways(track, time - 1)
    scenes, drawn = [], []
    for frame in range(time - 1 - frames, time):
        way = [(frame - time + 1) * speed for speed in velocity]
        x, y = (folded(at + by, most) for at, by, most in zip(xy, way, room, strict=True))
        scenes.append(placed(scene, way_of, frame).move(id, (x, y)))
        drawn.append(model.view(scenes[-1], track.background[:, frame]).reconstruction)
    return model.infer_after(scenes[0], torch.cat(drawn[1:], dim=1).clamp(0, 1))


def astray(track: Track, flown: Track, id: int, xy: XY) -> float:
    """Distance between the rendered and the inferred position; objects that meet may be swapped."""
    wanted = there(track, track.pres.shape[1] - 1) | {id: xy}
    found = there(flown, flown.pres.shape[1] - 1)
    return max(math.dist(wanted[each], found.get(each, FAR)) for each in wanted)


def limited(speed: float) -> float:
    """Clip a speed to what the model can follow."""
    return max(-FASTEST, min(FASTEST, speed))


def inside(track: Track, id: int) -> XY:
    """Largest offset of an object's center, along x and y, at which all of it is in view."""
    index = (track.id[0, -1] == id).nonzero()
    if id < 0 or not len(index):
        raise UserError(f"there is no object {id} in this frame")
    height, width = track.hw[0, -1, index[0, 0]].tolist()
    return max(0.05, 1 - width), max(0.05, 1 - height)


def folded(at: float, room: float) -> float:
    """Reflect a position at the walls."""
    if abs(at) <= room:
        return at
    back = 2 * room - abs(at)
    return max(-room, back) * (1 if at > 0 else -1)


def placed(scene: State, way_of: dict[int, dict[int, XY]], frame: int) -> State:
    """Move every object of a scene to its position in an earlier frame, if it was present.

    Positions far out of view are clipped to those that a scene accepts.
    """
    for id, way in way_of.items():
        if frame in way:
            x, y = (max(-FARTHEST, min(FARTHEST, at)) for at in way[frame])
            scene = scene.move(id, (x, y))
    return scene


def ways(track: Track, last: int) -> dict[int, dict[int, XY]]:
    """Past positions of the objects of the last frame; the whole path moves with one that jumped.

    An edit that moves an object has no path that leads there.
    """
    places = [there(track, frame) for frame in range(last + 1)]
    found = {}
    for id, now in places[last].items():
        way, shift = {last: now}, (0.0, 0.0)
        for frame in range(last - 1, -1, -1):
            if id not in places[frame]:
                break
            x, y = places[frame][id]
            x, y = x + shift[0], y + shift[1]
            ahead = way[frame + 1]
            if math.dist((x, y), ahead) > JUMP:
                shift = (shift[0] + ahead[0] - x, shift[1] + ahead[1] - y)
                x, y = ahead
            way[frame] = (x, y)
        found[id] = way
    return found


def there(track: Track, frame: int) -> dict[int, XY]:
    """Positions of the objects of a frame."""
    found = track.present[0, frame]
    ids, xy = track.id[0, frame][found].tolist(), track.xy[0, frame][found].tolist()
    return {id: (x, y) for id, (x, y) in zip(ids, xy, strict=True)}

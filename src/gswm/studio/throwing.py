"""A throw: an object's past is drawn anew as if it came flying, and the model looks again.

Velocity is in the hidden state of an object, where no edit reaches it. So the scene is drawn for
the last few frames with the object on the way that the throw says, all else where it was, and
these frames are inferred: what the model then carries on has the new motion in it.
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
"""Number of last frames that are drawn again, if there are as many."""
FASTEST = 0.2
"""Half frame sides per frame, along x and along y: faster than any object that was learned."""

JUMP = 0.3
"""Farther than this no object goes from one frame to the next, in the units of `xy`."""
NEAR = 0.15
"""Largest distance between a drawn object and where it is found, in units of `xy`."""
FAR = (9.0, 9.0)
"""Position of an object that is not found."""


def throw(model: WorldModel[Any], track: Track, id: int, xy: XY, velocity: XY) -> Track:
    """The last frames of one video's track, with an object that flies to `xy`.

    The objects are those of the last state, edited as that may be, on their ways before it.
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
    """The last so many frames, drawn anew and inferred."""
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
    """Distance between a drawn object and where it is found: two that meet may be mixed up."""
    wanted = there(track, track.pres.shape[1] - 1) | {id: xy}
    found = there(flown, flown.pres.shape[1] - 1)
    return max(math.dist(wanted[each], found.get(each, FAR)) for each in wanted)


def limited(speed: float) -> float:
    """As fast as the model can follow."""
    return max(-FASTEST, min(FASTEST, speed))


def inside(track: Track, id: int) -> XY:
    """Largest offset of an object's center, along x and y, at which all of it is in view."""
    index = (track.id[0, -1] == id).nonzero()
    if id < 0 or not len(index):
        raise UserError(f"there is no object {id} in this frame")
    height, width = track.hw[0, -1, index[0, 0]].tolist()
    return max(0.05, 1 - width), max(0.05, 1 - height)


def folded(at: float, room: float) -> float:
    """Back from where a wall would have turned it."""
    if abs(at) <= room:
        return at
    back = 2 * room - abs(at)
    return max(-room, back) * (1 if at > 0 else -1)


def placed(scene: State, way_of: dict[int, dict[int, XY]], frame: int) -> State:
    """A scene with every object where it was in an earlier frame, if it was there.

    One that is farther away than a scene takes, far out of view, is moved as far as that goes.
    """
    for id, way in way_of.items():
        if frame in way:
            x, y = (max(-FARTHEST, min(FARTHEST, at)) for at in way[frame])
            scene = scene.move(id, (x, y))
    return scene


def ways(track: Track, last: int) -> dict[int, dict[int, XY]]:
    """Past positions of the objects of the last frame; the whole path moves with one that jumped.

    An object that was put elsewhere by an edit was never on its way there.
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

"""The layouts of data files: the keys of a file, and how they form episodes (App. C).

The keys, shapes and types are those of the authors' release, so that programs for one can read the
other. `imgs` is in all of them: uint8, (episode, frame, height, width, 3).

    balls        positions, velocities, sizes, masses, layers, shapes, colors, present (there is
                 a ball), in_camera (the frame shows it), ids (0 if it does not)
    single-ball  positions, directions (0 left, 1 right)
    maze         grids (1 for corridors), trajs (cells: row, column), pres
    obj3d        all of balls, and 3D ground truth (see `obj3d.layout`)
    clips        all of balls, hw (heights and widths of boxes), order, and visibility (the visible
                 fraction of an object); objects outside the frame have positions and ids, too
    video        nothing else; if the videos were imported, `splits`, `sources`, `placements`
                 (a `Placement` as JSON), `source_frames` and `source_times` (in seconds)

A file of any layout may also have `actions`, `rewards`, `backgrounds` and `labels` (see `EXTRAS`).

Episodes that a layout cannot store without loss are rejected (see `check_lossless`). For balls,
everything but the depth order is stored: layer 0 is behind layer 1, and within a layer a slot is
behind the next one. Masses are 1 and shapes 0 (a disk), as in all datasets of the release. For a
single ball and a maze, velocities are the steps to the next frame, and a color is that of the video
at the center of the object, in the frame in which objects drawn over it are furthest away.
"""

from dataclasses import fields, replace
from typing import get_args

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float64, Int, UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.data.episode import Corridors, Episodes, Truth
from gswm.data.labels import NUMBERS, Labels
from gswm.data.worlds.base import Layout as Layout
from gswm.data.worlds.obj3d import layout as obj3d

Arrays = dict[str, np.ndarray]

IMGS = ("N T H W 3", "uint8")
BALLS = {
    **dict.fromkeys(("positions", "velocities"), ("N T O 2", "float64")),
    **dict.fromkeys(("sizes", "masses", "layers", "shapes"), ("N T O", "float64")),
    **dict.fromkeys(("present", "in_camera", "ids"), ("N T O", "float64")),
    "colors": ("N T O 3", "float64"),
}
TEXTS = {"splits", "sources", "placements"}
"""Keys of imported files that hold a text for each episode."""
KEYS: dict[Layout, dict[str, tuple[str, str]]] = {
    "obj3d": {**BALLS, **obj3d.KEYS},
    "balls": BALLS,
    "single-ball": {"positions": ("N T 2", "float64"), "directions": ("N", "int64")},
    "maze": {
        "grids": ("N R C", "int8"),
        "trajs": ("N S O 2", "int64"),
        "pres": ("N S O", "float64"),
    },
    "clips": {
        **BALLS,
        "hw": ("N T O 2", "float64"),
        "order": ("N T O", "int64"),
        "visibility": ("N T O", "float64"),
    },
    "video": {},
}
"""Axes: N episodes, T frames, O slots, S steps, R rows, C columns of a grid."""
EXTRAS = {
    "actions": ("N T A", "float32"),
    "rewards": ("N T", "float32"),
    "backgrounds": ("N H W 3", "uint8"),
    "labels": (f"N T L {NUMBERS}", "float32"),
}
"""Optional keys of a file of any layout: an action has A numbers, and there are L boxes."""
HOLDS: dict[Layout, tuple[str, ...]] = {
    "obj3d": ("truth", "space"),
    "balls": ("truth",),
    "single-ball": ("truth",),
    "maze": ("truth", "corridors"),
    "clips": ("truth",),
    "video": (),
}
"""The parts of `Episodes` besides the video that a file of each layout has."""
ALWAYS = ("video", "actions", "rewards", "background", "labels")
"""The parts of `Episodes` that every layout can hold."""
CLOSE = 1e-4
"""Rounding errors of the types in a file, in pixels and in fractions of a color."""
FARTHEST = 1e9
"""The largest plausible position, size or time in a file."""
MAZE_SLOTS = 5
SINGLE_BALL_RADIUS = 7 / 64
"""Radius relative to the frame's side."""


def recognize(shapes: dict[str, tuple[int, ...]]) -> Layout:
    """The layout of a file with keys of these shapes; "video" if no other fits."""
    for layout in get_args(Layout):
        if all(
            k in shapes and len(shapes[k]) == len(a.split()) for k, (a, _) in KEYS[layout].items()
        ):
            return layout
    raise AssertionError("every file has the layout 'video'")


def ignored(layout: Layout, shapes: dict[str, tuple[int, ...]]) -> str | None:
    """The keys that only another layout has, and the keys that it lacks, in words."""

    def fits(other: Layout, key: str) -> bool:
        return len(shapes.get(key, ())) == len(KEYS[other][key][0].split())

    others: list[Layout] = [
        other for other in KEYS if shapes.keys() & (KEYS[other].keys() - KEYS[layout].keys())
    ]
    if not others:
        return None
    lacks: dict[Layout, list[str]] = {
        other: [key for key in KEYS[other] if not fits(other, key)] for other in others
    }
    nearest = min(
        others, key=lambda other: (len(lacks[other]) - len(KEYS[other]), len(lacks[other]))
    )
    left = sorted(shapes.keys() & (KEYS[nearest].keys() - KEYS[layout].keys()))
    axes = {key: KEYS[nearest][key][0].replace(" ", ", ") for key in lacks[nearest]}
    needs = [f"{key} of shape ({axes[key]})" if key in shapes else key for key in lacks[nearest]]
    verb = "is" if len(left) == 1 else "are"
    return f"{', '.join(left)} {verb} ignored: the layout {nearest} also needs {', '.join(needs)}"


def mismatch(layout: Layout, shapes: dict[str, tuple[int, ...]]) -> str | None:
    """The first key whose shape does not fit the others, in words."""
    sizes: dict[str, int] = {}
    extras = {key: EXTRAS[key] for key in EXTRAS if key in shapes}
    for key, (axes, _) in {"imgs": IMGS, **KEYS[layout], **extras}.items():
        found, names = shapes[key], axes.split()
        expected = [int(a) if a.isdigit() else sizes.get(a) for a in names]
        if len(found) != len(names) or any(
            e not in (None, f) for e, f in zip(expected, found, strict=True)
        ):
            form = ", ".join(
                a if e is None else str(e) for a, e in zip(names, expected, strict=True)
            )
            return f"`{key}` has the shape {found}; expected ({form})"
        sizes.update(zip(names, found, strict=True))
    if layout == "maze" and sizes["T"] != 2 * sizes["S"] - 1:
        return f"`trajs` has {sizes['S']} steps for {sizes['T']} frames; expected one every two"
    if sizes.get("O") == 0:
        return "it has no slots for objects; store only `imgs` for a video without ground truth"
    if sizes.get("A") == 0:
        return "`actions` has no values; omit the key"
    return None


def to_arrays(layout: Layout, episodes: Episodes) -> Arrays:
    """The arrays that a file of `layout` stores; raises if a part of `episodes` would be lost."""
    check_parts(layout, episodes)
    video = rearrange(episodes.video, "n t c h w -> n t h w c")
    stored = {"imgs": video, **_TO_TENSORS[layout](episodes), **_extras(episodes)}
    types = {"imgs": IMGS, **KEYS[layout], **EXTRAS}
    arrays = {
        key: np.ascontiguousarray(tensor.cpu().numpy(), dtype=types[key][1])
        for key, tensor in stored.items()
    }
    if wrong := mismatch(layout, {key: array.shape for key, array in arrays.items()}):
        raise UserError(f"these episodes cannot be stored: {wrong}")
    check_lossless(layout, episodes, arrays)
    return arrays


def check_parts(layout: Layout, episodes: Episodes) -> None:
    """Raise a UserError unless the episodes have exactly the parts of the layout."""
    has = {f.name for f in fields(episodes) if getattr(episodes, f.name) is not None}
    for part in sorted(has - {*HOLDS[layout], *ALWAYS}):
        able = [name for name, held in HOLDS.items() if part in held]
        choose = f"choose {' or '.join(able)}, or omit the {part}"
        raise UserError(
            f"the layout '{layout}' cannot store the {part} of these episodes: {choose}"
        )
    if lacks := [part for part in HOLDS[layout] if part not in has]:
        choose = "choose another; 'video' stores only frames"
        raise UserError(f"the layout '{layout}' needs the {lacks[0]} of the episodes: {choose}")


def check_lossless(layout: Layout, episodes: Episodes, arrays: Arrays) -> None:
    """Raise a UserError if reading the file would return different objects.

    Only objects in the frame count. If the layout has no colors, the video shows them.
    """
    if episodes.truth is None:
        return
    back = _read(layout, {key: torch.from_numpy(array) for key, array in arrays.items()}).truth
    assert back is not None
    present = episodes.truth.present.cpu()
    slots = present.shape[2]
    kept = back.present[:, :, :slots]
    lost = [] if kept.shape == present.shape and torch.equal(kept, present) else ["presence"]
    if not lost:
        was, now = _comparable(episodes.truth), _comparable(back)
        was = {name: tensor[present] for name, tensor in was.items()}
        now = {name: tensor[:, :, :slots][present] for name, tensor in now.items()}
        names = [name for name in was if name != "colors" or "colors" in KEYS[layout]]
        kept = [name for name in names if name in now]
        lost = [name for name in names if name not in now]
        lost += [name for name in kept if not torch.allclose(was[name], now[name], atol=CLOSE)]
    if lost:
        choose = "choose another; gswm.data.storage.layouts lists what each stores"
        raise UserError(
            f"the layout '{layout}' cannot store the {lost[0]} of these objects: {choose}"
        )


def _comparable(truth: Truth) -> dict[str, Tensor]:
    """All of a truth but the presence, as numbers that are equal if their meaning is."""
    values = {f.name: getattr(truth, f.name) for f in fields(truth) if f.name != "present"}
    found = {name: value for name, value in values.items() if value is not None}
    behind = truth.order.masked_fill(~truth.present, torch.iinfo(truth.order.dtype).max)
    ranks = behind.argsort(dim=-1, stable=True).argsort(dim=-1)
    found |= {"hw": truth.boxes_hw(), "order": ranks}
    return {name: tensor.double().cpu() for name, tensor in found.items()}


def check_values(arrays: Arrays, path: object) -> None:
    """Raise a UserError for impossible numbers: positions that are not finite or far too large."""
    for key, array in arrays.items():
        if array.dtype.kind == "f" and array.size and not float(np.abs(array).max()) <= FARTHEST:
            raise UserError(
                f"{path}: `{key}` has non-finite values, or values beyond {FARTHEST:g}; create the "
                f"file again"
            )
    if "trajs" in arrays and arrays["trajs"].size:
        cells, (rows, columns) = arrays["trajs"], arrays["grids"].shape[1:]
        if cells.min() < 0 or (cells.max(axis=(0, 1, 2)) >= (rows, columns)).any():
            raise UserError(f"{path}: `trajs` leave the grid of {rows} x {columns} cells")


def to_episodes(layout: Layout, arrays: Arrays) -> Episodes:
    """The inverse of `to_arrays`."""
    native = {k: a.astype(a.dtype.newbyteorder("="), copy=False) for k, a in arrays.items()}
    tensors = {key: torch.from_numpy(array) for key, array in native.items()}
    read = _read(layout, tensors)
    read = replace(read, video=read.video.contiguous())
    for name in ("actions", "rewards"):
        if name in tensors:
            read = replace(read, **{name: tensors[name].float()})
    if "backgrounds" in tensors:
        background = rearrange(tensors["backgrounds"], "n h w c -> n c h w").contiguous()
        read = replace(read, background=background)
    if "labels" in tensors:
        read = replace(read, labels=Labels.unpacked(tensors["labels"].float()))
    return read


def _read(layout: Layout, tensors: dict[str, Tensor]) -> Episodes:
    video = rearrange(tensors["imgs"], "n t h w c -> n t c h w")
    if layout == "balls":
        return Episodes(video, _balls_truth(tensors))
    if layout == "obj3d":
        order, ids = obj3d.nearness(tensors["poses"]), obj3d.ids_of(tensors)
        truth = replace(_balls_truth(tensors), hw=obj3d.hw_of(tensors), order=order, ids=ids)
        return Episodes(video, truth, space=obj3d.space_of(tensors))
    if layout == "clips":
        return Episodes(video, _clips_truth(tensors))
    if layout == "single-ball":
        return Episodes(video, _single_ball_truth(video, tensors["positions"].double()))
    if layout == "maze":
        corridors = Corridors(tensors["grids"].long(), tensors["trajs"].long())
        return Episodes(video, _maze_truth(video, corridors, tensors["pres"] > 0.5), corridors)
    return Episodes(video)


def _extras(episodes: Episodes) -> dict[str, Tensor]:
    found = {"actions": episodes.actions, "rewards": episodes.rewards}
    if episodes.background is not None:
        found["backgrounds"] = rearrange(episodes.background, "n c h w -> n h w c")
    if episodes.labels is not None:
        found["labels"] = episodes.labels.packed()
    return {key: tensor for key, tensor in found.items() if tensor is not None}


def _truth_of(episodes: Episodes) -> Truth:
    assert episodes.truth is not None  # see `check_parts`
    return episodes.truth


def _from_balls(episodes: Episodes) -> dict[str, Tensor]:
    truth = _truth_of(episodes)
    seen, exists = truth.present.double(), (truth.ids > 0).double()
    return {
        "positions": truth.positions * seen[..., None],
        "velocities": truth.velocities,
        "sizes": truth.sizes * seen,
        "masses": exists,
        "layers": truth.layers,
        "shapes": torch.zeros_like(exists),
        "present": exists,
        "in_camera": seen,
        "ids": truth.ids * truth.present,
        "colors": truth.colors,
    }


def _from_single_ball(episodes: Episodes) -> dict[str, Tensor]:
    positions = _truth_of(episodes).positions[:, :, 0]
    right = positions[:, -1, 0] > episodes.video.shape[-1] / 2
    return {"positions": positions, "directions": right}


def _from_maze(episodes: Episodes) -> dict[str, Tensor]:
    corridors = episodes.corridors
    assert corridors is not None  # see `check_parts`
    cells, pres = corridors.cells, _truth_of(episodes).present[:, ::2]
    missing = max(0, MAZE_SLOTS - cells.shape[2])
    return {
        "grids": corridors.grid,
        "trajs": torch.nn.functional.pad(cells * pres[..., None], (0, 0, 0, missing)),
        "pres": torch.nn.functional.pad(pres, (0, missing)),
    }


def _from_clips(episodes: Episodes) -> dict[str, Tensor]:
    truth = _truth_of(episodes)
    return {
        **_from_balls(episodes),
        "positions": truth.positions,
        "sizes": truth.sizes,
        "ids": truth.ids,
        "hw": truth.boxes_hw(),
        "order": truth.order,
        "visibility": truth.present.double() if truth.visibility is None else truth.visibility,
    }


_TO_TENSORS = {
    "obj3d": lambda episodes: obj3d.to_tensors(episodes, _from_balls(episodes)),
    "balls": _from_balls,
    "single-ball": _from_single_ball,
    "maze": _from_maze,
    "clips": _from_clips,
    "video": lambda episodes: {},
}


def _balls_truth(stored: dict[str, Tensor]) -> Truth:
    ids, layers = stored["ids"].long(), stored["layers"].long()
    farthest = layers.max() + 1 if layers.numel() else 0
    behind = torch.where(stored["present"] > 0.5, layers, farthest)
    return Truth(
        positions=stored["positions"].double(),
        velocities=stored["velocities"].double(),
        sizes=stored["sizes"].double(),
        layers=layers,
        order=behind.argsort(dim=-1, stable=True).argsort(dim=-1),
        colors=stored["colors"].double(),
        ids=ids,
        present=stored["in_camera"] > 0.5,
    )


def _clips_truth(stored: dict[str, Tensor]) -> Truth:
    own = {"hw": stored["hw"].double(), "visibility": stored["visibility"].double()}
    return replace(_balls_truth(stored), order=stored["order"].long(), **own)


def _single_ball_truth(
    video: UInt8[Tensor, "episode time 3 height width"],
    positions: Float64[Tensor, "episode time 2"],
) -> Truth:
    present = torch.ones(*positions.shape[:2], 1, dtype=torch.bool)
    radius = SINGLE_BALL_RADIUS * video.shape[-1]
    return _moving_disks(video, positions[:, :, None], radius, present)


def _maze_truth(
    video: UInt8[Tensor, "episode time 3 height width"],
    corridors: Corridors,
    pres: Bool[Tensor, "episode step object"],
) -> Truth:
    cell = video.shape[-1] / corridors.grid.shape[-1]
    at_steps = (corridors.cells.flip(-1).double() + 0.5) * cell
    between = (at_steps[:, :-1] + at_steps[:, 1:]) / 2
    positions = torch.empty(*video.shape[:2], *at_steps.shape[2:], dtype=torch.float64)
    positions[:, ::2], positions[:, 1::2] = at_steps, between
    present = pres.repeat_interleave(2, dim=1)[:, :-1]
    return _moving_disks(video, positions, cell / 2, present)


def _moving_disks(
    video: UInt8[Tensor, "episode time 3 height width"],
    positions: Float64[Tensor, "episode time object 2"],
    radius: float,
    present: Bool[Tensor, "episode time object"],
) -> Truth:
    """Disks of one size, drawn in the order of their slots; empty slots are zeros."""
    there = present[..., None].double()
    slot = torch.arange(positions.shape[2]).expand(present.shape)
    steps = positions.diff(dim=1)
    colors = colors_shown(video, positions, present)[:, None].expand(*present.shape, 3)
    return Truth(
        positions=positions * there,
        velocities=torch.cat([steps, steps[:, -1:]], dim=1) * there,
        sizes=radius * present.double(),
        layers=torch.zeros_like(slot),
        order=slot.clone(),
        colors=colors * there,
        ids=(slot + 1) * present,
        present=present,
    )


def colors_shown(
    video: UInt8[Tensor, "episode time 3 height width"],
    positions: Float64[Tensor, "episode time object 2"],
    present: Bool[Tensor, "episode time object"],
) -> Float64[Tensor, "episode object 3"]:
    """Color at the center of each object when the objects above it are furthest away."""
    episodes, _, objects, _ = positions.shape
    distance = torch.cdist(positions, positions)
    later = torch.ones(objects, objects, dtype=torch.bool).triu(1) & present[:, :, None]
    clear = distance.masked_fill(~later, torch.inf).amin(dim=-1)
    when: Int[Tensor, "episode object"] = clear.masked_fill(~present, -1).argmax(dim=1)
    which = torch.arange(episodes)[:, None]
    at = positions[which, when, torch.arange(objects)].long()
    column = at[..., 0].clamp(0, video.shape[-1] - 1)
    row = at[..., 1].clamp(0, video.shape[-2] - 1)
    return video[which, when, :, row, column].double() / 255

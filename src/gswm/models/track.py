"""Tracks: the objects of some videos, frame by frame, as every model reports them (§3.1).

Evaluation, pictures and the studio use only these records, for every model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from torch import Tensor

from gswm.core.devices import find_device
from gswm.core.doubt import confirmed
from gswm.core.errors import UserError
from gswm.core.files import check_place, check_suffix, write_whole
from gswm.core.geometry import SMALLEST
from gswm.core.limits import LARGEST_SCALE, MOST_FPS, check_integers, check_range
from gswm.core.records import map_tensors
from gswm.core.shapes import Video
from gswm.core.words import counted, plain, with_article
from gswm.data.importing.film import Film
from gswm.data.placement import Footage
from gswm.models.state import State
from gswm.viz import formats, pictures
from gswm.viz.imagination import Imagination, renamed
from gswm.viz.located import Located
from gswm.viz.overlay import LOCATED, save_located
from gswm.viz.pictures import Clip, Frames, PixelBoxes

AnyVideo = Video | UInt8[Tensor, "batch time 3 height width"]
"""Floats from 0 to 1, or bytes."""

AXES = ("video", "future")
"""Names of the axes of a track before time."""
TABLE, MOT = (".csv",), (".txt",)
SHEET = 20
"""Frames on the sheet of one video."""


@dataclass(frozen=True, repr=False, eq=False)
class Track:
    """The objects of some videos, frame by frame.

    `model.infer` returns one. The track that `model.imagine` returns has one more axis, for
    futures, after the axis of videos, and the given frames as its `past`.

        track = model.infer(video)
        print(track)                  # number of videos, frames and objects
        track.save("track.gif", video)
        track.save("track.csv")
        track.save("track.txt", film)     # in pixels of a film: see gswm.open_video
        pandas.DataFrame(track.to_frame())

    The axis `object` has one entry for each of the model's K slots, whether it holds an object or
    not: `present` is the mask of those that do.

    A track is a sequence of videos: `len(track)` counts them, and `track[i]` is one of them as a
    batch of one.
    """

    xy: Float[Tensor, "*batch time object 2"]
    """Centers; (-1, -1) is the top left corner of the image, (1, 1) its bottom right."""
    hw: Float[Tensor, "*batch time object 2"]
    """Heights and widths, as fractions of the image."""
    depth: Float[Tensor, "*batch time object"]
    """Depth order: objects with larger values are in front."""
    pres: Float[Tensor, "*batch time object"]
    """Presence from 0 to 1; above 0.5, the object is there."""
    id: Int[Tensor, "*batch time object"]
    """The same number for the same object in all frames; -1 for none."""
    reconstruction: Float[Tensor, "*batch time 3 height width"] | None
    """The frames as the model draws them; None if not rendered."""
    background: Float[Tensor, "*batch time 3 height width"] | None
    """The frames without objects; None if not rendered."""
    states: tuple[Any, ...] = ()
    """The state after each frame; videos and futures share the first axis."""
    past: "Track | None" = None
    """The given frames from which this was imagined."""
    reward: Float[Tensor, "*batch time"] | None = None
    """Predicted reward of each frame, for models that were trained on rewards."""

    @staticmethod
    def join(parts: Sequence["Track"]) -> "Track":
        """The track of videos from those of their consecutive chunks, without states.

        It has frames only if all chunks have them.
        """
        if not parts:
            raise UserError("there are no tracks to join")
        if any(part.futures is not None for part in parts):
            raise UserError("imagined tracks cannot be joined: join tracks of observed videos")
        shapes = {(len(part), *part.pres.shape[2:]) for part in parts}
        if len(shapes) > 1:
            raise UserError("tracks to join must have the same videos and the same slots")
        drawn = ("reconstruction", "background", "reward")
        lost = {name: None for name in drawn if any(getattr(p, name) is None for p in parts)}
        plain = [replace(part, states=(), **lost) for part in parts]
        return map_tensors(lambda *each: torch.cat(each, dim=1), *plain)

    def __repr__(self) -> str:
        *lead, time, _ = self.pres.shape
        names = (*AXES[: len(lead)], "frame")
        shape = " × ".join(map(counted, (*lead, time), names))
        if self.past is not None:
            shape += f" after {self.past.pres.shape[-2]} given"
        there = self.present.sum(dim=-1)
        most = int(there.max()) if there.numel() else 0
        per_frame = f" ({there.float().mean():.1f} per frame)" if most else ""
        objects = f"up to {counted(most, 'object')}" if most else "no objects"
        if self.reconstruction is None:
            return f"Track: {shape}, {objects}{per_frame}, not rendered"
        height, width = self.reconstruction.shape[-2:]
        return f"Track: {shape}, {objects}{per_frame}, {width} × {height} px"

    def __len__(self) -> int:
        return len(self.pres)

    def __getitem__(self, which: int | slice) -> "Track":
        """One video, or several; the axis of videos stays, so `track[0]` is a batch of one."""
        number = len(self)
        if not isinstance(which, slice):
            if not -number <= which < number:
                raise IndexError(f"there is no video {which}; the track has {number}")
            which = slice(which % number, which % number + 1)

        def chosen(state: Tensor) -> Tensor:
            return state.unflatten(0, (number, -1))[which].flatten(0, 1)

        rest = map_tensors(lambda x: x[which], replace(self, states=(), past=None))
        states = map_tensors(chosen, self.states) if number else self.states
        past = None if self.past is None else self.past[which]
        return replace(rest, states=states, past=past)

    def to(self, device: str | torch.device) -> "Track":
        """The same track on `device`, with its states and given frames."""
        there = find_device(device)
        return map_tensors(lambda tensor: tensor.to(there), self)

    @property
    def present(self) -> Bool[Tensor, "*batch time object"]:
        """Mask of present objects: presence above 0.5, and an id."""
        return (self.pres > 0.5) & (self.id >= 0)

    @property
    def confirmed(self) -> Bool[Tensor, "video time object"]:
        """Mask of all entries but those of doubtful objects that nothing confirms."""
        pres, ids, xy, hw = map(to_array, (self.pres, self.id, self.xy / 2, self.hw.flip(-1) / 2))
        there = to_array(self.present)
        video = there.nonzero()[0]
        number = video * (ids.max(initial=0) + 1) + ids[there]
        corners = np.concatenate([xy - hw, xy + hw], axis=-1)[there]
        stays = np.ones_like(there)
        stays[there] = confirmed(number, pres[there], corners)
        return torch.from_numpy(stays).to(self.pres.device)

    @property
    def futures(self) -> int | None:
        """Number of futures per video; None for the track of an observed video."""
        return self.pres.shape[1] if self.pres.dim() == 4 else None

    def state_at(self, frame: int) -> State | Any:
        """Return the state after `frame`, to edit it or to imagine from it.

        A `State`, or any record of a model whose objects cannot be edited.
        """
        if not -len(self.states) <= frame < len(self.states):
            raise UserError(f"there is no state at frame {frame} of {len(self.states)}")
        return self.states[frame]

    def to_frame(self) -> dict[str, list[int | float]]:
        """Return one row per object and frame as columns, for pandas.DataFrame.

        x, y, w and h are fractions of the image, with the origin at its top left corner. A track
        with futures has a column `future`.
        """
        there = self.present
        index = there.nonzero()
        names = ["episode", "future", "frame"] if self.pres.dim() == 4 else ["episode", "frame"]
        columns = dict(zip(names, index.T.tolist(), strict=False))
        center, size = (self.xy[there] + 1) / 2, self.hw[there]
        values = {"id": self.id[there], "x": center[:, 0], "y": center[:, 1]}
        values |= {"w": size[:, 1], "h": size[:, 0]}
        values |= {"depth": self.depth[there], "presence": self.pres[there]}
        return columns | {name: value.tolist() for name, value in values.items()}

    def to_csv(self, path: str | Path, first_episode: int = 0) -> None:
        """Write the table of `to_frame`, one line per object and frame, to a file.

        For an imagined track, the given frames come first, as future -1, and frames are counted
        from the first of them. Episodes are counted from `first_episode`.
        """
        columns = self.to_frame()
        if self.past is not None:
            past, given = self.past.to_frame(), self.past.pres.shape[-2]
            past["future"] = [-1] * len(past["id"])
            columns["frame"] = [frame + given for frame in columns["frame"]]
            columns = {name: past[name] + values for name, values in columns.items()}
        columns["episode"] = [first_episode + episode for episode in columns["episode"]]
        rows = zip(*columns.values(), strict=True)
        lines = [columns, *(map(plain, row) for row in rows)]
        write_whole(Path(path), "".join(",".join(line) + "\n" for line in lines).encode())

    def draw(
        self,
        video: AnyVideo | None = None,
        *,
        episode: int = 0,
        future: int | None = None,
        scale: int = 4,
        trail: int = 8,
    ) -> Frames:
        """Draw frames with boxes, ids and trails: bytes (time, height, width, 3).

        The boxes are drawn on the `video` that the model was given, or on the reconstruction. For
        a track with futures, `future` selects one, which follows the given frames; by default all
        futures are drawn side by side, as by `gswm imagine`. Imagined frames have a border.

        Args:
            video: The batch of videos, as `model.infer` takes it. It may be larger than the
                model's frames, except for a track with futures.
            episode: Index of the video in the batch.
            future: Index of the future. Default: None (all).
            scale: Factor by which frames are enlarged; half of it if all futures are drawn.
            trail: Number of past frames in which the path of each object is drawn.
        """
        check_drawing(scale, trail)
        if self.futures is None:
            if future is not None:
                raise UserError("this track has no futures: omit `future`")
            return self.clip(episode, video=video).draw(scale, trail)
        shown = self.imagination(episode, video)
        if future is None:
            return shown.moving((scale + 1) // 2, trail)
        self.check_index(episode, future)
        if shown.truth is not None:
            seen = shown.truth.frames[: len(shown.given)]
            shown = replace(shown, given=Clip(seen, shown.given.boxes))
        return shown.future(future, scale, trail)

    def save(
        self,
        path: str | Path,
        video: AnyVideo | Film | None = None,
        *,
        episode: int | None = None,
        future: int | None = None,
        scale: int = 4,
        trail: int = 8,
        fps: int | float = 10,
        title: str = "",
    ) -> None:
        """Write the track to a file, in the format given by its ending.

        `.gif` and `.mp4` are moving pictures of what `draw` returns, `.png` is a sheet of some of
        its frames, and `.csv` is the table of `to_csv`. For a film, `.csv`, `.txt` and `.mp4` are
        in its own units.

        Args:
            path: The file; missing folders are created.
            video: What to draw on, as in `draw`; a table does not need it. A film, as
                `gswm.open_video` returns it, gives tables in its own pixels and seconds
                (`located`), `.txt` as MOTChallenge text, and `.mp4` at its own size and speed. The
                last two have all its frames: boxes are interpolated between those that were seen.
            episode: Index of the video in the batch. Default: None (all videos in a table, the
                first one in a picture).
            future: Index of the future to draw, as in `draw`; a table always has all futures.
            scale: Factor by which frames are enlarged, as in `draw`.
            trail: Number of past frames in which the path of each object is drawn.
            fps: Frames per second of an animation.
            title: Title of a sheet.
        """
        path = Path(path)
        check_suffix(path, (*formats.MOVING, *formats.STILL, *TABLE, *MOT))
        check_place(path)
        check_range({"fps": fps}, 1, MOST_FPS)
        if episode is not None:
            self.check_index(episode)
        kind = path.suffix.lower()
        if isinstance(video, Film):
            return self.save_located(path, video, episode or 0, trail, fps)
        if kind in MOT:
            raise UserError(
                f"cannot write {path}: it is in pixels of the source video, so pass that too: "
                "track.save(path, gswm.open_video(...))"
            )
        if kind in TABLE:
            part = self if episode is None else self[episode]
            return part.to_csv(path, first_episode=episode or 0)
        drawn = partial(self.draw, video, episode=episode or 0, scale=scale, trail=trail)
        if kind in formats.MOVING:
            return formats.save_video(path, drawn(future=future), fps)
        if self.futures is None or future is not None:
            sheet = pictures.wrapped(drawn(future=future), SHEET, title)
        else:
            check_drawing(scale, trail)
            shown = self.imagination(episode or 0, video)
            sheet = shown.still((scale + 1) // 2, trail, title)
        return formats.save_picture(path, sheet)

    def located(self, footage: Footage, episode: int = 0) -> Located:
        """Return the objects of one video in pixels and seconds of its source.

        Args:
            footage: Positions and times of the frames in the source: `film.footage`.
            episode: Index of the video in the batch.
        """
        if self.futures is not None:
            raise UserError(
                "imagined frames are not part of a video: use track.past for the given ones, "
                "or film.placement.to_source for pixels of imagined ones"
            )
        self.check_index(episode)
        there = to_array(self.present[episode])
        if len(there) != len(footage):
            ours, theirs = counted(len(there), "frame"), counted(len(footage), "frame")
            remedy = "track all of its frames"
            if len(there) < len(footage):
                remedy += f", or open it with gswm.open_video(..., frames={len(there)})"
            raise UserError(f"this track has {ours}, but the film has {theirs}: {remedy}")
        xy, hw, depth, pres, ids = (
            to_array(each[episode])[there]
            for each in (self.xy, self.hw, self.depth, self.pres, self.id)
        )
        center, wh = footage.placement.to_source(xy, hw.clip(SMALLEST))
        row = there.nonzero()[0]
        numbers = (*center.T, *wh.T, depth.astype(np.float64), pres.astype(np.float64))
        return Located(footage.times[row], footage.frames[row], ids.astype(np.int64), *numbers)

    def save_located(
        self, path: Path, film: Film, episode: int, trail: int, fps: int | float
    ) -> None:
        """A table, or boxes on the frames of the source video."""
        check_suffix(path, LOCATED)
        save_located(path, film, self.located(film.footage, episode), trail, fps)

    def boxes(self, *index: int, size: tuple[int, int]) -> PixelBoxes:
        """The boxes of one video, or of one of its futures, on frames of this height and width."""
        self.check_index(*index)
        height, width = size
        scale = self.xy.new_tensor([width, height])
        xy, wh = (self.xy[index] + 1) / 2 * scale, self.hw[index].flip(-1) * scale
        ids, present = self.id[index], self.present[index]
        return PixelBoxes(*map(to_array, (xy.double(), wh.double(), ids, present)))

    def clip(self, *index: int, video: AnyVideo | None = None) -> Clip:
        """The frames and boxes of one video, or of one of its futures.

        The frames are those of `video`, or of the reconstruction.
        """
        self.check_index(*index)
        time = self.pres.shape[-2]
        if not time:
            raise UserError("this track has no frames: there is nothing to draw")
        if video is not None:
            frames = self.frames_of(video, index[0], time)[:time]
        elif self.reconstruction is not None:
            frames = to_pixels(self.reconstruction[index])
        elif self.futures is None:
            raise UserError("this track has no reconstruction: pass the video to draw on")
        else:
            raise UserError("this track has no reconstruction: imagine it with render=True")
        _, height, width, _ = frames.shape
        return Clip(frames, self.boxes(*index, size=(height, width)))

    def imagination(
        self, episode: int = 0, video: AnyVideo | None = None, truth: PixelBoxes | None = None
    ) -> Imagination:
        """One video and its futures, to be drawn.

        `truth` holds true boxes, in pixels of `video`; they get the ids that the model gives to
        the same objects in the last given frame.
        """
        if not self.futures:
            raise UserError("this track has no futures: use model.imagine")
        self.check_index(episode, 0)
        futures = tuple(self.clip(episode, i) for i in range(self.futures))
        given = futures[0][:0] if self.past is None else self.past.clip(episode)
        if video is None:
            return Imagination(given, None, futures)
        known = self.frames_of(video, episode, max(1, len(given)))
        if known.shape[1:] != given.frames.shape[1:]:
            ours, theirs = (f"{w} × {h} px" for _, h, w, _ in (given.frames.shape, known.shape))
            raise UserError(f"the futures have {ours}, but the video has {theirs}: resize it")
        if truth is not None and given.boxes is not None and len(given):
            truth = renamed(truth, given.boxes, len(given) - 1)
        return Imagination(given, Clip(known, truth), futures)

    def frames_of(self, video: AnyVideo, episode: int, least: int) -> Frames:
        """The frames of one of the tracked videos."""
        check_videos(video)
        if len(video) != len(self):
            ours, theirs = counted(len(self), "video"), counted(len(video), "video")
            raise UserError(f"the track has {ours}, but got {theirs} to draw on")
        if video.shape[1] < least:
            ours, theirs = counted(least, "frame"), counted(video.shape[1], "frame")
            raise UserError(f"this track has {ours}, but the video has {theirs}")
        return to_pixels(video[episode])

    def check_index(self, *index: int) -> None:
        """Raise a UserError if the track has no such video or future."""
        for name, at, number in zip(AXES, index, self.pres.shape, strict=False):
            if not 0 <= at < number:
                raise UserError(f"there is no {name} {at}; the track has {number}")


def check_drawing(scale: int, trail: int) -> None:
    """Raise a UserError for pictures that cannot be drawn."""
    check_integers(scale=scale, trail=trail)
    check_range({"scale": scale}, 1, LARGEST_SCALE)
    check_range({"trail": trail}, 0)


def check_videos(video: object) -> None:
    """Raise a UserError for anything but a batch of videos."""
    expected = "(batch, time, 3, height, width)"
    if not isinstance(video, Tensor):
        kind = with_article(type(video).__name__)
        raise UserError(f"a video must be a torch tensor {expected}, not {kind}")
    if video.dim() != 5 or video.shape[2] != 3:
        raise UserError(f"a video must have shape {expected}, not {tuple(video.shape)}")
    if video.dtype != torch.uint8 and not video.is_floating_point():
        raise UserError(f"a video must be uint8, or floats from 0 to 1, not {video.dtype}")


def to_array(values: Tensor) -> np.ndarray:
    """A tensor on any device as an array."""
    return values.detach().cpu().numpy()


def to_pixels(video: Shaped[Tensor, "*lead 3 height width"]) -> UInt8[np.ndarray, "..."]:
    """Convert bytes, or floats from 0 to 1, to bytes with colors last."""
    if video.dtype != torch.uint8:
        video = (255 * video).round().clamp(0, 255).to(torch.uint8)
    return to_array(video.movedim(-3, -1))

"""Pictures of videos: boxes with ids, trails and contact sheets.

A video is uint8, (time, height, width, 3), RGB. Enlarge it before drawing on it, so that lines and
numbers stay thin.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from PIL import Image, ImageDraw, ImageFont

Picture = UInt8[np.ndarray, "_height _width 3"]
Frames = UInt8[np.ndarray, "_time _height _width 3"]
Corners = tuple[int, int, int, int]

IDS = (
    *((255, 140, 30), (60, 205, 125), (255, 110, 190), (80, 170, 255), (235, 205, 60)),
    *((175, 125, 255), (0, 200, 195), (240, 85, 75), (160, 205, 60), (205, 155, 120)),
)
"""Colors of boxes by id; none is a color of the worlds' objects."""
PAPER, INK, FAINT = (255, 255, 255), (40, 40, 48), (140, 140, 150)
COLUMNS = 10
"""Frames per row, if one video has several rows."""


@dataclass(frozen=True)
class DrawnVideo:
    """A video whose frames are drawn on demand, so that it need not fit in memory."""

    length: int
    draw: Callable[[int], Picture]
    """Draws the frame at a time; repeated calls give the same frame."""

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, time: int) -> Picture:
        return self.draw(time)

    def __iter__(self) -> Iterator[Picture]:
        return map(self.draw, range(self.length))

    def whole(self) -> Frames:
        """All frames."""
        return np.stack(list(self))


@dataclass(frozen=True)
class PixelBoxes:
    """The boxes of one video, true or predicted."""

    xy: Float[np.ndarray, "time object 2"]
    """Centers in pixels of the frames before enlargement."""
    wh: Float[np.ndarray, "time object 2"]
    """Widths and heights, in the same pixels."""
    ids: Int[np.ndarray, "time object"]
    """The id of each object, in whichever slot it is."""
    present: Bool[np.ndarray, "time object"]
    """Whether a box is drawn."""

    def __getitem__(self, time: slice) -> "PixelBoxes":
        return PixelBoxes(self.xy[time], self.wh[time], self.ids[time], self.present[time])

    def then(self, after: "PixelBoxes") -> "PixelBoxes":
        """Concatenate with the boxes of the following frames."""
        pairs = zip(vars(self).values(), vars(after).values(), strict=True)
        return PixelBoxes(*map(np.concatenate, pairs))


@dataclass(frozen=True)
class Clip:
    """Frames of a video, with the boxes of their objects if known."""

    frames: Frames
    boxes: PixelBoxes | None = None

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, time: slice) -> "Clip":
        return Clip(self.frames[time], None if self.boxes is None else self.boxes[time])

    def then(self, after: "Clip") -> "Clip":
        """Concatenate with the clip that follows; with boxes if both have them."""
        ours, theirs = self.boxes, after.boxes
        boxes = None if ours is None or theirs is None else ours.then(theirs)
        return Clip(np.concatenate([self.frames, after.frames]), boxes)

    def draw(self, scale: int, trail: int) -> Frames:
        """Enlarged frames with boxes and trails, and with ids if `scale` leaves room."""
        large = enlarge(self.frames, scale)
        if self.boxes is None:
            return large
        return draw_boxes(large, self.boxes, scale, trail, numbers=scale > 1)

    def drawn(self, scale: int, trail: int) -> DrawnVideo:
        """The same as `draw`, one frame at a time."""
        boxes = self.boxes
        corners = (
            [] if boxes is None else [corners_by_id(boxes, t, scale) for t in range(len(self))]
        )

        def draw(time: int) -> Picture:
            large = enlarge(self.frames[time : time + 1], scale)[0]
            if boxes is None:
                return large
            until = corners[max(0, time - trail) : time + 1]
            return draw_frame(large, until, trail, scale, numbers=scale > 1)

        return DrawnVideo(len(self), draw)


def enlarge(frames: Frames, scale: int) -> Frames:
    """Every pixel as a square of scale × scale."""
    return frames.repeat(scale, axis=1).repeat(scale, axis=2)


def draw_boxes(
    frames: Frames, boxes: PixelBoxes, scale: int = 1, trail: int = 0, numbers: bool = True
) -> Frames:
    """Draw boxes on frames enlarged by `scale`, with trails of the last `trail` frames."""
    corners = [corners_by_id(boxes, time, scale) for time in range(len(frames))]
    until = [corners[max(0, time - trail) : time + 1] for time in range(len(frames))]
    pairs = zip(frames, until, strict=True)
    return np.stack([draw_frame(frame, shown, trail, scale, numbers) for frame, shown in pairs])


def draw_frame(
    frame: Picture,
    corners: Sequence[dict[int, Corners]],
    trail: int,
    scale: int = 1,
    numbers: bool = True,
) -> Picture:
    """Draw the last of these boxes on a frame, with trails from the earlier ones."""
    image, bare = Image.fromarray(frame), Image.fromarray(frame)
    pen = ImageDraw.Draw(image, "RGBA")
    draw_trails(pen, corners, trail, (scale + 1) // 2)
    for left, top, right, bottom in corners[-1].values():
        inside = max(0, left), max(0, top), min(image.width, right), min(image.height, bottom)
        if inside[0] < inside[2] and inside[1] < inside[3]:
            image.paste(bare.crop(inside), inside)
    for number, box in corners[-1].items():
        draw_box(pen, box, color(number), max(2, scale // 4))
    if numbers:
        for number, box in corners[-1].items():
            draw_number(pen, box, number, image.size, scale)
    return np.asarray(image)


@cache
def font_of(size: int | float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The font bundled with Pillow."""
    return ImageFont.load_default(size)


def color(number: int) -> tuple[int, int, int]:
    """The color of an id."""
    return IDS[(number - 1) % len(IDS)]


def corners_by_id(boxes: PixelBoxes, time: int, scale: int) -> dict[int, Corners]:
    """Boxes of a frame by id: left, top, right and bottom, in enlarged pixels."""
    low = np.round((boxes.xy[time] - boxes.wh[time] / 2) * scale)
    high = np.maximum(np.round((boxes.xy[time] + boxes.wh[time] / 2) * scale), low + 1)
    shown = boxes.present[time] & np.isfinite(low).all(axis=-1) & np.isfinite(high).all(axis=-1)
    sides = np.concatenate([low[shown], high[shown]], axis=-1).astype(int).tolist()
    return dict(zip(boxes.ids[time, shown].tolist(), map(tuple, sides), strict=True))


def draw_box(
    pen: ImageDraw.ImageDraw, box: Corners, rgb: tuple[int, int, int], line: int = 2
) -> None:
    """A thin frame in `rgb` with a dark outline, visible on any background."""
    left, top, right, bottom = box
    smaller = min(right - left, bottom - top)
    line = line if smaller > 8 * line else 1

    def rectangle(inset: int, outline: tuple[int, ...], width: int = 1) -> None:
        sides = (left + inset, top + inset, right - 1 - inset, bottom - 1 - inset)
        pen.rectangle(sides, outline=outline, width=width)

    rectangle(-1, (0, 0, 0, 150))
    rectangle(0, rgb, line)
    if smaller > 8:
        rectangle(line, (0, 0, 0, 110))


def draw_number(
    pen: ImageDraw.ImageDraw, box: Corners, number: int, bounds: tuple[int, int], scale: int
) -> None:
    """An id on a small label above a box, or inside the edge of the picture."""
    text, font = str(number), font_of(max(10, min(14, 2.5 * scale), 2 * scale))
    _, _, right, bottom = font.getbbox(text, anchor="lt")
    width, height = int(right) + 4, int(bottom) + 4
    left = max(0, min(box[0], bounds[0] - width))
    top = max(0, min(box[1] - height, bounds[1] - height))
    pen.rectangle((left, top, left + width - 1, top + height - 1), fill=color(number))
    pen.text((left + 2, top + 2), text, fill=(0, 0, 0), font=font, anchor="lt")


def draw_trails(
    pen: ImageDraw.ImageDraw, corners: Sequence[dict[int, Corners]], length: int, width: int
) -> None:
    """A line through the last positions of each object, fading with age."""
    for age, (then, after) in enumerate(pairwise(reversed(corners))):
        alpha = round(255 * (1 - (age + 1) / (length + 1)))
        for number in corners[-1].keys() & then.keys() & after.keys():
            line = [middle(then[number]), middle(after[number])]
            pen.line(line, fill=(*color(number), alpha), width=width)


def middle(box: Corners) -> tuple[float, float]:
    """The center of a box."""
    left, top, right, bottom = box
    return (left + right) / 2, (top + bottom) / 2


def border(frames: Frames, rgb: tuple[int, int, int], width: int = 2) -> Frames:
    """Paint the edges of frames, for example to mark imagined ones."""
    out = np.array(frames)
    for axis in (1, 2):
        edge = out.swapaxes(1, axis)
        edge[:, :width] = edge[:, -width:] = rgb
    return out


def sheet(
    rows: Sequence[Frames],
    row_labels: Sequence[str] = (),
    column_labels: Sequence[str] = (),
    title: str = "",
    gap: int = 4,
    font_size: int = 13,
) -> Picture:
    """A contact sheet: one video per row, one frame per column."""
    height, width = (max(row.shape[axis] for row in rows) for axis in (1, 2))
    columns = max(len(row) for row in rows)
    small, large = font_of(font_size), font_of(1.4 * font_size)
    left = max((int(small.getlength(text)) + 12 for text in row_labels), default=gap)
    head = round(2.2 * font_size) if title else 0
    top = head + (round(1.7 * font_size) if column_labels else gap)
    size = (left + columns * (width + gap), top + len(rows) * (height + gap))
    size = (max(size[0], gap + round(large.getlength(title)) + gap), size[1])

    image = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(image)
    pen.text((left, gap + head / 2), title, fill=INK, font=large, anchor="lm")
    for j, text in enumerate(column_labels):
        x = left + j * (width + gap) + width / 2
        pen.text((x, top - 5), text, fill=FAINT, font=small, anchor="ms")
    for i, text in enumerate(row_labels):
        y = top + i * (height + gap) + height / 2
        pen.text((left - 8, y), text, fill=INK, font=small, anchor="rm")
    for i, row in enumerate(rows):
        for j, frame in enumerate(row):
            image.paste(
                Image.fromarray(frame), (left + j * (width + gap), top + i * (height + gap))
            )
    return np.asarray(image)


def spread(frames: int, most: int) -> list[int]:
    """At most this many frames, evenly spaced from the first to the last."""
    return np.unique(np.linspace(0, frames - 1, most).round().astype(int)).tolist()


def wrapped(video: Frames, most: int, title: str) -> Picture:
    """Evenly spaced frames of one video, as a sheet of several rows."""
    every = -(-len(video) // most)
    shown = video[::every]
    rows = [shown[i : i + COLUMNS] for i in range(0, len(shown), COLUMNS)]
    times = [f"t = {i * every}" for i in range(0, len(shown), COLUMNS)]
    return sheet(rows, times, [f"+{i * every}" for i in range(len(rows[0]))], title)


def side_by_side(videos: Sequence[Frames], labels: Sequence[str] = (), columns: int = 4) -> Frames:
    """Videos of one size as one video, in rows of `columns`; shorter ones hold their last frame."""
    time = max(len(video) for video in videos)
    rows = [range(i, min(i + columns, len(videos))) for i in range(0, len(videos), columns)]
    out = []
    for t in range(time):
        now = [video[min(t, len(video) - 1)] for video in videos]
        parts = [
            sheet(
                [np.stack([now[i] for i in row])],
                (),
                [labels[i] for i in row] if labels else (),
                gap=6,
            )
            for row in rows
        ]
        width = max(part.shape[1] for part in parts)
        fill = [np.full((p.shape[0], width - p.shape[1], 3), PAPER, np.uint8) for p in parts]
        out.append(
            np.concatenate([np.concatenate(pair, 1) for pair in zip(parts, fill, strict=True)])
        )
    return np.stack(out)

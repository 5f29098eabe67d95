"""Pictures of videos: boxes with ids, trails, contact sheets, and files of them.

A video is uint8, (time, height, width, 3), red, green, blue. Enlarge it before anything is drawn
on it, so that lines and numbers stay fine.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from PIL import Image, ImageDraw, ImageFont

from gswm.data.episode import Episodes

Picture = UInt8[np.ndarray, "_height _width 3"]
Frames = UInt8[np.ndarray, "_time _height _width 3"]

IDS = (
    *((255, 140, 30), (60, 205, 125), (255, 110, 190), (80, 170, 255), (235, 205, 60)),
    *((175, 125, 255), (0, 200, 195), (240, 85, 75), (160, 205, 60), (205, 155, 120)),
)
"""Colors of boxes, by id: none of them a color of the worlds' objects."""
PAPER, INK, FAINT = (255, 255, 255), (40, 40, 48), (140, 140, 150)


@dataclass(frozen=True)
class Boxes:
    """The boxes of one video: of true objects, or of a model's."""

    xy: Float[np.ndarray, "time object 2"]
    """Centers, in pixels of the frames before they are enlarged."""
    wh: Float[np.ndarray, "time object 2"]
    """Widths and heights, in the same pixels."""
    ids: Int[np.ndarray, "time object"]
    present: Bool[np.ndarray, "time object"]
    """Whether a box is drawn."""

    def __getitem__(self, time: slice) -> "Boxes":
        return Boxes(self.xy[time], self.wh[time], self.ids[time], self.present[time])


def frames_of(episodes: Episodes, index: int) -> Frames:
    """One episode's video."""
    return episodes.video[index].permute(0, 2, 3, 1).cpu().numpy()


def true_boxes(episodes: Episodes, index: int) -> Boxes | None:
    """One episode's true boxes, where they are known."""
    if (truth := episodes.truth) is None:
        return None
    sizes = 2 * truth.sizes[index].cpu().numpy()
    return Boxes(
        truth.positions[index].cpu().numpy(),
        np.stack([sizes, sizes], axis=-1),
        truth.ids[index].cpu().numpy(),
        truth.present[index].cpu().numpy(),
    )


def enlarge(frames: Frames, scale: int) -> Frames:
    """Every pixel as a square of scale × scale."""
    return frames.repeat(scale, axis=1).repeat(scale, axis=2)


def draw_boxes(
    frames: Frames, boxes: Boxes, scale: int = 1, trail: int = 0, numbers: bool = True
) -> Frames:
    """Boxes, on frames enlarged by `scale`, and the ways of the last `trail` frames."""
    out = []
    for time, frame in enumerate(frames):
        image = Image.fromarray(frame)
        pen = ImageDraw.Draw(image, "RGBA")
        if trail:
            draw_trails(pen, boxes, time, scale, trail)
        shown = boxes.present[time]
        ids = boxes.ids[time, shown].tolist()
        xy, wh = boxes.xy[time, shown] * scale, boxes.wh[time, shown] * scale
        for number, center, sides in zip(ids, xy, wh, strict=True):
            draw_box(pen, center, sides, color(number))
        if numbers:
            for number, corner in zip(ids, xy - wh / 2, strict=True):
                draw_number(pen, corner, number, image.size, scale)
        out.append(np.asarray(image))
    return np.stack(out)


def color(number: int) -> tuple[int, int, int]:
    """The color of an id."""
    return IDS[(number - 1) % len(IDS)]


def draw_box(pen: ImageDraw.ImageDraw, center: np.ndarray, wh: np.ndarray, rgb: tuple) -> None:
    """A thin frame in `rgb`, with a dark rim so that it shows on white as on black."""
    left, top = np.round(center - wh / 2).astype(int)
    right, bottom = np.maximum(np.round(center + wh / 2).astype(int) - 1, (left, top))
    line = 2 if wh.min() > 16 else 1
    pen.rectangle((left - 1, top - 1, right + 1, bottom + 1), outline=(0, 0, 0, 150))
    pen.rectangle((left, top, right, bottom), outline=rgb, width=line)
    if wh.min() > 8:
        inner = (left + line, top + line, right - line, bottom - line)
        pen.rectangle(inner, outline=(0, 0, 0, 110))


def draw_number(
    pen: ImageDraw.ImageDraw, corner: np.ndarray, number: int, bounds: tuple[int, int], scale: int
) -> None:
    """An id on a small plate above a box, or inside the picture's edge."""
    text, font = str(number), ImageFont.load_default(min(14, max(10, 2.5 * scale)))
    box = font.getbbox(text, anchor="lt")
    width, height = int(box[2]) + 4, int(box[3]) + 4
    left = int(np.clip(round(corner[0]), 0, max(0, bounds[0] - width)))
    top = int(np.clip(round(corner[1]) - height, 0, max(0, bounds[1] - height)))
    pen.rectangle((left, top, left + width - 1, top + height - 1), fill=color(number))
    pen.text((left + 2, top + 2), text, fill=(0, 0, 0), font=font, anchor="lt")


def draw_trails(pen: ImageDraw.ImageDraw, boxes: Boxes, time: int, scale: int, length: int) -> None:
    """A line through each object's last places, fainter the older."""
    width = max(1, round(scale / 2))
    for k in np.flatnonzero(boxes.present[time]).tolist():
        number = int(boxes.ids[time, k])
        for then in range(max(0, time - length), time):
            same = boxes.ids[then : then + 2, k] == number
            if not (same & boxes.present[then : then + 2, k]).all():
                continue
            alpha = round(255 * (1 - (time - then) / (length + 1)))
            line = [tuple(xy) for xy in (boxes.xy[then : then + 2, k] * scale).tolist()]
            pen.line(line, fill=(*color(number), alpha), width=width)


def border(frames: Frames, rgb: tuple[int, int, int], width: int = 2) -> Frames:
    """The frames with their edges painted: to tell the imagined from the given, say."""
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
    """A contact sheet: one video a row, one frame a column."""
    height, width = (max(row.shape[axis] for row in rows) for axis in (1, 2))
    columns = max(len(row) for row in rows)
    small, large = ImageFont.load_default(font_size), ImageFont.load_default(1.4 * font_size)
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


def side_by_side(
    videos: Sequence[Frames], labels: Sequence[str] = (), columns: int = 4, gap: int = 6
) -> Frames:
    """Videos of one size as one video, in rows of `columns`; a shorter one stays at its end."""
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
                gap=gap,
            )
            for row in rows
        ]
        width = max(part.shape[1] for part in parts)
        fill = [np.full((p.shape[0], width - p.shape[1], 3), PAPER, np.uint8) for p in parts]
        out.append(
            np.concatenate([np.concatenate(pair, 1) for pair in zip(parts, fill, strict=True)])
        )
    return np.stack(out)

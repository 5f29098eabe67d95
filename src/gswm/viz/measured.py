"""A sheet of measurements of a video: frames with boxes, the background, sizes, counts."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from gswm.data.looking.measuring import Followed, Measurement
from gswm.viz.pictures import FAINT, IDS, INK, PAPER, Picture, color, draw_box, font_of

WIDE = 320
"""Width of a frame on the sheet in pixels."""
SHOWN = 8
"""Number of frames on the sheet."""
COLUMNS = 3
GAP = 12
CHART = 150
"""Height of a chart."""
BARS = 24


def measured_sheet(found: Measurement, title: str) -> Picture:
    """Frames with boxes (colored for moving objects, white for standing ones), and charts."""
    tiles = [(f"frame {number}", boxed(each, time)) for each, time, number in shown(found)]
    tiles.append(("background", found.background))
    scale = WIDE / found.background.shape[1]
    high = round(scale * found.background.shape[0])
    rows = -(-len(tiles) // COLUMNS)
    width = COLUMNS * (WIDE + GAP) + GAP
    top = 34
    body = top + rows * (high + 22)
    sheet = Image.new("RGB", (width, body + CHART + 60), PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((GAP, 8), title, fill=INK, font=font_of(16))
    for i, (name, tile) in enumerate(tiles):
        at = GAP + (i % COLUMNS) * (WIDE + GAP), top + (i // COLUMNS) * (high + 22)
        pen.text(at, name, fill=FAINT, font=font_of(12))
        sheet.paste(Image.fromarray(tile).resize((WIDE, high)), (at[0], at[1] + 16))
    charts = [
        ("heights of objects, px", sizes(found, 1)),
        ("widths of objects, px", sizes(found, 0)),
    ]
    for i, (name, values) in enumerate(charts):
        corner = GAP + i * (WIDE + GAP), body + 8
        histogram(pen, corner, name, values)
    last = GAP + 2 * (WIDE + GAP), body + 8
    times, counts = over_time(found)
    steps(pen, last, "objects per frame", times, counts)
    return np.asarray(sheet)


def shown(found: Measurement) -> list[tuple[Followed, int, int]]:
    """Evenly spaced frames to show: the stretch, the frame within it, and its number."""
    every = [
        (each, time, each.stretch.number(time, found.facts.stride))
        for each in found.followed
        for time in range(len(each.stretch.frames))
    ]
    busy = [item for item in every if item[0].counts[item[1]]]
    some = busy if len(busy) >= SHOWN else every
    which = np.unique(np.linspace(0, len(some) - 1, SHOWN).round().astype(int))
    return [some[i] for i in which]


def boxed(each: Followed, time: int) -> Picture:
    """One enlarged frame with its boxes."""
    frame = each.stretch.frames[time]
    factor = max(1, round(2 * WIDE / frame.shape[1]))
    image = Image.fromarray(frame.repeat(factor, 0).repeat(factor, 1))
    pen = ImageDraw.Draw(image, "RGBA")
    for number, trace in enumerate(each.objects):
        rgb = color(number + 1) if number < len(each.travelling) else (255, 255, 255)
        for blob in trace:
            if blob.time == time:
                left, top, right, bottom = (round(factor * side) for side in blob.box)
                draw_box(pen, (left, top, right, bottom), rgb)
    return np.asarray(image)


def sizes(found: Measurement, axis: int) -> list[float]:
    """Widths (0) or heights (1) of all boxes that are not cut off by the frame."""
    return [
        found.scale * blob.wh[axis]
        for each in found.followed
        for trace in each.travelling
        for blob in trace
        if not blob.at_border(*each.stretch.frames.shape[1:3])
    ]


def over_time(found: Measurement) -> tuple[list[int], list[float]]:
    """Frame numbers, and the number of objects in each."""
    numbers = [
        each.stretch.number(time, found.facts.stride)
        for each in found.followed
        for time in range(len(each.stretch.frames))
    ]
    return numbers, np.concatenate([each.counts for each in found.followed]).tolist()


def axes(
    pen: ImageDraw.ImageDraw, corner: tuple[int, int], name: str, labels: Sequence[str]
) -> None:
    """Draw a chart's title, baseline, and the labels at its ends: left, right and top."""
    x, y = corner
    small = font_of(11)
    pen.text((x, y), name, fill=INK, font=font_of(12))
    floor = y + 20 + CHART
    pen.line([(x, floor), (x + WIDE, floor)], fill=FAINT)
    pen.text((x, floor + 4), labels[0], fill=FAINT, font=small)
    pen.text((x + WIDE, floor + 4), labels[1], fill=FAINT, font=small, anchor="ra")
    pen.text((x + WIDE, y), labels[2], fill=FAINT, font=small, anchor="ra")


def histogram(
    pen: ImageDraw.ImageDraw, corner: tuple[int, int], name: str, values: Sequence[float]
) -> None:
    """Draw a histogram."""
    if not values:
        axes(pen, corner, name, ("", "", "none"))
        return
    counts, edges = np.histogram(values, BARS, (0, 1.05 * max(values)))
    axes(pen, corner, name, ("0", f"{edges[-1]:.0f}", f"median {np.median(values):.0f}"))
    x, floor = corner[0], corner[1] + 20 + CHART
    for i, count in enumerate(counts.tolist()):
        left = x + i * WIDE / BARS
        tall = 1 + (CHART - 4) * count / counts.max()
        if count:
            pen.rectangle((left + 1, floor - tall, left + WIDE / BARS - 1, floor - 1), fill=IDS[3])


def steps(
    pen: ImageDraw.ImageDraw,
    corner: tuple[int, int],
    name: str,
    times: Sequence[int],
    values: Sequence[float],
) -> None:
    """Draw a dot for each measured frame."""
    top, last = max([1.0, *values]), max([1, *times])
    axes(pen, corner, name, ("frame 0", f"{last}", f"at most {top:.0f}"))
    x, floor = corner[0], corner[1] + 20 + CHART
    for time, value in zip(times, values, strict=True):
        at = x + WIDE * time / last, floor - (CHART - 4) * value / top
        pen.rectangle((at[0] - 1, at[1] - 1, at[0] + 1, at[1] + 1), fill=IDS[0])

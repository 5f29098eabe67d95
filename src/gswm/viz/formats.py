"""Write pictures and animations: PNG, GIF and MP4."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8
from PIL import Image

from gswm.core.files import check_suffix, make_folder, replacing
from gswm.viz.pictures import DrawnVideo, Frames, Picture

Palette = UInt8[np.ndarray, "_color 3"]
Codes = Int[np.ndarray, "..."]

STILL, MOVING = (".png",), (".gif", ".mp4")
COLORS = 256
EXACT = 96
"""Number of the most frequent colors that are kept exactly."""
REPEATABLE = {"mbtree": "0"}
"""Options of x264 for reproducible files."""


def save_picture(path: Path, picture: Picture, colors: int | None = None) -> None:
    """Write a PNG, optionally with a palette of at most 256 colors."""
    check_suffix(path, STILL)
    image = Image.fromarray(picture)
    if colors is not None:
        image = image.quantize(colors, dither=Image.Dither.NONE)
    write(path, lambda part: image.save(part, format="PNG", optimize=True))


def save_video(path: Path, frames: Frames | DrawnVideo, fps: int | float = 10) -> None:
    """Write a GIF or an MP4, by the name's ending. A GIF is drawn twice, first for its palette."""
    check_suffix(path, MOVING)
    to = save_gif if path.suffix.lower() == ".gif" else save_mp4
    write(path, lambda part: to(part, frames, fps))


def write(path: Path, to: Callable[[Path], None]) -> None:
    """Write the file under another name, then rename it."""
    make_folder(path.parent)
    with replacing(path) as part:
        to(part)


def save_gif(path: Path, frames: Frames | DrawnVideo, fps: int | float) -> None:
    """Write an endless GIF with one palette for all frames; exact if 256 colors suffice."""
    palette, nearest = to_palette(frames)

    def images() -> Iterator[Image.Image]:
        for frame in frames:
            size = (frame.shape[1], frame.shape[0])
            image = Image.frombytes("P", size, nearest[codes(frame)].tobytes())
            image.putpalette(palette.tobytes())
            yield image

    duration = max(20, 10 * round(100 / fps))  # in ms; the format counts in hundredths of a second
    rest = images()
    first = next(rest)
    settings = {"duration": duration, "loop": 0, "optimize": False, "disposal": 1}
    first.save(path, format="GIF", save_all=True, append_images=rest, **settings)


def to_palette(frames: Frames | DrawnVideo) -> tuple[Palette, UInt8[np.ndarray, " code"]]:
    """A palette of at most 256 colors, and the nearest entry for each color by its code."""
    from scipy.spatial import KDTree

    index = np.zeros(1 << 24, np.uint8)
    for frame in frames:
        index[codes(frame)] = 1
    used = np.flatnonzero(index)
    palette = colors_of(used) if len(used) <= COLORS else few_colors(used, frames)
    index[used] = KDTree(palette).query(colors_of(used))[1]
    return palette, index


def few_colors(used: Codes, frames: Frames | DrawnVideo) -> Palette:
    """A palette of 256 colors: the most frequent ones exactly, and means of similar others."""
    every = 1 + len(frames) // 8
    some = np.stack([codes(frames[time]) for time in range(0, len(frames), every)])
    found, counts = np.unique(some, return_counts=True)
    exact = found[np.argsort(-counts, kind="stable")[:EXACT]]
    others = Image.fromarray(colors_of(np.setdiff1d(used, exact))[None])
    means = others.quantize(COLORS - len(exact), method=Image.Quantize.MEDIANCUT, kmeans=2)
    return np.concatenate([colors_of(exact), np.array(means.getpalette(), np.uint8).reshape(-1, 3)])


def codes(frame: Picture) -> Codes:
    """Encode each pixel's color as one number."""
    red, green, blue = np.moveaxis(frame.astype(np.int32), -1, 0)
    return red << 16 | green << 8 | blue


def colors_of(codes: Codes) -> Palette:
    """Decode colors from their numbers."""
    return np.stack([codes >> 16, codes >> 8, codes], axis=-1).astype(np.uint8)


def save_mp4(path: Path, frames: Frames | DrawnVideo, fps: int | float) -> None:
    """Write H.264 that every browser plays; sides are made even."""
    import av

    height, width, _ = frames[0].shape
    odd = ((0, height % 2), (0, width % 2), (0, 0))
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        rate = Fraction(fps).limit_denominator(1001)
        stream = container.add_stream("libx264", rate=rate, options={"crf": "16", **REPEATABLE})
        stream.height, stream.width = height + height % 2, width + width % 2
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            even = np.pad(frame, odd, mode="edge")
            container.mux(stream.encode(av.VideoFrame.from_ndarray(even, format="rgb24")))
        container.mux(stream.encode())

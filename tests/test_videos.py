"""Importing videos: decoded, resized and cut frames show the recorded pictures."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import get_args

import av
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gswm.data.importing.film import Film
from gswm.data.importing.frames import TimedFrame, image_frames, in_order, to_rgb, video_frames
from gswm.data.importing.sources import Skipped, Source, find, images, natural, split_of_name
from gswm.data.importing.videos import (
    AHEAD,
    Cut,
    UnusableError,
    clips,
    frames_of,
    place,
    resample,
    takes,
)
from gswm.data.placement import Fit
from gswm.viz.formats import REPEATABLE

SIZE = (48, 32)


def resize(frame: TimedFrame, size: int, fit: Fit = "letterbox") -> np.ndarray:
    return place(frame, Cut(size, fit=fit).placement(frame))


def shades(count: int, size: tuple[int, int] = SIZE) -> list[np.ndarray]:
    """Plain frames, each of its own brightness."""
    return [np.full((size[1], size[0], 3), 20 + 12 * i, np.uint8) for i in range(count)]


def encode(
    path: Path,
    frames: list[np.ndarray],
    codec: str = "libx264",
    pixels: str = "yuv420p",
    times: list[int] | None = None,
    setup: Callable = lambda stream: None,
    source: str = "rgb24",
    **options: str,
) -> Path:
    """A video of `frames` at 10 a second, or at `times`, in tenths of a second."""
    with av.open(str(path), "w", options=options) as container:
        same = REPEATABLE if codec == "libx264" else {}
        stream = container.add_stream(codec, rate=10, options=dict(same))
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = pixels
        setup(stream)
        for time, image in zip(times or range(len(frames)), frames, strict=True):
            frame = av.VideoFrame.from_ndarray(image, format=source)
            frame.pts, frame.time_base = time, Fraction(1, 10)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def image_of(frame: TimedFrame) -> np.ndarray:
    """All pixels of a frame, of which its size must tell."""
    image = frame.pixels(1)
    assert image.shape == (frame.height, frame.width, 3)
    return image


def levels(frames) -> list[int]:
    """The brightness of each frame, as the number that `shades` gave it."""
    return [round((float(image_of(frame).mean()) - 20) / 12) for frame in frames]


FORMATS = {
    "a.mp4": ("libx264", "yuv420p"),
    "a.mov": ("libx264", "yuv444p"),
    "a.mkv": ("ffv1", "gray"),
    "b.mkv": ("ffv1", "gray16le"),
    "a.webm": ("libvpx-vp9", "yuv420p"),
    "a.avi": ("mpeg4", "yuv420p"),
    "c.mkv": ("ffv1", "gbrp10le"),
    "a.gif": ("gif", "gray"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_its_frames_in_order(name: str, tmp_path: Path) -> None:
    codec, pixels = FORMATS[name]
    path = encode(tmp_path / name, shades(12), codec, pixels)
    frames = list(video_frames(path))
    assert levels(frames) == list(range(12))
    assert {image_of(frame).shape for frame in frames} == {(32, 48, 3)}
    assert [round(frame.start * 10) for frame in frames] == list(range(12))


def test_times_count_from_the_first_frame_wherever_the_file_begins(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.ts", shades(4), times=[0, 1, 6, 7])
    with av.open(str(path)) as container:
        assert container.start_time > 0
    frames = [(frame.index, round(frame.start, 3)) for frame in video_frames(path)]
    assert frames == [(0, 0.0), (1, 0.1), (2, 0.6), (3, 0.7)]


def test_a_few_frames_are_decoded_ahead_and_no_more() -> None:
    decoded = 0

    def endless() -> Iterator[TimedFrame]:
        nonlocal decoded
        while True:
            decoded += 1
            shade = np.full((8, 8, 3), decoded, np.uint8)
            start, end = float(decoded), float(decoded + 1)
            yield TimedFrame(8, 8, start, end, lambda _, shade=shade: shade)

    some = takes(endless(), Cut(4, frames=3))
    assert [next(some).video[:, 0, 0, 0].tolist() for _ in range(2)] == [[1, 2, 3], [4, 5, 6]]
    assert decoded <= 6 + AHEAD
    some.close()


def test_a_frame_that_cannot_be_scaled_is_an_error() -> None:
    def broken(_: int) -> np.ndarray:
        raise UnusableError("its pixel format is not supported")

    with pytest.raises(UnusableError, match="pixel format"):
        list(takes([TimedFrame(8, 8, 0.0, 1.0, broken)], Cut(4, frames=1)))


@pytest.mark.parametrize("degrees", [0, 90, 180, -90])
def test_frames_are_turned_as_the_file_says(degrees: int, tmp_path: Path) -> None:
    image = np.zeros((32, 48, 3), np.uint8)
    image[:16, :24] = 200  # the top left quarter
    turn = None if degrees == 0 else (lambda stream: stream.set_display_rotation(degrees))
    path = encode(tmp_path / "a.mp4", [image] * 3, setup=turn or (lambda stream: None))
    (frame, *_) = video_frames(path)
    counterclockwise = degrees // 90
    wanted = np.rot90(image, counterclockwise)
    assert frame.rotation == degrees % 360
    assert image_of(frame).shape == wanted.shape
    assert np.abs(image_of(frame).astype(int) - wanted).mean() < 8


def test_what_is_transparent_in_a_video_is_black(tmp_path: Path) -> None:
    image = np.full((32, 48, 4), 255, np.uint8)
    image[:, :24, 3] = 0
    image[:16, 24:, 3] = 128
    path = encode(tmp_path / "a.mov", [image] * 2, "png", "rgba", source="rgba")
    (frame, _) = video_frames(path)
    assert image_of(frame)[5, 5].tolist() == [0, 0, 0]
    assert image_of(frame)[5, 40].tolist() == [128, 128, 128]
    assert image_of(frame)[25, 40].tolist() == [255, 255, 255]


def test_wide_pixels_are_seen_wide(tmp_path: Path) -> None:
    def wide(stream) -> None:
        stream.codec_context.sample_aspect_ratio = Fraction(2, 1)

    image = np.zeros((32, 48, 3), np.uint8)
    image[:, 16:32] = 200  # 96 x 32 as it is seen, of which the middle third is lit
    path = encode(tmp_path / "a.mp4", [image] * 3, setup=wide)
    (frame, *_) = video_frames(path)
    assert frame.pixel_aspect == 2
    assert resize(frame, 8, "crop").mean() > 190


@pytest.mark.parametrize(
    ("mode", "value", "wanted"),
    [
        ("L", 77, (77, 77, 77)),
        ("1", 1, (255, 255, 255)),
        ("LA", (200, 51), (40, 40, 40)),
        ("RGBA", (250, 100, 0, 0), (0, 0, 0)),
        ("I;16", 77 * 256 + 200, (77, 77, 77)),
        ("CMYK", (0, 255, 255, 0), (255, 0, 0)),
    ],
)
def test_every_kind_of_image_becomes_red_green_and_blue(mode: str, value, wanted) -> None:
    image = Image.new(mode, (4, 4), value)
    assert to_rgb(image)[2, 2].tolist() == list(wanted)


def frame_of(image: np.ndarray, aspect: float = 1.0) -> TimedFrame:
    return TimedFrame(*image.shape[1::-1], 0.0, 1.0, lambda _: image, aspect)


@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_a_frame_made_smaller_keeps_its_mean(seed: int, factor: int) -> None:
    image = np.random.default_rng(seed).integers(60, 190, (16 * factor, 16 * factor, 3), np.uint8)
    small = resize(frame_of(image), 16, "crop")
    assert abs(float(small.mean()) - float(image.mean())) < 1.5


@pytest.mark.parametrize("period", [2, 3, 4, 5])
def test_stripes_finer_than_a_pixel_become_grey(period: int) -> None:
    stripes = np.zeros((480, 480, 3), np.uint8)
    stripes[:, np.arange(480) % period < period / 2] = 255
    small = resize(frame_of(stripes), 64, "crop").astype(int)
    assert small[:, 2:-2].std() < 6  # the edges have no neighbours to mix with


def test_a_large_video_is_reduced_as_its_frames_would_be(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    image = np.asarray(
        Image.fromarray(rng.integers(0, 256, (9, 16, 3), np.uint8)).resize((640, 360))
    )
    path = encode(tmp_path / "a.mkv", [image], "ffv1", "gbrp10le")
    (frame,) = video_frames(path)
    assert frame.pixels(6).shape == (60, 106, 3)
    difference = resize(frame, 16, "stretch").astype(int) - resize(frame_of(image), 16, "stretch")
    assert np.abs(difference).max() < 6


def test_the_middle_square_is_kept_or_all_of_the_frame() -> None:
    image = np.zeros((32, 64, 3), np.uint8)
    image[:, 16:48] = 255
    assert resize(frame_of(image), 16, "crop")[:, 1:-1].min() == 255
    whole = resize(frame_of(image), 16, "stretch")
    assert (whole[:, 1].max(), whole[:, 8].min()) == (0, 255)


def test_a_letterbox_shows_all_of_the_frame_between_black_bars() -> None:
    image = np.full((32, 64, 3), 200, np.uint8)
    small = resize(frame_of(image), 16)
    assert (small[:4].max(), small[4:12].min(), small[12:].max()) == (0, 200, 0)
    turned = resize(frame_of(np.swapaxes(image, 0, 1)), 16)
    np.testing.assert_array_equal(turned, np.swapaxes(small, 0, 1))


@pytest.mark.parametrize("size", [64, 128])
def test_a_spot_is_where_its_placement_says(size: int, tmp_path: Path) -> None:
    image = np.zeros((270, 480, 3), np.uint8)
    image[110:130, 300:320] = 255
    for i in range(2):
        Image.fromarray(image).save(tmp_path / f"{i}.png")
    for fit in get_args(Fit):
        film = Film(tmp_path, Cut(size, fit=fit, region=(60, 20, 400, 210)))
        seen = film.read()[0, 0, 0].double()
        at = torch.arange(size) + 0.5
        xy = [float((seen.sum(axis) * at).sum() / seen.sum()) for axis in (0, 1)]
        center, _ = film.placement.to_source(np.array(xy) / size * 2 - 1, np.ones(2))
        np.testing.assert_allclose(center, [310, 120], atol=1)


def at(times: list[float]) -> list[TimedFrame]:
    """Frames that begin at `times`, numbered in their pixels; the last is shown for 0.1 s."""
    ends = [*times[1:], times[-1] + 0.1]
    return [
        TimedFrame(1, 1, start, end, lambda _, i=i: np.full((1, 1, 3), i, np.uint8), index=i)
        for i, (start, end) in enumerate(zip(times, ends, strict=True))
    ]


@given(st.lists(st.integers(1, 20), max_size=12), st.randoms())
def test_times_that_go_back_are_put_in_order(gaps: list[int], random) -> None:
    times = [float(t) for t in np.cumsum([0, *gaps])]
    told = list(times)
    for i in range(0, len(told) - 2, 3):  # as if three frames were decoded in any order
        some = told[i : i + 3]
        random.shuffle(some)
        told[i : i + 3] = some
    found = list(in_order(at(told)))
    assert [frame.index for frame in found] == list(range(len(times)))
    assert [frame.start for frame in found] == times


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 50), st.integers(0, 99)
)
def test_resampled_frames_are_those_shown_at_the_time(
    gaps: list[int], fps: int, begin: int
) -> None:
    times = [float(t) for t in begin + np.cumsum([0, *gaps]) / 10]
    found = [int(image_of(frame)[0, 0, 0]) for frame in resample(at(times), float(fps))]
    wanted = []
    while (now := times[0] + len(wanted) / fps) < times[-1] + 0.1 - 1e-6:
        wanted.append(max(i for i, time in enumerate(times) if time <= now + 1e-6))
    assert found == wanted


def test_a_video_of_uneven_times_is_resampled_by_them(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mkv", shades(4), "ffv1", "gray", times=[0, 1, 6, 7])
    source = Source(path, "a.mkv", "train")
    assert levels(frames_of(source, Cut(fps=10.0))) == [0, 1, 1, 1, 1, 1, 2, 3]
    assert levels(frames_of(source, Cut(fps=5.0))) == [0, 1, 1, 2]
    assert levels(frames_of(source, Cut())) == [0, 1, 2, 3]


@pytest.mark.parametrize(("frames", "episodes", "rest"), [(4, 2, 3), (11, 1, 0), (1, 11, 0)])
def test_a_long_video_gives_several_episodes(frames: int, episodes: int, rest: int) -> None:
    cut = Cut(size=2, frames=frames)
    found = list(clips(at([i / 10 for i in range(11)]), cut))
    assert [len(clip) for clip in found] == [frames] * episodes + [rest] * (rest > 0)
    assert np.concatenate([c.video for c in found])[:, 0, 0, 0].tolist() == list(range(11))
    assert np.concatenate([c.footage.frames for c in found]).tolist() == list(range(11))


def test_kept_frames_know_their_numbers_and_times(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mkv", shades(6), "ffv1", "gray", times=[0, 1, 2, 7, 8, 9])
    film = Film(path, Cut(size=8, fps=4.0))
    footage = film.footage
    assert footage.frames.tolist() == [0, 2, 2, 3]  # shown at 0, 0.25, 0.5 and 0.75 s
    np.testing.assert_allclose(footage.times, [0, 0.2, 0.2, 0.7])
    film.read()
    np.testing.assert_array_equal(film.footage.times, footage.times)


def test_too_few_frames_are_named_and_counted() -> None:
    with pytest.raises(UnusableError, match="has 3 frames, but an episode needs 4; use --frames 3"):
        list(clips(at([0.0, 0.1, 0.2]), Cut(frames=4)))


def test_a_video_that_changes_its_size_is_refused(tmp_path: Path) -> None:
    for i, size in enumerate([(8, 6), (8, 6), (6, 8)]):
        Image.new("RGB", size).save(tmp_path / f"{i}.png")
    with pytest.raises(UnusableError, match="changes from 8 x 6 to 6 x 8"):
        list(frames_of(Source(tmp_path, "a", "train"), Cut()))


def test_images_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for i in (1, 2, 10, 9, 100):
        Image.new("L", (4, 4), i).save(tmp_path / f"test_{i}.png")
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / ".hidden.png").write_text("")
    found = [int(image_of(frame)[0, 0, 0]) for frame in image_frames(tmp_path)]
    assert found == [1, 2, 9, 10, 100]


def test_a_photo_is_turned_as_its_camera_says(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to see it
    Image.new("RGB", (6, 4)).save(tmp_path / "1.jpg", exif=exif)
    (frame,) = image_frames(tmp_path)
    assert image_of(frame).shape == (6, 4, 3)


@given(st.lists(st.from_regex(r"[a-c]{0,2}[0-9]{0,3}[a-c]?", fullmatch=True), max_size=8))
def test_natural_order_is_that_of_numbers(names: list[str]) -> None:
    for one, other in pairwise(sorted(names, key=natural)):
        assert natural(one) <= natural(other)
    assert sorted(["f10", "f9", "f1"], key=natural) == ["f1", "f9", "f10"]
    assert sorted(["²2", "²1"], key=natural) == ["²1", "²2"]  # a digit, but no number


def tree(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    return root


def names_and_splits(path: Path) -> dict[str, str]:
    return {item.name: item.split for item in find([path]) if isinstance(item, Source)}


def test_the_tree_of_obj3d_is_read_with_its_splits(tmp_path: Path) -> None:
    folders = [f"{split}/{e}" for split in ("train", "val", "test") for e in (0, 10, 2)]
    frames = [f"{folder}/test_{k}.png" for folder in folders for k in (1, 2)]
    root = tree(tmp_path / "OBJ3D", *frames)
    found = names_and_splits(root)
    assert found == {f"OBJ3D/{s}/{e}": s for s in ("train", "val", "test") for e in (0, 2, 10)}
    assert [n for n in found if "train" in n] == [f"OBJ3D/train/{e}" for e in (0, 2, 10)]
    assert names_and_splits(root / "val") == {f"val/{e}": "val" for e in (0, 2, 10)}


def test_the_tree_of_clevrer_is_read_with_its_splits(tmp_path: Path) -> None:
    kinds = {"train": "train", "validation": "val", "test": "test"}
    videos = [f"video_{kind}/video_00000-01000/video_0000{i}.mp4" for kind in kinds for i in (0, 1)]
    found = names_and_splits(tree(tmp_path / "clevrer", *videos, "video_train/readme.txt"))
    assert found == {f"clevrer/{v}": kinds[v.split("/")[0].removeprefix("video_")] for v in videos}


def test_the_innermost_folder_tells_the_split(tmp_path: Path) -> None:
    root = tree(tmp_path / "test", "a.mp4", "x/train/a.mp4", "training/x/Validation/a.mp4")
    assert list(names_and_splits(root).values()) == ["test", "val", "train"]


def test_other_videos_are_split_by_their_names_alone(tmp_path: Path) -> None:
    names = [f"{i}.mp4" for i in range(200)]
    root = tree(tmp_path / "mine", *names)
    found = names_and_splits(root)
    assert found == {f"mine/{name}": split_of_name(name) for name in names}
    tree(root, "new.mp4")
    assert found.items() <= names_and_splits(root).items()
    assert names_and_splits(root / "7.mp4") == {"7.mp4": found["mine/7.mp4"]}
    counts = [list(found.values()).count(split) for split in ("train", "val", "test")]
    assert [abs(count - wanted) < 20 for count, wanted in zip(counts, (160, 20, 20), strict=True)]


def test_the_split_of_a_name_never_changes() -> None:
    tests = {6, 11, 17}
    found = {i: split_of_name(f"{i}.mp4") for i in range(20)}
    assert found == {i: "test" if i in tests else "train" for i in range(20)}


def test_previews_beside_videos_and_hidden_files_are_left(tmp_path: Path) -> None:
    root = tree(tmp_path / "v", "a.mp4", "a.jpg", ".b.mp4", ".trash/c.mp4", "d/e.GIF", "f.txt")
    assert list(names_and_splits(root)) == ["v/a.mp4", "v/d/e.GIF"]


def test_a_link_that_leads_back_is_not_followed_for_ever(tmp_path: Path) -> None:
    root = tree(tmp_path / "v", "a/a.mp4")
    (root / "a" / "up").symlink_to(root)
    assert list(names_and_splits(root)) == ["v/a/a.mp4"]


def test_what_is_no_video_is_said(tmp_path: Path) -> None:
    root = tree(tmp_path, "empty/readme.txt", "one.png")
    found = list(find([root / "empty", root / "one.png", root / "none"]))
    assert all(isinstance(item, Skipped) for item in found)
    assert [item.reason.split(";")[0] for item in found if isinstance(item, Skipped)] == [
        "this folder has no videos or images",
        "is a single image",
        "does not exist",
    ]
    assert images(root / "empty") == []

"""Tracks: their summary line, pictures of their objects, and files by their endings."""

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import tiny
import tiny_op3
import tiny_scalor
import tiny_silot
import tiny_sqair
import tiny_stove
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.records import map_tensors
from gswm.models.track import Track, check_videos
from gswm.viz.imagination import GENERATED
from gswm.viz.pictures import color

SIDE = 32
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@dataclass(frozen=True)
class Memory:
    """A state: the number of the video or future, and a frame."""

    row: Tensor
    frame: int


def track(*lead: int, objects: int = 2, side: int = SIDE, gray: float = 0.5) -> Track:
    """Objects that stay: number k a third of the image right of number k - 1."""
    xy = torch.tensor([[-0.5 + 2 / 3 * k, 0.25] for k in range(objects)]).reshape(objects, 2)
    number = torch.arange(objects)
    return Track(
        xy.expand(*lead, objects, 2),
        torch.tensor([0.25, 0.125]).expand(*lead, objects, 2),
        torch.zeros(*lead, objects),
        torch.ones(*lead, objects),
        number.expand(*lead, objects),
        reconstruction=torch.full((*lead, 3, side, side), gray),
        background=None,
    )


def with_states(made: Track) -> Track:
    rows = int(np.prod(made.pres.shape[:-2]))
    frames = range(made.pres.shape[-2])
    return replace(made, states=tuple(Memory(torch.arange(rows), frame) for frame in frames))


def imagined(batch: int = 1, futures: int = 2, given: int = 3, steps: int = 4) -> Track:
    """Brighter than the past, each future and each frame brighter than the one before."""
    made = with_states(track(batch, futures, steps))
    bright = 0.5 + 0.1 * torch.arange(futures)[:, None] + 0.01 * torch.arange(steps)
    frames = bright[..., None, None, None].expand(batch, futures, steps, 3, SIDE, SIDE)
    return replace(made, reconstruction=frames, past=track(batch, given, gray=0.25))


def unrendered(made: Track) -> Track:
    past = made.past and replace(made.past, reconstruction=None)
    return replace(made, reconstruction=None, past=past)


def video(batch: int = 1, time: int = 7, height: int = SIDE, width: int = SIDE) -> Tensor:
    """Gray, each frame brighter than the one before, and each video than that."""
    gray = 20 * torch.arange(batch)[:, None] + torch.arange(time)
    return gray[..., None, None, None].expand(-1, -1, 3, height, width).to(torch.uint8)


def painted(frame: np.ndarray, id: int) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of what has an id's color."""
    rows, columns = np.nonzero((frame == color(id)).all(axis=-1))
    return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


def is_marked(frame: np.ndarray) -> bool:
    return bool((frame[0] == GENERATED).all())


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (track(2, 100), "2 videos × 100 frames, up to 2 objects (2.0 per frame), 32 × 32 px"),
        (track(1, 1, objects=1), "1 video × 1 frame, up to 1 object (1.0 per frame), 32 × 32 px"),
        (track(1, 5, objects=0), "1 video × 5 frames, no objects, 32 × 32 px"),
        (unrendered(track(1, 5, objects=0)), "1 video × 5 frames, no objects, not rendered"),
        (
            imagined(1, 16, 10, 90),
            "1 video × 16 futures × 90 frames after 10 given, up to 2 objects (2.0 per frame), "
            "32 × 32 px",
        ),
        (
            replace(imagined(2, 1), past=None),
            "2 videos × 1 future × 4 frames, up to 2 objects (2.0 per frame), 32 × 32 px",
        ),
    ],
)
def test_a_track_is_told_in_a_line(made: Track, line: str) -> None:
    assert repr(made) == str(made) == f"Track: {line}"


def test_a_track_moves_to_a_device_with_all_it_holds() -> None:
    made = replace(imagined(2), states=({"h": torch.zeros(2, 3)},))
    moved = made.to("cpu")
    assert repr(moved) == repr(made)
    assert torch.equal(moved.xy, made.xy)
    assert moved.past is not None
    assert torch.equal(moved.states[0]["h"], made.states[0]["h"])
    with pytest.raises(UserError, match="no device 'gpu'"):
        made.to("gpu")


def test_tracks_can_be_compared_and_kept_in_sets() -> None:
    one, other = track(1, 3), track(1, 3)
    assert one != other
    assert [one, other].index(other) == 1
    assert len({one, other, one}) == 2


@given(
    st.lists(st.integers(0, 3), max_size=2),
    st.integers(0, 4),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_a_line_is_one_line_whatever_the_shape(
    lead: list[int], time: int, objects: int, rendered: bool, past: bool, seed: int
) -> None:
    made = track(*lead, time, objects=objects, side=4)
    random = torch.Generator().manual_seed(seed)
    pres = torch.rand(made.pres.shape, generator=random)
    made = replace(made, pres=pres, past=track(*lead[:1], 3) if past else None)
    text = repr(made if rendered else unrendered(made))
    assert len(text.splitlines()) == 1
    assert len(text) < 120
    assert "tensor" not in text
    there = int((pres > 0.5).sum(dim=-1).max()) if pres.numel() else 0
    assert (f"up to {there} object" in text) if there else ("no objects" in text)


def test_an_object_that_is_not_there_or_has_no_id_does_not_count() -> None:
    made = replace(
        track(1, 1, objects=3),
        pres=torch.tensor([[[0.4, 1.0, 1.0]]]),
        id=torch.tensor([[[0, 1, -1]]]),
    )
    assert made.present.tolist() == [[[False, True, False]]]
    assert made.boxes(0, size=(SIDE, SIDE)).present.tolist() == [[False, True, False]]
    assert made.to_frame()["id"] == [1]
    assert "up to 1 object" in repr(made)


def test_boxes_are_in_pixels_with_width_before_height() -> None:
    boxes = track(1, 2).boxes(0, size=(SIDE, 2 * SIDE))
    assert boxes.xy[0, 0].tolist() == [16, 20]
    assert boxes.wh[0, 0].tolist() == [8, 8]
    assert boxes.ids[1].tolist() == [0, 1]


def test_a_video_of_a_batch_is_a_batch_of_one() -> None:
    made = with_states(imagined(3, 2))
    second = made[1]
    assert len(made) == 3
    assert len(second) == 1
    assert second.pres.shape == (1, 2, 4, 2)
    assert second.past is not None
    assert second.past.pres.shape == (1, 3, 2)
    assert second.state_at(0).row.tolist() == [2, 3]
    assert made[-1].state_at(3).row.tolist() == [4, 5]
    assert made[:2].state_at(3).row.tolist() == [0, 1, 2, 3]
    assert [each.state_at(0).row.tolist() for each in made] == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(IndexError, match="no video 3; the track has 3"):
        made[3]


def test_boxes_are_drawn_around_the_objects_of_a_video() -> None:
    frames = track(2, 7).draw(video(2), episode=1, trail=0)
    assert frames.shape == (7, 4 * SIDE, 4 * SIDE, 3)
    assert frames.dtype == np.uint8
    assert frames[:, 0, 0, 0].tolist() == [20 + t for t in range(7)]
    left, top, right, bottom = painted(frames[0], 0)
    assert (left, right, bottom) == (4 * 6, 4 * 10, 4 * 24)
    assert top < 4 * 16  # the plate with its number is above


def test_boxes_are_drawn_on_the_reconstruction_without_a_video() -> None:
    assert track(1, 3).draw(scale=1)[:, 0, 0].tolist() == [[128] * 3] * 3


def test_a_video_larger_than_the_models_frames_is_drawn_on_as_it_is() -> None:
    frames = track(1, 2).draw(video(height=64, width=128), scale=1, trail=0)
    assert frames.shape == (2, 64, 128, 3)
    assert painted(frames[0], 0) == (24, 32, 40, 48)


def test_floats_and_bytes_are_the_same_picture() -> None:
    bytes_, made = video(), track(1, 7)
    np.testing.assert_array_equal(made.draw(bytes_ / 255), made.draw(bytes_))


@pytest.mark.parametrize("shown", [True, False])
def test_one_future_is_drawn_after_the_given_frames(shown: bool) -> None:
    frames = imagined().draw(video() if shown else None, future=1, scale=1)
    assert frames.shape == (7, SIDE, SIDE, 3)
    assert frames[:3, 0, 0, 0].tolist() == ([0, 1, 2] if shown else [64] * 3)
    assert frames[3:, 5, 5, 0].tolist() == [153, 156, 158, 161]
    assert [is_marked(frame) for frame in frames] == [False] * 3 + [True] * 4


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("past", [True, False])
@pytest.mark.parametrize("futures", [1, 3])
def test_all_futures_are_drawn_beside_each_other(shown: bool, past: bool, futures: int) -> None:
    made = imagined(2, futures)
    made = made if past else replace(made, past=None)
    frames = made.draw(video(2) if shown else None, episode=1, scale=2)
    assert len(frames) == (7 if past else 4)
    large = shown * (1 + past) + (1 if futures == 1 else 2)
    assert frames.shape[2] >= large * 2 * SIDE
    assert (frames.shape[1] > 3 * SIDE) == (futures > 1)


def test_a_drawing_leaves_the_video_as_it_is() -> None:
    shown = video()
    track(1, 7).draw(shown)
    assert torch.equal(shown, video())


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda: unrendered(track(1, 3)).draw(), "pass the video to draw on"),
        (lambda: unrendered(imagined()).draw(), "with render=True"),
        (lambda: unrendered(imagined()).draw(video()), "with render=True"),
        (lambda: track(1, 3).draw(future=0), "omit `future`"),
        (lambda: imagined().draw(future=2), "there is no future 2; the track has 2"),
        (lambda: track(2, 3).draw(episode=2), "there is no video 2; the track has 2"),
        (lambda: imagined().draw(episode=-1), "there is no video -1; the track has 1"),
        (lambda: track(1, 8).draw(video()), "track has 8 frames, but the video has 7"),
        (lambda: imagined(given=8).draw(video()), "track has 8 frames, but the video has 7"),
        (lambda: track(1, 3).draw(video(2)), "track has 1 video, but got 2"),
        (lambda: check_videos(video()[0]), "must have shape (batch, time, 3, height, width)"),
        (lambda: check_videos(video().movedim(2, -1)), "not (1, 7, 32, 32, 3)"),
        (lambda: check_videos(video().numpy()), "a torch tensor"),
        (lambda: check_videos(video().long()), "not torch.int64"),
        (
            lambda: imagined().draw(video(height=64)),
            "have 32 × 32 px, but the video has 32 × 64 px",
        ),
        (lambda: track(1, 3).draw(scale=0), "scale is 0"),
        (lambda: track(1, 3).draw(scale=10**6), "scale is 1000000; it must be from 1 to 16"),
        (lambda: Track.join([]), "no tracks to join"),
        (lambda: Track.join([imagined(), imagined()]), "imagined tracks cannot be joined"),
        (lambda: Track.join([track(1, 3), track(2, 3)]), "the same videos"),
        (lambda: track(1, 3).draw(trail=-1), "trail is -1"),
        (lambda: track(1, 0).draw(), "no frames"),
        (lambda: track(1, 3).imagination(), "no futures"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(draw: Callable[[], object], said: str) -> None:
    with pytest.raises(UserError) as error:
        draw()
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_chunks_join_to_a_track_with_frames_if_all_have_them() -> None:
    rendered, bare = track(1, 3), unrendered(track(1, 2))
    assert Track.join([rendered, rendered]).reconstruction.shape[1] == 6
    joined = Track.join([rendered, bare])
    assert joined.xy.shape[1] == 5
    assert joined.reconstruction is None


@pytest.mark.parametrize("kind", [".gif", ".mp4"])
def test_a_moving_picture_has_the_frame_rate_of_a_film(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{kind}"
    track(1, 3).save(path, fps=29.97)
    assert path.stat().st_size > 0
    with pytest.raises(UserError, match="fps is nan"):
        track(1, 3).save(path, fps=math.nan)


def frames_of(path: Path) -> np.ndarray:
    if path.suffix == ".mp4":
        with av.open(str(path)) as container:
            return np.stack([f.to_ndarray(format="rgb24") for f in container.decode(video=0)])
    with Image.open(path) as image:
        shown = []
        for t in range(getattr(image, "n_frames", 1)):
            image.seek(t)
            shown.append(np.asarray(image.convert("RGB")))
    return np.stack(shown)


@pytest.mark.parametrize("future", [None, 1])
@pytest.mark.parametrize("made", [track(1, 7), imagined()], ids=["seen", "imagined"])
def test_a_moving_picture_is_the_drawing(made: Track, future: int | None, tmp_path: Path) -> None:
    future = future if made.past else None
    for name in ("a.gif", "a.GIF", "b.mp4"):
        made.save(tmp_path / name, video(), future=future, scale=2, trail=3)
    drawn = made.draw(video(), future=future, scale=2, trail=3)
    for name in ("a.gif", "a.GIF", "b.mp4"):
        frames = frames_of(tmp_path / name)
        assert frames.shape[0] == 7
        assert np.abs(frames[:, : drawn.shape[1], : drawn.shape[2]].astype(int) - drawn).mean() < 6
    assert len(list(tmp_path.iterdir())) == 3


def test_frames_per_second_are_those_asked_for(tmp_path: Path) -> None:
    track(1, 3).save(tmp_path / "a.gif", video(), fps=5)
    with Image.open(tmp_path / "a.gif") as image:
        assert image.info["duration"] == 200


def test_a_sheet_has_the_frames_of_the_drawing(tmp_path: Path) -> None:
    made = track(1, 3)
    made.save(str(tmp_path / "a.png"), video(), scale=2, title="three")
    sheet, frames = frames_of(tmp_path / "a.png")[0], made.draw(video(), scale=2)
    windows = np.lib.stride_tricks.sliding_window_view(sheet, (1, 2 * SIDE, 3))[..., 0, :, :]
    for frame in frames:
        assert (windows == frame[0]).all(axis=(-1, -2)).any()


@pytest.mark.parametrize("shown", [True, False])
def test_a_sheet_of_futures_has_a_row_for_each(shown: bool, tmp_path: Path) -> None:
    heights = []
    for futures in (1, 3):
        made, path = imagined(1, futures), tmp_path / f"{futures}.png"
        made.save(path, video() if shown else None, scale=2)
        heights.append(frames_of(path).shape[1])
    assert heights[1] - heights[0] == 3 * (SIDE + 4)  # two futures, and all together
    imagined().save(tmp_path / "one.png", future=1, scale=1)
    assert frames_of(tmp_path / "one.png").shape[1] < 2 * SIDE


@pytest.mark.parametrize("made", [track(2, 3), imagined(2)], ids=["seen", "imagined"])
def test_a_csv_is_the_table(made: Track, tmp_path: Path) -> None:
    made.to_csv(tmp_path / "table.csv")
    unrendered(made).save(tmp_path / "saved.csv")
    whole = (tmp_path / "table.csv").read_text()
    assert (tmp_path / "saved.csv").read_text() == whole
    made.save(tmp_path / "one.csv", episode=1)
    head, *rows = whole.splitlines()
    second = [row for row in rows if row.startswith("1,")]
    assert (tmp_path / "one.csv").read_text().splitlines() == [head, *second]


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("a.avi", {}, "must end in .gif, .mp4, .png, .csv or .txt"),
        ("a", {}, "must end in"),
        ("folder.png", {}, "it is a folder"),
        ("a.gif", {"fps": 0}, "fps is 0"),
        ("a.png", {"scale": 0}, "scale is 0"),
        ("a.png", {"episode": 1}, "there is no video 1"),
        ("a.csv", {"episode": -1}, "there is no video -1"),
        ("a.mp4", {}, "no reconstruction"),
        ("a.png", {}, "no reconstruction"),
    ],
)
@pytest.mark.parametrize("made", [track(1, 3), imagined()], ids=["seen", "imagined"])
def test_a_file_that_cannot_be_written_is_one_line_and_leaves_nothing(
    name: str, settings: dict[str, int], said: str, made: Track, tmp_path: Path
) -> None:
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UserError) as error:
        unrendered(made).save(tmp_path / name, **settings)
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert [file.name for file in tmp_path.rglob("*")] == ["folder.png"]


@pytest.mark.parametrize("ending", ["csv", "png", "gif"])
def test_missing_folders_of_a_file_are_created(ending: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / "one" / f"a.{ending}"
    track(1, 3).save(path, video())
    assert path.is_file()


def test_a_table_of_an_imagination_counts_frames_from_the_first_given(tmp_path: Path) -> None:
    imagined().to_csv(tmp_path / "states.csv", first_episode=5)
    with (tmp_path / "states.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = "episode future frame id x y w h depth presence"
    assert list(rows[0]) == names.split()
    assert {row["episode"] for row in rows} == {"5"}
    frames = {
        number: sorted({int(row["frame"]) for row in rows if row["future"] == number})
        for number in ("-1", "0", "1")
    }
    assert frames == {"-1": [0, 1, 2], "0": [3, 4, 5, 6], "1": [3, 4, 5, 6]}
    assert len(rows) == 2 * (3 + 2 * 4)
    assert [float(rows[0][name]) for name in "xywh"] == [0.25, 0.625, 0.125, 0.25]
    assert list(tmp_path.iterdir()) == [tmp_path / "states.csv"]


def test_a_table_of_what_was_seen_has_no_futures(tmp_path: Path) -> None:
    track(2, 3).to_csv(tmp_path / "new" / "states.csv")
    head, *rows = (tmp_path / "new" / "states.csv").read_text().splitlines()
    assert head == "episode,frame,id,x,y,w,h,depth,presence"
    assert len(rows) == 2 * 3 * 2
    assert rows[-1].startswith("1,2,1,")


def test_a_track_without_objects_is_drawn_and_saved(tmp_path: Path) -> None:
    nobody = track(1, 3, objects=0)
    assert nobody.draw(scale=1).shape == (3, SIDE, SIDE, 3)
    nobody.save(tmp_path / "nobody.csv")
    assert len((tmp_path / "nobody.csv").read_text().splitlines()) == 1


def test_gradients_do_not_keep_a_track_from_being_drawn() -> None:
    made = track(1, 3)
    assert made.reconstruction is not None
    made.reconstruction.requires_grad_()
    made = replace(made, xy=made.xy.clone().requires_grad_())
    assert made.draw(scale=1).shape == (3, SIDE, SIDE, 3)


@pytest.mark.parametrize("device", DEVICES)
def test_a_track_is_shown_wherever_it_is(device: str, tmp_path: Path) -> None:
    made = map_tensors(lambda x: x.to(device), imagined())
    assert repr(made) == repr(imagined())
    np.testing.assert_array_equal(made.draw(video()), imagined().draw(video().to(device)))
    assert made[0].state_at(0).row.device.type == device
    made.save(tmp_path / "a.csv")
    imagined().save(tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


@pytest.mark.parametrize(
    "build",
    [
        *(tiny.lively, tiny_op3.lively, tiny_scalor.lively, tiny_silot.lively),
        *(tiny_sqair.lively, tiny_stove.build),
    ],
    ids=["G-SWM", "OP3", "SCALOR", "SILOT", "SQAIR", "STOVE"],
)
def test_a_video_of_a_batch_goes_on_as_in_the_batch(build: Callable[[], Any]) -> None:
    model = build()
    both = model.infer(tiny.video(2, 3, model.image_size))
    futures = model.imagine_from(both.state_at(-1), 2, futures=2, sample=False)
    alone = model.imagine_from(both[1].state_at(-1), 2, futures=2, sample=False)
    torch.testing.assert_close(alone.xy, futures[1].xy, atol=1e-4, rtol=1e-3)
    again = model.imagine_from(futures[1].state_at(0), 1, sample=False)
    torch.testing.assert_close(again.xy[:, 0, 0], futures[1].xy[0, :, 1], atol=1e-4, rtol=1e-3)
    assert futures[1].draw(scale=1).shape[0] == 2

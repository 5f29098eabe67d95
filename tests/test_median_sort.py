"""The non-learned tracker, on boxes that move over a still background."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gswm.cli import main
from gswm.data.mot import MotBoxes, write_mot
from gswm.eval.median_sort import MedianBackground, MedianSort, detect, follow, median_sort
from gswm.eval.metrics.labelled import score_tracks

HEIGHT, WIDTH, TIME = 60, 80, 24
SETTINGS = MedianSort()


def film(light: bool = False) -> tuple[list[np.ndarray], MotBoxes]:
    """Two rectangles that pass each other, and where they are."""
    rng = np.random.default_rng(0)
    ground = rng.uniform(60, 140, (HEIGHT, WIDTH, 3))
    images, rows = [], []
    for frame in range(1, TIME + 1):
        image = ground + rng.normal(0, 2, ground.shape) + (20 * np.sin(frame) if light else 0)
        for id, (x, y, color) in enumerate(((3 * frame - 8, 10, 250), (70 - 3 * frame, 38, 5)), 1):
            left, right = max(x, 0), min(x + 12, WIDTH)
            if right - left >= 8:
                image[y : y + 10, left:right] = color
                rows.append((frame, id, left, y, right - left, 10))
            elif right > left:
                image[y : y + 10, left:right] = color
                rows.append((frame, -1, left, y, right - left, 10))
        images.append(image.clip(0, 255).astype(np.uint8))
    table = np.array(rows)
    conf = (table[:, 1] > 0).astype(float)
    return images, MotBoxes(*table[:, :2].T.astype(np.int64), table[:, 2:].astype(float), conf)


@pytest.mark.parametrize("light", [False, True])
def test_moving_boxes_are_found_and_kept_apart(light: bool) -> None:
    images, labels = film(light)
    background = MedianBackground.of(images, SETTINGS)
    tracks = follow((detect(image, background, SETTINGS) for image in images), SETTINGS)
    scores = score_tracks(labels, tracks)
    assert scores.f1 == 1
    assert scores.switches == 0
    assert scores.hota > 0.9


def test_nothing_is_found_where_nothing_moves() -> None:
    rng = np.random.default_rng(1)
    still = [rng.normal(100, 2, (HEIGHT, WIDTH, 3)).astype(np.uint8) for _ in range(9)]
    background = MedianBackground.of(still, SETTINGS)
    assert all(len(detect(image, background, SETTINGS)) == 0 for image in still)


def at(*xs: float) -> np.ndarray:
    return np.array([[x, 0, 20, 20] for x in xs], float).reshape(-1, 4)


def test_a_track_survives_a_gap_and_a_short_one_is_no_track() -> None:
    boxes = [at(4 * t) if t not in (8, 9) else at() for t in range(16)]
    boxes[3] = at(12, 300)
    tracks = follow(boxes, SETTINGS)
    assert set(tracks.id.tolist()) == {1}
    assert tracks.frame.tolist() == [t + 1 for t in range(16) if t not in (8, 9)]


def test_a_track_ends_when_it_was_not_seen_for_too_long() -> None:
    boxes = [at(0)] * 4 + [at()] * (SETTINGS.max_age + 1) + [at(0)] * 4
    assert len(set(follow(boxes, SETTINGS).id.tolist())) == 2


def test_nothing_detected_is_nothing_tracked() -> None:
    assert len(follow([at()] * 3, SETTINGS)) == 0


def test_the_command_tracks_a_folder_of_images(tmp_path: Path) -> None:
    images, labels = film()
    folder = tmp_path / "film"
    folder.mkdir()
    for i, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{i}.png")
    tracks, picture = median_sort(folder)
    assert (picture.width, picture.height, picture.frames) == (WIDTH, HEIGHT, TIME)
    assert score_tracks(labels, tracks).f1 == 1
    write_mot(tmp_path / "labels.txt", labels)
    out = tmp_path / "scores.json"
    words = ["eval", str(folder), "--labels", str(tmp_path / "labels.txt")]
    settings = ["--baseline", "median-sort", "--min-height", "0.1", "--json", str(out)]
    assert main([*words, *settings]) == 0
    assert json.loads(out.read_text())["parts"]["all"]["f1"] == 1


def test_boxes_of_large_pictures_are_in_their_own_pixels(tmp_path: Path) -> None:
    images, labels = film()
    for i, image in enumerate(images):
        Image.fromarray(image.repeat(4, 0).repeat(4, 1)).save(tmp_path / f"{i}.png")
    large = MotBoxes(labels.frame, labels.id, 4 * labels.box, labels.conf)
    tracks, picture = median_sort(tmp_path, MedianSort(side=60))
    assert picture.width == 4 * WIDTH
    assert score_tracks(large, tracks).f1 == 1

"""What a model sees and imagines, as two small pictures at each validation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gswm.data.episode import Episodes
from gswm.viz import files as picture_files
from gswm.viz import imagination as tracks
from gswm.viz import pictures
from gswm.viz.pictures import Picture

EPISODES = 2
COLUMNS = 10
FUTURES = 3
SCALE = 1


def write(folder: Path, model: Any, episodes: Episodes, given: int, steps: int) -> None:
    """`tracked.png` and `imagined.png`, of the first episodes."""
    few = episodes[:EPISODES]
    picture_files.save_picture(folder / "tracked.png", tracked(model, few, given + steps))
    picture_files.save_picture(folder / "imagined.png", imagined(model, few, given, steps))


def tracked(model: Any, episodes: Episodes, frames: int) -> Picture:
    """Input, reconstruction, boxes and background, in turn, of each episode."""
    track = model.infer(episodes.video[:, :frames])
    times = spread(frames)
    rows, labels = [], []
    for i in range(len(episodes)):
        seen, video = tracks.one(track, i), pictures.frames_of(episodes, i)[:frames]
        assert seen.reconstruction is not None
        assert seen.background is not None
        boxes = tracks.boxes_of(seen, video.shape[1])
        shown = {"input": video, "reconstruction": tracks.frames_of(seen.reconstruction)}
        shown["boxes"] = pictures.draw_boxes(video, boxes, numbers=False)
        shown["background"] = tracks.frames_of(seen.background)
        labels += list(shown)
        rows += [pictures.enlarge(row[times], SCALE) for row in shown.values()]
    return pictures.sheet(rows, labels, [f"t = {t}" for t in times])


def imagined(model: Any, episodes: Episodes, given: int, steps: int) -> Picture:
    """The truth and some futures below it, of each episode; generated frames have a border."""
    video = episodes.video[:, : given + steps]
    track = model.imagine(video[:, :given], given, steps, futures=FUTURES)
    times = spread(given + steps)
    rows, labels = [], []
    for i in range(len(episodes)):
        true = pictures.true_boxes(episodes, i)
        truth = None if true is None else true[: given + steps]
        shown = tracks.Imagination.of(track, i, pictures.frames_of(episodes, i), truth)
        rows += [shown.true(SCALE, 0), *(shown.future(n, SCALE, 0) for n in range(FUTURES))]
        labels += ["truth", *(f"future {n}" for n in range(FUTURES))]
    return pictures.sheet([row[times] for row in rows], labels, [f"t = {t}" for t in times])


def spread(frames: int) -> Sequence[int]:
    """Some of the frames, evenly, from the first to the last."""
    return np.unique(np.linspace(0, frames - 1, COLUMNS).round().astype(int)).tolist()

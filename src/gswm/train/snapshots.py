"""Two small pictures of tracking and imagination at each validation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gswm.data.episode import Episodes
from gswm.eval.evaluate import actions_of
from gswm.models.base import WorldModel
from gswm.models.track import to_pixels
from gswm.viz import formats, pictures
from gswm.viz.episodes import true_boxes
from gswm.viz.pictures import Picture

EPISODES = 2
COLUMNS = 10
FUTURES = 3
SCALE = 1


def write(
    place: Callable[[], Path],
    model: WorldModel[Any],
    episodes: Episodes,
    given: int,
    steps: int,
) -> None:
    """Write `tracked.png` and `imagined.png` for the first episodes."""
    few = episodes[:EPISODES]
    seen, futures = tracked(model, few, given + steps), imagined(model, few, given, steps)
    folder = place()  # evaluated now, since the run may have been moved
    formats.save_picture(folder / "tracked.png", seen)
    formats.save_picture(folder / "imagined.png", futures)


def tracked(model: WorldModel[Any], episodes: Episodes, frames: int) -> Picture:
    """Input, reconstruction, boxes and, if the model has one, background of each episode."""
    video = episodes.video[:, :frames]
    behind = episodes.background
    track = model.infer(video, actions=actions_of(model, episodes), background=behind)
    times = pictures.spread(frames, COLUMNS)
    rows, labels = [], []
    for i in range(len(episodes)):
        seen = track.clip(i, video=video)
        shown = {"input": seen.frames}
        if track.reconstruction is not None:
            shown["reconstruction"] = to_pixels(track.reconstruction[i])
        shown["boxes"] = seen.draw(1, trail=0)
        if track.background is not None:
            shown["background"] = to_pixels(track.background[i])
        labels += list(shown)
        rows += [pictures.enlarge(row[times], SCALE) for row in shown.values()]
    return pictures.sheet(rows, labels, [f"t = {t}" for t in times])


def imagined(model: WorldModel[Any], episodes: Episodes, given: int, steps: int) -> Picture:
    """Ground truth of each episode above several futures; imagined frames have a border."""
    how: dict[str, Any] = {
        "actions": actions_of(model, episodes),
        "background": episodes.background,
    }
    track = model.imagine(episodes.video[:, :given], given, steps, futures=FUTURES, **how)
    times = pictures.spread(given + steps, COLUMNS)
    rows, labels = [], []
    for i in range(len(episodes)):
        shown = track.imagination(i, episodes.video, true_boxes(episodes, i))
        rows += [shown.true(SCALE, 0), *(shown.future(n, SCALE, 0) for n in range(FUTURES))]
        labels += ["truth", *(f"future {n}" for n in range(FUTURES))]
    return pictures.sheet([row[times] for row in rows], labels, [f"t = {t}" for t in times])

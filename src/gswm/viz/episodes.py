"""Frames and true boxes of an episode, as arrays. `pictures` draws them without torch."""

from gswm.data.episode import Episodes
from gswm.viz.pictures import Frames, PixelBoxes


def frames_of(episodes: Episodes, index: int) -> Frames:
    """The video of one episode."""
    return episodes.video[index].permute(0, 2, 3, 1).cpu().numpy()


def true_boxes(episodes: Episodes, index: int) -> PixelBoxes | None:
    """The true boxes of one episode, if known."""
    if (truth := episodes.truth) is None:
        return None
    return PixelBoxes(
        truth.positions[index].cpu().numpy(),
        truth.boxes_hw()[index].flip(-1).cpu().numpy(),
        truth.ids[index].cpu().numpy(),
        truth.present[index].cpu().numpy(),
    )

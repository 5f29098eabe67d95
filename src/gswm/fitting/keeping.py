"""Compares a fit with its initial weights, without labels, and keeps the better of the two.

Both models track the validation part of the video. With the difference d of its frames from the
background, the foreground F (see `moving`), the boxes B of a model and their union C:

    found   = Σ d² inside C / Σ d²      the share of all change that boxes enclose
    filled  = |F ∩ C| / Σ |B|           the share of all boxes that is foreground
    score   = 2 found · filled / (found + filled)

Missed objects lower `found`. Boxes that are loose, or that join an object and its neighbor, lower
`filled`, and so does a second box of the same object, because its pixels count only once. Weak
differences, like shadows, hardly count in d². A model without objects scores 0. Neither identities
nor the division of an object into adjacent parts change the score.

The initial weights are kept if their score is higher by a clear margin; otherwise the fit is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from gswm.data.looking import moving
from gswm.data.storage.hdf5 import File, open_file
from gswm.eval.metrics.boxes import Boxes
from gswm.models.base import AnyFrame, AnyVideo, WorldModel

MARGIN = 0.1
"""Smallest difference of scores at which the initial weights are kept."""
EPISODES = 16
"""Largest number of episodes of the validation part that are compared, and of the training part
from which the noise is measured.
"""


@dataclass(frozen=True)
class Agreement:
    """The agreement of a model's boxes with what differs from the background."""

    found: float
    filled: float

    @property
    def score(self) -> float:
        """The harmonic mean of both; 0 if both are 0."""
        return 2 * self.found * self.filled / max(self.found + self.filled, 1e-9)

    def to_json(self) -> dict[str, float]:
        """Plain values."""
        return {"score": self.score, "found": self.found, "filled": self.filled}


@dataclass(frozen=True)
class Choice:
    """A fit and its initial weights, compared."""

    fit: Agreement
    start: Agreement
    asked: bool = False
    """Whether the user asked to keep the fit."""

    @property
    def worse(self) -> bool:
        """Whether the fit is clearly worse than its initial weights."""
        return self.start.score - self.fit.score >= MARGIN

    @property
    def keeps_fit(self) -> bool:
        """Whether the fit is kept."""
        return self.asked or not self.worse

    def row(self) -> tuple[str, str, str]:
        """Both scores in words."""
        return (
            "agreement of boxes with what moves, on the validation part",
            f"{self.fit.score:.2f}",
            f"{self.start.score:.2f}",
        )

    def line(self, start: str, fitted: str) -> str:
        """One line about a fit that is worse than its initial weights; empty if it is not.

        Args:
            start: The name of the initial weights.
            fitted: The name of the file with the fit, if the initial weights are kept.
        """
        if not self.worse:
            return ""
        figures = (
            f"on the validation part, boxes agree with what moves by {self.fit.score:.2f} with the "
            f"fit and {self.start.score:.2f} with {start}"
        )
        if self.asked:
            return f"The fit is worse than its start and was kept as requested: {figures}."
        return (
            f"The fit is worse than its start, so {start} was kept: {figures}. The fit is in "
            f"{fitted}; give --keep-fit to keep it all the same."
        )

    def to_json(self, line: str) -> dict[str, Any]:
        """Plain values."""
        kept = "fit" if self.keeps_fit else "start"
        scores = {"fit": self.fit.to_json(), "start": self.start.to_json()}
        return {"kept": kept, "line": line, **scores}


@dataclass(frozen=True)
class Changing:
    """Some episodes of one video, and what differs from its background in them."""

    video: AnyVideo
    background: AnyFrame
    change: Float[Tensor, "episode time size size"]
    """Squared difference from the background, summed over channels."""
    foreground: Bool[Tensor, "episode time size size"]


def compare(
    fit: WorldModel[Any], start: WorldModel[Any], file: Path, *, asked: bool = False
) -> Choice:
    """Compare a fit with its initial weights on the validation part of a prepared video.

    Args:
        fit: The trained model.
        start: The model before training.
        file: The prepared video.
        asked: Whether the user asked to keep the fit.
    """
    parts = validation(file)
    return Choice(agreement(fit, parts), agreement(start, parts), asked)


def validation(file: Path) -> list[Changing]:
    """The validation part of each video in a file."""
    with open_file(file) as stored:
        names = stored.sources or [""] * stored.episodes
        return [of_video(stored, names, name) for name in dict.fromkeys(names)]


def of_video(stored: File, names: Sequence[str], name: str) -> Changing:
    """The validation part of one video; noise is measured in its training part too."""
    own = [i for i, each in enumerate(names) if each == name]
    held, before = (
        some([i for i in stored.of_split(split).tolist() if i in set(own)])
        for split in ("val", "train")
    )
    episodes, earlier = stored.read(held), stored.read(before)
    assert episodes.background is not None
    assert earlier.background is not None
    amounts, changes = [], []
    for video, picture in (
        *zip(earlier.video, earlier.background, strict=True),
        *zip(episodes.video, episodes.background, strict=True),
    ):
        frames = np.ascontiguousarray(video.permute(0, 2, 3, 1).numpy())
        difference, _ = moving.differences(frames, picture.float() / 255)
        amounts.append(moving.magnitude(difference))
        changes.append(np.square(difference).sum(axis=1))
    high = moving.threshold(amounts)
    late = slice(len(before), None)
    masks = [[moving.foreground(each, high) for each in amount] for amount in amounts[late]]
    return Changing(
        episodes.video,
        episodes.background,
        torch.from_numpy(np.stack(changes[late])),
        torch.from_numpy(np.array(masks)),
    )


def some(episodes: list[int]) -> list[int]:
    """At most `EPISODES` of them, evenly spaced."""
    return episodes[:: -(-len(episodes) // EPISODES)] if episodes else episodes


def agreement(model: WorldModel[Any], parts: Sequence[Changing]) -> Agreement:
    """The agreement of a model's boxes with what differs from the background."""
    sums = torch.zeros(4, dtype=torch.float64)
    for part in parts:
        seen = model.infer(
            part.video.to(model.device), render=False, background=part.background.to(model.device)
        )
        sums += sums_of(Boxes.of_track(seen), part.change, part.foreground)
    inside, change, hit, area = sums.tolist()
    return Agreement(inside / max(change, 1e-9), hit / max(area, 1.0))


def sums_of(
    boxes: Boxes,
    change: Float[Tensor, "episode time size size"],
    foreground: Bool[Tensor, "episode time size size"],
) -> Float64[Tensor, "4"]:
    """Sums over all frames: change inside boxes, all change, foreground inside boxes, all boxes.

    A pixel is inside a box if its center is.
    """
    size = change.shape[-1]
    at = (torch.arange(size, dtype=torch.float64) + 0.5) / size
    low, high = boxes.xy - boxes.hw.flip(-1) / 2, boxes.xy + boxes.hw.flip(-1) / 2
    inside = (at >= low[..., None]) & (at < high[..., None]) & boxes.there[..., None, None]
    across, down = inside.double().unbind(dim=-2)
    number = torch.einsum("ntky,ntkx->ntyx", down, across)
    covered = number > 0
    return torch.stack(
        [
            change[covered].double().sum(),
            change.double().sum(),
            (foreground & covered).double().sum(),
            number.sum(),
        ]
    )

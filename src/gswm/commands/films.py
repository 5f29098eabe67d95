"""The user's own videos, for several commands."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gswm.core.errors import UserError
from gswm.core.limits import MOST_TAKEN
from gswm.core.words import printable
from gswm.data.importing.film import Film
from gswm.data.importing.sources import check_one_video
from gswm.data.importing.videos import Cut
from gswm.data.placement import Fit, as_text

OTHER_FITS = {
    "crop": "the central square of each frame (--fit letterbox uses the whole frame)",
    "stretch": "each frame distorted into a square (--fit letterbox adds bars instead)",
}


def check_rate(fps: float | None) -> None:
    """Raise a UserError for an invalid frame rate."""
    if fps is not None and not 0 <= fps <= MOST_TAKEN:
        raise UserError(
            f"--video-fps is {fps:g}; it must be positive and at most {MOST_TAKEN:,}, or 0 for "
            "every frame"
        )


def check_no_episode(video: str | Path, episode: int, split: str | None) -> None:
    """Raise a UserError for an episode or a split of a video, which has neither."""
    for option, asked in (("--episode", episode != 0), ("--split", split is not None)):
        if asked:
            raise UserError(
                f"{option} needs a world or an HDF5 file, unlike {printable(str(video))}: omit it"
            )


def images_of(video: Path) -> list[Path]:
    """The files of a video: itself, or all files of its folder."""
    return list(video.iterdir()) if video.is_dir() else [video]


def own_film(
    path: Path,
    known: Mapping[str, Any],
    size: int,
    fps: float | None,
    fit: Fit | None = None,
    region: str | None = None,
    frames: int | None = None,
    allow_damaged: bool = False,
) -> Film:
    """A video of the user, at most its first `frames` frames.

    It is imported like the training videos (`known`), except for the given settings; a line reports
    settings that are not the defaults.
    """
    check_one_video(path)
    cut, plain = Cut.like(known, size, fps, fit, region), Cut.like({}, size, fps, fit, region)
    if path.is_dir():  # images have no times
        cut, plain = replace(cut, fps=None), replace(plain, fps=None)
    film = Film(path, replace(cut, allow_damaged=allow_damaged), frames)
    _ = film.placement  # raises UserError for an unreadable file before anything is printed
    alike = []
    if cut.fps != plain.fps:
        alike.append(f"{cut.fps:g} frames per second (--video-fps 0 uses all)")
    if cut.fit != plain.fit:
        alike.append(OTHER_FITS[cut.fit])
    if cut.region != plain.region:
        alike.append(f"the region {as_text(cut.region)} (--region all uses the whole frame)")
    if alike:
        print(f"{printable(path.name)}: as in training, {' and '.join(alike)}", file=sys.stderr)
    return film

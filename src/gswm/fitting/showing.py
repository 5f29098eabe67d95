"""Results of a fit: tracks of the video in its own units, imagined futures, and a page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.files import write_whole
from gswm.data.episode import Episodes
from gswm.data.importing.film import Film
from gswm.data.placement import Footage
from gswm.data.storage.hdf5 import open_file
from gswm.eval.forecast import MOST, ForecastScores, Window, forecast, starts, window_length
from gswm.eval.metrics.pixels import decibels, squared_error
from gswm.models.base import WorldModel, as_float
from gswm.report.cells import Table
from gswm.report.drawing import Drawing, Label, Line, Part
from gswm.report.page import Section, figure, movie, page, table_html
from gswm.viz import formats
from gswm.viz.located import Located
from gswm.viz.overlay import save_located
from gswm.viz.pictures import color

FUTURES, SCALE, FPS = 4, 2, 10
TRAIL = 12
"""Length of trails in frames."""
HELD_OUT = "on the held-out end"
WIDTH, HEIGHT, EDGE = 900, 320, 40
"""Size and margin of the drawing of all tracks."""


@dataclass(frozen=True)
class Scores:
    """Scores of a model on the held-out end of its video."""

    inferred: float
    """PSNR of reconstructed given frames, in dB."""
    objects: float
    """Objects found per frame."""
    forecast: ForecastScores

    def rows(self) -> list[tuple[str, str]]:
        """All scores as pairs of a name and a value in words."""
        return [
            ("PSNR of reconstructed frames", f"{self.inferred:.1f} dB"),
            ("objects per frame", f"{self.objects:.2f}"),
            *self.forecast.rows(),
        ]

    def about(self) -> dict[str, Any]:
        """All scores, as the header of a weights file has them."""
        ahead = self.forecast
        return {
            "validation": {"error": 10 ** (-ahead.psnr / 10), "psnr": ahead.psnr},
            "held_out": {"psnr_inferred": self.inferred, "objects": self.objects} | ahead.to_json(),
        }

    def table(self, start: "Scores | None", more: Sequence[tuple[str, str, str]] = ()) -> Table:
        """All scores beside those of the initial weights, and `more` such rows."""
        if start is None:
            return Table("", "", (HELD_OUT, "score"), tuple(self.rows()))
        before = dict(start.rows())
        rows = [(name, value, before.get(name, "–")) for name, value in self.rows()]
        return Table("", "", (HELD_OUT, "this fit", "initial weights"), (*rows, *more))

    def falls_behind(self, start: "Scores") -> str:
        """A sentence if the initial weights reconstruct the held-out frames better; else empty."""
        if self.inferred >= start.inferred:
            return ""
        return (
            " The initial weights reconstruct the held-out frames better "
            f"({start.inferred:.1f} dB against {self.inferred:.1f}): `gswm track` without this "
            "model may find objects better."
        )


@dataclass(frozen=True)
class HeldOut:
    """The end of the video."""

    episodes: Episodes
    footages: tuple[Footage, ...]
    """One for each episode."""

    def windows(self, given: int) -> Iterator[Window]:
        """Windows of all episodes, to be imagined after `given` frames."""
        number, frames = self.episodes.video.shape[:2]
        length, begins = window_length(frames, given), starts(frames, given)
        found = [(i, start) for i in range(number) for start in begins]
        behind = self.episodes.background
        for i, start in found[:: max(1, -(-len(found) // MOST))]:
            which, footage = slice(start, start + length), self.footages[i]
            part = Footage(footage.placement, footage.frames[which], footage.times[which])
            picture = None if behind is None else behind[i]
            yield Window(self.episodes.video[i, which], part, picture)


def held_out(file: Path) -> HeldOut:
    """The episodes at the end of the video."""
    with open_file(file) as stored:
        which = stored.of_split("test").tolist()
        footages = [stored.footage(i) for i in which]
        episodes = stored.read(which)
    known = tuple(each for each in footages if each is not None)
    if len(known) < len(footages):
        raise UserError(f"{file} lacks the sizes of its videos: prepare it again")
    return HeldOut(episodes, known)


def score(model: WorldModel[Any], end: HeldOut, given: int) -> Scores:
    """Measure a model on the held-out end of its video."""
    video, behind = end.episodes.video.to(model.device), end.episodes.background
    seen = model.infer(video, background=None if behind is None else behind.to(model.device))
    ahead = forecast(model, end.windows(given), given)
    assert seen.reconstruction is not None
    assert ahead is not None  # an episode is longer than the given frames
    found = seen.present.float().sum(dim=-1).mean().item()
    return Scores(mean_psnr(seen.reconstruction, as_float(video)), found, ahead)


def mean_psnr(ours: Tensor, true: Tensor) -> float:
    """The mean over videos, in dB."""
    return decibels(squared_error(ours.float().clamp(0, 1), true).double()).mean().item()


def write_tracks(folder: Path, film: Film, rows: Located, name: str = "tracks") -> list[Path]:
    """Write the tracks of a film as a table, as MOTChallenge text, and drawn on its frames."""
    files = [folder / f"{name}.{kind}" for kind in ("csv", "txt", "mp4")]
    for file in files:
        save_located(file, film, rows, TRAIL)
    return files


def nothing_found(rows: Sequence[Located]) -> str:
    """A sentence if a model tracks no object in any of its films; else empty."""
    if not rows or any(map(len, rows)):
        return ""
    return " It finds no objects: train it for longer (--minutes or --steps)."


def imagine(folder: Path, model: WorldModel[Any], episodes: Episodes, given: int) -> Path:
    """Draw futures of a held-out episode beside the ground truth."""
    video = episodes.video[:1].to(model.device)
    behind = None if episodes.background is None else episodes.background[:1].to(model.device)
    steps = video.shape[1] - given
    track = model.imagine(
        video, given, steps, futures=FUTURES, discover="always", background=behind
    )
    file = folder / "imagined.gif"
    formats.save_video(file, track.imagination(0, episodes.video).moving(SCALE, TRAIL), FPS)
    return file


def write_page(
    folder: Path,
    title: str,
    lead: str,
    scores: Table,
    rows: Sequence[Located],
    decisions: Sequence[tuple[str, str, str]],
) -> Path:
    """Write one page with all results; its pictures are files beside it."""
    movies = [movie(f"{stem}.mp4") for stem in track_names(len(rows))]
    drawn = [drawing(each).svg("tracks over time") for each in rows if len(each)]
    chosen = Table("", "", ("setting", "value", "why"), tuple(decisions))
    sections = [
        Section("Objects", "Boxes, ids and trails on the video itself.", tuple(movies)),
        Section(
            "Tracks over time",
            "The horizontal position of each object over time. Each line is one identity; "
            "identities may be confused where lines cross.",
            tuple(figure(each, "Time runs from left to right.") for each in drawn),
        ),
        Section(
            "Imagined futures",
            "The held-out end of the video, on which the model was not trained: ground truth and "
            f"{FUTURES} imagined futures. Imagined frames have a border.",
            (figure('<img alt="imagined futures" src="imagined.gif">', ""),),
        ),
        Section(
            "Scores",
            "Measured on the held-out end of the video. Imagined positions are compared with the "
            "model's own track of the same frames; docs/evaluation.md has the protocol.",
            (table_html(scores),),
        ),
        Section("Decisions", "Settings, each of which has an option.", (table_html(chosen),)),
    ]
    file = folder / "index.html"
    write_whole(file, page(title, lead, sections, "Made by `gswm fit`.").encode())
    return file


def track_names(films: int) -> list[str]:
    """The file names of the tracks of several films."""
    return ["tracks"] if films == 1 else [f"tracks-{i}" for i in range(1, films + 1)]


def drawing(rows: Located) -> Drawing:
    """Draw the horizontal position of each object over time."""
    first, last = rows.frame.min(), max(rows.frame.max(), rows.frame.min() + 1)
    wide = max(1.0, rows.x.max())
    parts: list[Part] = []
    for number in sorted(set(rows.id.tolist())):
        one = rows[rows.id == number]
        x = EDGE + (one.frame - first) / (last - first) * (WIDTH - 2 * EDGE)
        y = EDGE / 2 + one.x / wide * (HEIGHT - EDGE)
        points = tuple(zip(x.tolist(), y.tolist(), strict=True))
        red, green, blue = color(number)
        shade = f"#{red:02x}{green:02x}{blue:02x}"
        parts.append(Line(points if len(points) > 1 else points * 2, shade, 2.0))
    parts.append(Label((EDGE, HEIGHT - 4), f"frame {first}"))
    parts.append(Label((WIDTH - EDGE, HEIGHT - 4), f"frame {last}", anchor="end"))
    return Drawing(WIDTH, HEIGHT, tuple(parts))

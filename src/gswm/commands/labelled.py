"""`gswm eval MODEL VIDEO`: tracks against labelled frames, and rollouts against tracks."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import Any

import torch

from gswm.commands.films import own_film
from gswm.commands.resolving import resolve
from gswm.core.errors import UserError
from gswm.core.waiting import explained, tell
from gswm.data.importing.film import Film
from gswm.data.mot import MotBoxes, read_mot
from gswm.eval.evaluate import finite
from gswm.eval.forecast import ForecastScores, film_windows, forecast, held_out_from
from gswm.eval.median_sort import Picture, median_sort
from gswm.eval.metrics.labelled import TrackScores, score_tracks
from gswm.models.base import WorldModel
from gswm.tracking.backgrounds import BackgroundFrom
from gswm.tracking.following import locate
from gswm.tracking.windows import windows_for
from gswm.viz.located import Located
from gswm.viz.overlay import boxes_of


@dataclass(frozen=True)
class TrackSource:
    """A source of tracks: a file, a baseline or a model."""

    name: str
    tracks: Callable[[], tuple[MotBoxes, Picture | None]]
    """Track the video, or read tracks; also its size and length, if known."""
    model: "VideoModel | None" = None
    """The model, if there is one."""


@dataclass(frozen=True)
class LabelledScores:
    """Scores of tracks on all labelled frames and on the last ones."""

    labels: str
    tracks: str
    min_height: float
    """Minimum height in pixels."""
    parts: dict[str, TrackScores]
    imagination: ForecastScores | None = None
    """Scores of a model's rollouts in the last part of its video; None if that is too short."""
    boxes_from: str | None = None
    """See `WorldModel.boxes_from`; None for tracks that are not a model's."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, with None for undefined scores."""
        ahead = None if self.imagination is None else self.imagination.to_json()
        return finite(asdict(self) | {"imagination": ahead})

    def table(self) -> str:
        """One line for each part of the video."""
        wide = max(map(len, self.parts))
        columns = {field.name: max(len(field.name), 6) for field in fields(TrackScores)}
        lines = ["  ".join([" " * wide, *(f"{name:>{w}}" for name, w in columns.items())])]
        for part, scores in self.parts.items():
            cells = (f"{cell(getattr(scores, name)):>{w}}" for name, w in columns.items())
            lines.append("  ".join([f"{part:{wide}}", *cells]))
        return "\n".join(lines)


def cell(value: int | float) -> str:
    """A count or a score in a table; a dash for an undefined score."""
    if isinstance(value, int):
        return str(value)
    return "-" if isnan(value) else f"{value:.3f}"


def source_of(
    names: list[str],
    tracks: Path | None,
    baseline: str | None,
    device: torch.device,
    half: bool = False,
    allow_damaged: bool = False,
    background: BackgroundFrom = "auto",
) -> TrackSource:
    """Find the tracks to score. `names` are MODEL and VIDEO, or VIDEO alone."""
    if tracks is not None and baseline is not None:
        raise UserError("use either --tracks or --baseline")
    if tracks is None and baseline is None:
        if len(names) == 2:
            video = Path(names[1])
            model = VideoModel(names[0], video, device, half, allow_damaged, background)
            return TrackSource(model.name, model.tracks, model)
        raise UserError(
            "--labels needs tracks to score: use gswm eval MODEL VIDEO, --tracks or --baseline"
        )
    for option, given in (("--half", half), ("--background", background != "auto")):
        if given:
            raise UserError(f"{option} needs a model: specify one, or omit {option}")
    if len(names) > 1:
        raise UserError(f"with --tracks or --baseline, specify only the video, not '{names[0]}'")
    video = Path(names[0]) if names else None
    if tracks is not None:
        return TrackSource(
            str(tracks),
            lambda: (read_mot(tracks), None if video is None else Picture.of(video, allow_damaged)),
        )
    if baseline != "median-sort":
        raise UserError(
            f"'{baseline}' does not track videos; with --labels, use --baseline median-sort"
        )
    if video is None:
        raise UserError(f"--baseline {baseline} needs the video: gswm eval VIDEO --baseline ...")
    return TrackSource(baseline, lambda: median_sort(video, allow_damaged=allow_damaged))


@dataclass(frozen=True)
class VideoModel:
    """A model, and a video to evaluate it on."""

    name: str
    video: Path
    device: torch.device
    half: bool = False
    allow_damaged: bool = False
    background: BackgroundFrom = "auto"
    """The background for tracks; see `background_in`."""

    @cached_property
    def resolved(self) -> tuple[WorldModel[Any], dict[str, Any]]:
        """The model and facts about it."""
        return resolve(self.name, self.device, self.half)

    @cached_property
    def film(self) -> Film:
        """The video, imported like those that the model was trained on."""
        model, about = self.resolved
        known = about["about"].get("videos", {})
        return own_film(self.video, known, model.image_size, None, allow_damaged=self.allow_damaged)

    def tracks(self) -> tuple[MotBoxes, Picture]:
        """The tracks of the model in every frame of the video, as `gswm track` writes them."""
        model, film, place = self.resolved[0], self.film, self.film.placement
        rows = locate(model, *windows_for(model, film, source=self.background))
        every = Located.join(list(boxes_of(film, rows).every(film.source_times)))
        picture = Picture(place.width, place.height, len(film.source_times))
        return every.mot(), picture

    def forecast(self, last: float, labels: MotBoxes | None = None) -> ForecastScores | None:
        """Scores of its rollouts in the last part of the video; None if that is too short.

        Their background is the stored one, or else comes from the frames before that part.
        """
        check_last(last)
        (model, about), film = self.resolved, self.film
        given = about["given"]
        with explained(f"imagining the end of {self.video}"):
            before = Film(film.path, film.cut, held_out_from(film, last))
            behind = model.background_for(before)
            return forecast(model, film_windows(film, given, last, behind), given, labels)


def check_last(last: float) -> None:
    """Raise a UserError unless this is a fraction of the video."""
    if not 0 < last < 1:
        raise UserError(f"--last is {last:g}; it must be between 0 and 1")


def forecast_table(scores: ForecastScores, last: float) -> str:
    """Scores of a model's rollouts, one per line."""
    rows = scores.rows()
    wide = max(len(name) for name, _ in rows)
    lines = [f"imagined in the last {last:.0%}"]
    return "\n".join(lines + [f"  {name:{wide}}  {value}" for name, value in rows])


def score_labelled(
    labels: Path, source: TrackSource, *, frames: int | None, min_height: float, last: float
) -> LabelledScores:
    """Score tracks on all labelled frames, and on those in the last part of the video.

    If the size of the video is known, boxes are clipped at its borders, as labels are.
    """
    check_last(last)
    if not min_height >= 0:
        raise UserError(f"--min-height is {min_height:g}; it must be at least 0")
    if frames is not None and frames < 1:
        raise UserError(f"--frames must be at least 1, not {frames}")
    true = read_mot(labels)
    with explained(f"scoring {source.name} on {labels}"):
        tracks, picture = source.tracks()
    if 0 < min_height < 1:
        if picture is None:
            raise UserError(
                "--min-height is a fraction of the video's height: specify the video too"
            )
        min_height *= picture.height
    if picture is not None:
        tracks = tracks.clipped(picture.width, picture.height)
    elif (tracks.box[:, :2] < 0).any():
        tell("warning: some boxes reach outside the frame: specify the video too, to clip them")
    length = picture.frames if picture is not None else frames
    if length is not None and (beyond := int(true.frame.max(initial=0))) > length:
        raise UserError(
            f"{labels} has a frame {beyond}, but the video has {length} frames: they do not match"
        )
    parts = {"all": score_tracks(true, tracks, min_height=min_height)}
    if length is not None and len(late := true.after((1 - last) * length)):
        parts[f"last {last:.0%}"] = score_tracks(late, tracks, min_height=min_height)
    scores = LabelledScores(str(labels), source.name, min_height, parts)
    if source.model is None:
        return scores
    ahead = source.model.forecast(last, true[true.box[:, 3] > min_height])
    return replace(scores, imagination=ahead, boxes_from=source.model.resolved[0].boxes_from)

"""`gswm.fit`: train a model of a video, and write weights, tracks, futures and a page."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gswm.core.errors import UserError
from gswm.core.files import check_folder, make_folder
from gswm.core.settings import from_dict, to_dict
from gswm.data.importing.film import Film
from gswm.data.importing.sources import Source, find, no_video, path_of
from gswm.data.importing.videos import Cut
from gswm.data.looking.facts import VideoFacts
from gswm.data.looking.measuring import measure
from gswm.data.looking.verdicts import verdicts_on
from gswm.data.placement import Region, as_text, parse_region
from gswm.data.storage.hdf5 import is_name_of_file
from gswm.fast.loading import load
from gswm.fast.replay import replay
from gswm.fast.trainee import accelerate
from gswm.fitting import keeping, resuming, showing
from gswm.fitting.attempts import Budget, Tell, Trained, initial, train_within, with_background
from gswm.fitting.config import OF_MOTION, FitConfig, Learn, check_grid, check_names
from gswm.fitting.decisions import NEW, OWN, Decision, Decisions, logit, settings_for
from gswm.fitting.episodes import FitData, prepare
from gswm.fitting.motion import train_motion
from gswm.fitting.starting import check_start, find_start, read_start
from gswm.models.base import WorldModel
from gswm.models.gswm.gswm import GSWMConfig
from gswm.tracking.following import locate
from gswm.tracking.windows import windows_for
from gswm.weights import files as weights
from gswm.weights.finding import find as find_weights

WEIGHTS, DATA = "weights.safetensors", "video.hdf5"
FITTED = "fitted.safetensors"
"""The fit, if its initial weights are kept as `WEIGHTS`."""
WRITTEN = (DATA, WEIGHTS, FITTED, resuming.ASKED, "index.html", "imagined.gif", "tracks*", "run-*")
"""Files and folders of a fit."""


def fit(
    video: str | Path,
    minutes: float = 8.0,
    *,
    learn: Learn = "all",
    steps: int | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    seed: int = 0,
    region: Region | str | None = None,
    start: str | Path | None = None,
    allow_damaged: bool = False,
    force: bool = False,
    keep_fit: bool = False,
    **decided: Any,
) -> WorldModel[Any]:
    """Fit a model to a video of a fixed camera; the same call resumes an interrupted fit.

        model = gswm.fit("cars.mp4", minutes=8)
        track = model.infer(gswm.read_video("cars.mp4", model.image_size))

    Args:
        video: A video file, a folder of videos, or a file that `gswm fit --prepare` wrote.
        minutes: Time limit for the whole fit.
        learn: "all" trains all networks, for which a GPU is needed. "motion" trains the prior
            alone, and objects are found as by the initial weights; a CPU is enough.
        steps: Number of training steps, instead of a time limit.
        out: The folder for weights, tracks and a page. Default: fits/NAME.
        device: "cpu", "cuda" or "auto".
        seed: Seed of weights, windows and noise.
        region: See `gswm.open_video`.
        start: Initial weights, as `gswm.load` takes them, or "none" for new ones. Default: the
            weights `clips`, if they are available and fit the settings in `decided`.
        allow_damaged: See `gswm.open_video`.
        force: Replace an earlier fit, or files in a folder that gswm did not create.
        keep_fit: Return the fit even if its initial weights find what moves clearly better.
        decided: Settings to use instead of those derived from the video: `image_size`,
            `num_objects`, `grid`, `object_size`, `stride`, `likelihood_std`, `motion_threshold`.
    """
    path = path_of(video)
    folder = Path(out) if out is not None else default_folder(path)
    begin = None if start is None else str(start)
    cfg = FitConfig(
        minutes=minutes,
        learn=learn,
        steps=steps,
        device=device,
        seed=seed,
        region=None if region is None else as_text(parse_region(region)),
        start=begin,
        allow_damaged=allow_damaged,
        force=force,
        keep_fit=keep_fit,
        decided=decided,
    )
    fit_video(path, folder, cfg, print)
    return load(folder / WEIGHTS, device)


def default_folder(video: Path) -> Path:
    """The folder of a fit, named after its video, or after the folder that "." or ".." means."""
    return Path("fits") / Path(os.path.abspath(video)).stem


def fit_video(video: Path, out: Path, cfg: FitConfig, tell: Tell) -> Path:
    """Fit a model to a video, and write everything to `out`; return the page or prepared file."""
    cfg.check()
    budget = Budget.of(cfg.minutes)
    if not video.exists():
        raise no_video(video)
    check_folder(out, WRITTEN, force=cfg.force)
    asked = resuming.asked_of(video, cfg.asked())
    known = resuming.resumes(out, asked, force=cfg.force)
    films: list[Film] = []
    if is_name_of_file(video.name) and not video.is_dir():
        if own := [name for name, value in cfg.decided.items() if value is not None]:
            raise UserError(f"{video} is prepared: {own[0]} was decided when it was made")
        if cfg.region is not None:
            raise UserError(f"{video} is prepared: give --region when you prepare it")
        data = started_by(FitData.read(video), cfg.start)
        make_folder(out, "fit")
        if not known:
            resuming.forget(out)
    elif known and (out / DATA).is_file():
        data = FitData.read(out / DATA)
        size = from_dict(GSWMConfig, data.said["model"]).image_size
        films = films_of(video, size, cfg.region, cfg.allow_damaged)
    else:
        begin = find_start(cfg.start, cfg.decided)
        if cfg.learn == "motion" and begin.value is None:
            raise UserError(f"--learn motion needs initial weights: {begin.reason}")
        facts = measured(video, cfg, tell)
        size = cfg.decided.get("image_size")
        decisions = override(settings_for(facts, begin, size), cfg.decided)
        check_grid(cfg.decided.get("grid"), decisions.image_size.value)
        decisions.model().check()
        films = films_of(video, decisions.image_size.value, cfg.region, cfg.allow_damaged)
        make_folder(out, "fit")
        if not known:
            resuming.forget(out)
        said = said_of(facts, decisions) | {"region": cfg.region}
        # Labels of moving regions, which the prior does not need, are compared with what it finds.
        compared = begin.value if cfg.learn == "all" else None
        begun = compared and load(compared.name, cfg.device)
        data = prepare(films, decisions.stride.value, out / DATA, said, begun)
    if cfg.learn == "motion":
        data = of_motion(data)
    settings = from_dict(GSWMConfig, data.said["model"])
    if (start := data.said.get("start", NEW)) != NEW:
        check_start(start, settings)
    reasons = {name: reason for name, _, reason in data.said["decisions"]}
    tell(f"start {start}: {reasons.get('start', 'as prepared')}")
    tell(f"{data.file}: episodes of {data.frames} frames, {in_words(data)}")
    resuming.remember(out, asked)
    if cfg.prepare:
        return data.file
    trained = train_on(data, settings, video.stem, budget, out, cfg, tell)
    kept = choose(trained, data, tell, keep_fit=cfg.keep_fit)
    page = write_results(out, video.name, films, data, kept, tell)
    resuming.remember(out, asked, kept.to_json())
    return page


def train_on(
    data: FitData,
    settings: GSWMConfig,
    name: str,
    budget: Budget,
    out: Path,
    cfg: FitConfig,
    tell: Tell,
) -> Trained:
    """Train all networks, or the prior alone."""
    common: dict[str, Any] = {"device_name": cfg.device, "make": accelerate(compiled=False)}
    common |= {"batch": cfg.batch, "steps": cfg.steps, "seed": cfg.seed, "tell": tell}
    start = data.said.get("start", NEW)
    if cfg.learn == "motion":
        return train_motion(budget, name, settings, data, out, start, **common)
    return train_within(
        budget,
        name,
        settings,
        data,
        out,
        expected=float(data.said["expected"]),
        start=None if start == NEW else start,
        **common,
    )


def of_motion(data: FitData) -> FitData:
    """Prepared data with the settings of the initial weights, which detect objects as they are."""
    if (start := data.said.get("start", NEW)) == NEW:
        raise UserError(f"{data.file} was prepared without initial weights: give --start NAME")
    rows = [row for row in data.said["decisions"] if row[0] in OF_MOTION]
    model = to_dict(read_start(start).model)
    return replace(data, said=data.said | {"decisions": rows, "model": model})


def started_by(data: FitData, asked: str | None) -> FitData:
    """Prepared data with other initial weights, if the user asks for them."""
    if asked is None:
        return data
    rest = [row for row in data.said["decisions"] if row[0] != "start"]
    said = {"start": asked, "decisions": [("start", asked, OWN), *rest]}
    return replace(data, said=data.said | said)


def measured(video: Path, cfg: FitConfig, tell: Tell) -> VideoFacts:
    """Measure motion in a video, and report problems."""
    facts = measure(video, parse_region(cfg.region)).facts
    for verdict in verdicts_on(facts):
        if not verdict.fatal:
            tell(f"warning: {verdict.line}")
    return facts


def override(decisions: Decisions, asked: Mapping[str, Any]) -> Decisions:
    """Decisions, with the user's own values."""
    check_names(asked)
    own = {name: value for name, value in asked.items() if value is not None}
    if (size := own.pop("object_size", None)) is not None:
        own["hw_prior_mean"] = round(logit(float(size)), 2)
    return replace(decisions, **{name: Decision(value, OWN) for name, value in own.items()})


def films_of(video: Path, size: int, region: str | None, allow_damaged: bool = False) -> list[Film]:
    """All videos at a path, with all of their frames, for a model that takes frames of `size`."""
    found = [each for each in find([video]) if isinstance(each, Source)]
    if not found:
        raise UserError(f"there is no video in {video}")
    part = parse_region(region)
    cut = Cut(size, region=part, allow_damaged=allow_damaged)
    return [Film(source.path, cut) for source in found]


def said_of(facts: VideoFacts, decisions: Decisions) -> dict[str, Any]:
    """The settings stored with the data, which suffice for training elsewhere."""
    fps = None if facts.fps is None else facts.fps / decisions.stride.value
    rows = [(name, shown(each.value), each.reason) for name, each in decisions.items()]
    return {
        "facts": to_dict(facts),
        "decisions": rows,
        "model": to_dict(decisions.model()),
        "start": decisions.start.value,
        "fps": fps if decisions.stride.value > 1 else None,
        "expected": 0.5 * facts.counts.high * max(facts.moving, 0.2),
    }


def shown(value: Any) -> str:
    """A decision's value in words."""
    if isinstance(value, tuple):
        return " to ".join(map(shown, value))
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def in_words(data: FitData) -> str:
    """The number of episodes in each split."""
    return ", ".join(f"{number} {name}" for name, number in data.splits.items())


@dataclass(frozen=True)
class Kept:
    """The model that a fit keeps, beside the other one."""

    trained: Trained
    start: WorldModel[Any] | None = None
    """The model before training, with the settings of the video; None without initial weights."""
    choice: keeping.Choice | None = None

    @property
    def is_fit(self) -> bool:
        """Whether the fit is kept, and not its initial weights."""
        return self.choice is None or self.choice.keeps_fit

    @property
    def line(self) -> str:
        """One line about a fit that is worse than its initial weights; else empty."""
        start = self.trained.start
        return "" if self.choice is None or start is None else self.choice.line(start, FITTED)

    def to_json(self) -> dict[str, Any]:
        """Name the model that is kept, and the reason."""
        return {"kept": "fit"} if self.choice is None else self.choice.to_json(self.line)


def choose(trained: Trained, data: FitData, tell: Tell, *, keep_fit: bool = False) -> Kept:
    """Keep the better of a fit and its initial weights; both get the background of the video.

    With the prior alone trained, both find the same objects, and the fit is kept.
    """
    picture = data.backgrounds[0] if len(data.backgrounds) == 1 else None
    with_background(trained.model, picture)
    if trained.start is None:
        return Kept(trained)
    start = replay(with_background(initial(trained), picture))
    if trained.prior_alone:
        return Kept(trained, start)
    choice = keeping.compare(trained.model, start, data.file, asked=keep_fit)
    kept = Kept(trained, start, choice)
    if kept.line:
        tell(kept.line)
    return kept


def write_results(
    out: Path, name: str, films: list[Film], data: FitData, kept: Kept, tell: Tell
) -> Path:
    """Write weights, tracks, futures and the page."""
    trained, start = kept.trained, kept.start
    given = trained.recipe.data.given
    end = showing.held_out(data.file)
    scores = showing.score(trained.model, end, given)
    before = None if start is None else showing.score(start, end, given)
    known = {key: data.said[key] for key in ("fps", "region") if data.said.get(key) is not None}
    about = {
        "videos": {"fit": "letterbox"} | known,
        "decisions": data.said["decisions"],
        "choice": kept.to_json(),
    }
    steps, tries = trained.steps, trained.attempts
    own = about | {"step": steps, "seed": trained.recipe.seed} | scores.about()
    model, fitted = trained.model, out / (WEIGHTS if kept.is_fit else FITTED)
    weights.save(fitted, model, trained.recipe, half=True, about=own)
    if kept.is_fit:
        (out / FITTED).unlink(missing_ok=True)
    else:
        assert trained.start is not None
        assert start is not None
        assert before is not None
        model, header = start, weights.read_header(find_weights(trained.start))
        recipe = replace(trained.recipe, train=header["recipe"].train)
        theirs = {key: header["about"][key] for key in ("step", "seed") if key in header["about"]}
        about |= theirs | before.about()
        weights.save(out / WEIGHTS, model, recipe, half=True, about=about)
    tell(f"{out / WEIGHTS}")
    rows = []
    for film, behind, stem in zip(
        films, data.backgrounds, showing.track_names(len(films)), strict=False
    ):
        seen = Film(film.path, replace(film.cut, fps=data.said["fps"]))
        rows.append(locate(model, *windows_for(model, seen, 1, stored=behind)))
        showing.write_tracks(out, seen, rows[-1], stem)
    showing.imagine(out, model, end.episodes, given)
    begun = "" if trained.start is None else f" from {trained.start}"
    doubt = "" if before is None or kept.choice is None else scores.falls_behind(before)
    learned = "A model whose prior learned for" if trained.prior_alone else "A model of"
    lead = (
        f"{learned} {steps:,} steps{begun}, at {60_000 * trained.minutes / steps:.0f} ms each"
        + (f", in attempt {tries}" if tries > 1 else "")
        + ("." if trained.finished else "; the time ended before the last step.")
        + showing.nothing_found(rows)
    )
    tell(lead + doubt * (not kept.line))
    lead += f" {kept.line}" if kept.line else doubt
    decisions = [(n, v, why) for n, v, why in data.said["decisions"]]
    table = scores.table(before, () if kept.choice is None else (kept.choice.row(),))
    return showing.write_page(out, f"gswm fit {name}", lead, table, rows, decisions)
